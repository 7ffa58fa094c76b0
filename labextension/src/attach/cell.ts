import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';

import { hashSource } from '../bundle/hash';
import type { Step } from '../outputs';
import { shown, steps } from '../outputs';
import { isFinal } from '../jobs';
import type { JobView } from '../wire';
import type { IBinding } from './metadata';
import { bindingOf, METADATA_KEY, placeholder, placeholderOf } from './metadata';

/** Why a cell is left alone. */
export type Refusal = 'edited' | 'replaced' | 'foreign';

/**
 * One cell that shows the output of one job.
 *
 * Rules
 * -----
 * 1. It writes only while the first output is the job's own placeholder: a local run, or cleared outputs, win.
 * 2. It writes only while the source is the one that was sent.
 * 3. A copy of the cell has another id, which is no target of the job: it is never written.
 * 4. Writing the same outputs again changes nothing.
 */
export class BoundCell {
  constructor(
    readonly model: ICodeCellModel,
    readonly binding: IBinding
  ) {}

  /** Binds a cell to a job that was just sent: its old outputs give way to the placeholder. */
  static begin(model: ICodeCellModel, job: JobView): BoundCell {
    const binding = { job: job.id, source_hash: hashSource(model.sharedModel.getSource()), seq: 0 };
    const first = placeholder(job);
    model.trusted = true;
    model.outputs.fromJSON([first]);
    model.executionCount = null;
    model.setMetadata(METADATA_KEY, binding);
    const cell = new BoundCell(model, binding);
    cell._written = [first];
    return cell;
  }

  /** The cell's binding as its metadata says; null when it has none. */
  static of(model: ICodeCellModel): BoundCell | null {
    const binding = bindingOf(model.getMetadata(METADATA_KEY) as unknown);
    return binding === null ? null : new BoundCell(model, binding);
  }

  /** Why it must not be written; null when it may. */
  refusal(job: JobView): Refusal | null {
    if (!job.targets.some(target => target.cell_id === this.model.id)) {
      return 'foreign';
    }
    if (!this._hasPlaceholder()) {
      return 'replaced';
    }
    return hashSource(this.model.sharedModel.getSource()) === this.binding.source_hash ? null : 'edited';
  }

  /** The file already holds all of a job that is over. */
  isSettled(job: JobView): boolean {
    const present = placeholderOf(this._present());
    return present !== null && present.phase === job.phase && isFinal(job.phase) && this._seq >= job.last_seq;
  }

  /** Shows the job's state and, unless they are not known yet (null), its outputs. True when something changed. */
  write(job: JobView, outputs: readonly IOutput[] | null, seq: number): boolean {
    const present = this._present();
    const wanted = [placeholder(job), ...(outputs === null ? present.slice(1) : shown(outputs))];
    const plan = steps(present, wanted);
    if (plan.length > 0) {
      this.model.trusted = true;
      if (!plan.every(step => apply(this.model, step))) {
        this.model.outputs.fromJSON(wanted);
      }
    }
    this._written = wanted;
    return this._note(outputs === null ? this._seq : seq) || plan.length > 0;
  }

  /** The job's output no longer belongs here. */
  release(): void {
    if (bindingOf(this.model.getMetadata(METADATA_KEY) as unknown)?.job === this.binding.job) {
      this.model.deleteMetadata(METADATA_KEY);
    }
  }

  private get _seq(): number {
    return bindingOf(this.model.getMetadata(METADATA_KEY) as unknown)?.seq ?? 0;
  }

  private _note(seq: number): boolean {
    if (seq === this._seq) {
      return false;
    }
    this.model.setMetadata(METADATA_KEY, { ...this.binding, seq });
    return true;
  }

  private _hasPlaceholder(): boolean {
    const { outputs } = this.model;
    if (outputs.length === 0) {
      return false;
    }
    return placeholderOf([outputs.get(0).toJSON()])?.job === this.binding.job;
  }

  /** What the model holds: remembered while nobody else changed their number, read otherwise. */
  private _present(): readonly IOutput[] {
    if (this._written === null || this._written.length !== this.model.outputs.length) {
      this._written = this.model.outputs.toJSON();
    }
    return this._written;
  }

  private _written: readonly IOutput[] | null = null;
}

/** Carries out one step; false when the model does not hold what it should, and all must be written anew. */
function apply(model: ICodeCellModel, step: Step): boolean {
  const { outputs } = model;
  switch (step.kind) {
    case 'add':
      outputs.add(step.output);
      return true;
    case 'set':
      outputs.set(step.index, step.output);
      return true;
    case 'rewrite':
      outputs.fromJSON([...step.outputs]);
      return true;
    case 'text':
      return applyText(model, step);
  }
}

function applyText(model: ICodeCellModel, step: Extract<Step, { kind: 'text' }>): boolean {
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
  // With document-wide undo the shared model echoes the insertion, and it is there twice.
  return text.text.length === step.keep + step.text.length;
}
