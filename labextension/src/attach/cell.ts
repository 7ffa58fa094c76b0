import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';

import { hashSource } from '../bundle/hash';
import type { Step } from '../outputs';
import { toModelOutputs, planSteps, takePortion } from '../outputs';
import { isFinal } from '../jobs';
import type { JobSummary, JobView } from '../wire';
import type { IBinding, IPlaceholder } from './metadata';
import { readBinding, METADATA_KEY, makePlaceholder, findPlaceholder } from './metadata';
import { changeAtOnce, planSharedSteps, showSharedOutputs } from './shared';

/** The reason why a cell is not written: its source or its outputs changed, or it is no target of the job. */
export type Refusal = 'edited' | 'cleared' | 'replaced' | 'foreign';
/** The reason why a cell no longer shows its job; a cell that is converted is not one of code any more. */
export type Loss = Refusal | 'converted' | 'deleted';

/** Characters of outputs that are written at once. The lab draws what is new before the page answers its user again. */
export const PORTION = 64 * 1024;

/**
 * A cell that shows the output of one job.
 *
 * Rules
 * -----
 * 1. The cell is written only while its first output is the job's own placeholder. A local run or cleared outputs win.
 * 2. The cell is written only while its source is the source that was sent.
 * 3. A copy of the cell is never written: the copy has another id, which is not a target of the job.
 * 4. Writing the same outputs again changes nothing.
 * 5. Only outputs that the service delivered are trusted. The outputs of the file are removed before the cell is trusted,
 *    and stay untrusted as long as the outputs of the job are not known.
 * 6. If other pages share the notebook, the outputs in the shared document count, whoever wrote them.
 * 7. Many outputs are written in portions, one for each call of `write`, unless the notebook is shared.
 *
 * See docs/decisions/0003-merge-results-in-the-browser.md.
 * See docs/decisions/0156-let-one-page-write-a-shared-notebook.md.
 * See docs/decisions/0168-write-long-outputs-in-portions.md.
 */
export class BoundCell {
  constructor(
    readonly model: ICodeCellModel,
    readonly binding: IBinding,
    private readonly _isShared = false
  ) {}

  /**
   * Bind a cell to a job that was just sent and return it. The job's placeholder replaces the old outputs.
   *
   * `path` is that of the notebook, with the drive of its contents if there is one. `isShared` tells whether other pages
   * show the same document.
   */
  static bind(model: ICodeCellModel, job: JobView, path = job.notebook_path, isShared = false): BoundCell {
    const source_hash = hashSource(model.sharedModel.getSource());
    const binding = { job: job.id, source_hash, seq: 0, path, ended: false };
    const first = makePlaceholder(job);
    trustOnly(model, [first]);
    model.executionCount = null;
    model.setMetadata(METADATA_KEY, binding);
    const cell = new BoundCell(model, binding, isShared);
    cell._written = [first];
    return cell;
  }

  /** Return the cell with the binding in its metadata; null if the metadata has none. */
  static read(model: ICodeCellModel, isShared = false): BoundCell | null {
    const binding = readBinding(model.getMetadata(METADATA_KEY) as unknown);
    return binding === null ? null : new BoundCell(model, binding, isShared);
  }

  /** Return why the cell must not be written; null if it may be written. */
  findRefusal(job: JobView): Refusal | null {
    if (!job.targets.some(target => target.cell_id === this.model.id)) {
      return 'foreign';
    }
    if (!this._hasPlaceholder()) {
      return this.model.outputs.length === 0 ? 'cleared' : 'replaced';
    }
    return this._isEdited() ? 'edited' : null;
  }

  /** Return whether the job has output that the cell does not get, because its source was edited after it was sent. */
  isWithheld(job: JobSummary): boolean {
    return this.binding.job === job.id && this._isEdited() && this._seq < job.last_seq;
  }

  /**
   * Return whether the file has not been told the end of the job, because the cell's source was edited after it was sent.
   * `placeholder` is the line in the file, which is no longer written from then on.
   */
  isLeftBehind(placeholder: IPlaceholder): boolean {
    return this.binding.job === placeholder.job && this._isEdited() && !isFinal(placeholder.phase);
  }

  /** Return whether the job is over and the cell shows its final state and all of its output. */
  isSettled(job: JobView): boolean {
    const present = findPlaceholder(this._readOutputs());
    return present !== null && present.phase === job.phase && isFinal(job.phase) && this._seq >= job.last_seq;
  }

  /**
   * Show the job's state and outputs up to piece `seq`; return whether something changed. `hasEnded` tells whether these
   * pieces say that the cell ran to its end.
   *
   * With `outputs` null, which means not known yet, the outputs stay as they are. In a shared notebook, call `showShared`
   * before. If `isBehind` is true afterwards, another call writes the next outputs.
   */
  write(job: JobView, outputs: readonly IOutput[] | null, seq: number, hasEnded = false): boolean {
    const present = this._readOutputs();
    const wanted = [makePlaceholder(job), ...(outputs === null ? present.slice(1) : toModelOutputs(outputs))];
    const plan = this._isShared ? planSharedSteps(present, wanted) : planSteps(present, wanted);
    const isDelivered = outputs !== null && !this.model.trusted;
    const whole = isDelivered && plan.length > 0 ? [{ kind: 'rewrite', outputs: wanted } as const] : plan;
    const portion = this._isShared ? { steps: whole, isWhole: true } : takePortion(whole, PORTION);
    this._isBehind = !portion.isWhole;
    this._written = portion.isWhole ? wanted : null;
    if (isDelivered && plan.length > 0) {
      const [first] = portion.steps;
      trustOnly(this.model, first.kind === 'rewrite' ? first.outputs : wanted);
    } else if (!portion.steps.every(step => applyStep(this.model, step))) {
      rewrite(this.model, wanted);
      this._isBehind = false;
      this._written = wanted;
    }
    const isShown = outputs !== null && !this._isBehind;
    return (isShown && this._writeProgress(seq, hasEnded)) || plan.length > 0;
  }

  /** Whether the last call of `write` left outputs for the next one. */
  get isBehind(): boolean {
    return this._isBehind;
  }

  /** Show the outputs of the shared document, where the page shows others. Does nothing if the notebook is not shared. */
  showShared(): void {
    if (this._isShared) {
      showSharedOutputs(this.model);
      this._written = null;
    }
  }

  /** Path of the notebook that shows the job, as its file says; "" if the file does not say it. */
  get path(): string {
    return this._present.path;
  }

  /** Write the present path of the notebook into the metadata. */
  movePath(path: string): void {
    this.model.setMetadata(METADATA_KEY, { ...this._present, path });
  }

  /** Remove the status line of the job and the binding from a copy of the cell; the outputs below the line stay. */
  detachCopy(): void {
    if (this._hasPlaceholder()) {
      rewrite(this.model, this._readOutputs().slice(1));
    }
    this.unbind();
  }

  /** Remove the binding from the metadata, unless the cell is bound to another job by now. */
  unbind(): void {
    if (readBinding(this.model.getMetadata(METADATA_KEY) as unknown)?.job === this.binding.job) {
      this.model.deleteMetadata(METADATA_KEY);
    }
  }

  /** The binding as the metadata have it now. */
  private get _present(): IBinding {
    return (
      readBinding(this.model.getMetadata(METADATA_KEY) as unknown) ?? {
        ...this.binding,
        seq: 0,
        ended: false
      }
    );
  }

  private get _seq(): number {
    return this._present.seq;
  }

  /** Write the number of the last piece, and whether the cell has ended, into the metadata; return whether they changed. */
  private _writeProgress(seq: number, ended: boolean): boolean {
    const present = this._present;
    if (seq === present.seq && ended === present.ended) {
      return false;
    }
    this.model.setMetadata(METADATA_KEY, { ...present, seq, ended });
    return true;
  }

  private _isEdited(): boolean {
    return hashSource(this.model.sharedModel.getSource()) !== this.binding.source_hash;
  }

  private _hasPlaceholder(): boolean {
    const { outputs } = this.model;
    if (outputs.length === 0) {
      return false;
    }
    return findPlaceholder([outputs.get(0).toJSON()])?.job === this.binding.job;
  }

  /** Return the outputs in the model. The outputs are cached until somebody else changes their number. */
  private _readOutputs(): readonly IOutput[] {
    if (this._written === null || this._written.length !== this.model.outputs.length) {
      this._written = this.model.outputs.toJSON();
    }
    return this._written;
  }

  private _written: readonly IOutput[] | null = null;
  private _isBehind = false;
}

/** Trust the cell with these outputs only: to trust the outputs that it has would run their scripts. */
function trustOnly(model: ICodeCellModel, outputs: readonly IOutput[]): void {
  changeAtOnce(model, () => {
    model.outputs.clear();
    model.trusted = true;
    model.outputs.fromJSON([...outputs]);
  });
}

function rewrite(model: ICodeCellModel, outputs: readonly IOutput[]): void {
  changeAtOnce(model, () => model.outputs.fromJSON([...outputs]));
}

/** Apply one step to the model; return false if all outputs must be written instead. */
function applyStep(model: ICodeCellModel, step: Step): boolean {
  const { outputs } = model;
  switch (step.kind) {
    case 'add':
      outputs.add(step.output);
      return true;
    case 'set':
      outputs.set(step.index, step.output);
      return true;
    case 'rewrite':
      rewrite(model, step.outputs);
      return true;
    case 'text':
      return applyTextStep(model, step);
  }
}

/** Change the text of a stream; return whether the model then holds what it should. */
function applyTextStep(model: ICodeCellModel, step: Extract<Step, { kind: 'text' }>): boolean {
  const text = model.outputs.get(step.index).streamText;
  if (text === undefined) {
    return false;
  }
  if (step.keep < text.text.length) {
    text.remove(step.keep, text.text.length);
  }
  if (step.text !== '') {
    text.insert(step.keep, step.text);
  }
  // With undo for the whole document, the shared model echoes the insertion and the text is there twice.
  return text.text.length === step.keep + step.text.length;
}
