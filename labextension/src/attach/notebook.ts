import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';

import { isFinal } from '../jobs';
import type { ITraining } from '../tokens';
import type { JobView } from '../wire';
import type { Refusal } from './cell';
import { BoundCell } from './cell';
import { Saver } from './saver';
import type { JobStream } from './stream';

/** What the bindings of a notebook need from outside. */
export interface ISurroundings {
  readonly training: ITraining;
  readonly contents: Contents.IManager;
  /** The stream of a job, shared by all cells that show it. */
  stream(job: string): JobStream;
  /** A cell stopped showing its job; told once, and only while the job is under way. */
  detached(job: JobView, why: Refusal | 'deleted'): void;
}

/** Binds the cells of one open notebook to their jobs, as long as it is open. */
export class NotebookBindings implements IDisposable {
  constructor(
    readonly panel: NotebookPanel,
    private readonly _around: ISurroundings
  ) {
    this._saver = new Saver(panel.context, _around.contents);
    panel.model?.cells.changed.connect(this._scheduleScan, this);
    panel.context.fileChanged.connect(this._scheduleScan, this);
    _around.training.jobChanged.connect(this._onJob, this);
    _around.training.outputArrived.connect(this._onOutput, this);
    _around.training.resumed.connect(this._onResumed, this);
    document.addEventListener('visibilitychange', this._onVisibility);
    panel.disposed.connect(() => this.dispose());
    void this._scan();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    window.clearTimeout(this._scanTimer);
    document.removeEventListener('visibilitychange', this._onVisibility);
    const { training } = this._around;
    training.jobChanged.disconnect(this._onJob, this);
    training.outputArrived.disconnect(this._onOutput, this);
    training.resumed.disconnect(this._onResumed, this);
    this._streams.forEach(stream => stream.changed.disconnect(this._onStream, this));
    this._saver.dispose();
  }

  /** Binds the targets of a job that was just sent, and saves the notebook when told to. */
  async begin(job: JobView, save: boolean): Promise<void> {
    this._saver.ours(() => {
      for (const target of job.targets) {
        const model = this._codeCell(target.cell_id);
        if (model !== null) {
          this._cells.set(model.id, BoundCell.begin(model, job));
        }
      }
    });
    this._follow(job);
    this._show(job);
    await (save ? this._saver.save() : this._saver.saveIfOurs());
  }

  /** Brings the line of a job that was just sent into view: below a long cell it would not be seen. */
  private _show(job: JobView): void {
    const widget = this.panel.content.widgets.find(cell => cell.model.id === job.targets[0]?.cell_id);
    requestAnimationFrame(() => {
      widget?.node.querySelector('.jp-Cell-outputWrapper')?.scrollIntoView({ block: 'nearest' });
    });
  }

  /** A cell is about to run here: its local output wins. */
  runsHere(cellId: string): void {
    const cell = this._cells.get(cellId);
    if (cell !== undefined) {
      this._release(cell, 'replaced');
    }
  }

  private _codeCell(id: string): ICodeCellModel | null {
    for (const model of this.panel.model?.cells ?? []) {
      if (model.id === id && isCode(model)) {
        return model;
      }
    }
    return null;
  }

  private _scheduleScan(): void {
    window.clearTimeout(this._scanTimer);
    this._scanTimer = window.setTimeout(() => void this._scan(), 50);
  }

  /** Finds cells that came or went: on opening, after a paste, an undo, a reload of the file. */
  private async _scan(): Promise<void> {
    await this.panel.context.ready;
    if (this._isDisposed || this.panel.model === null) {
      return;
    }
    const present = new Map(
      Array.from(this.panel.model.cells)
        .filter(isCode)
        .map(model => [model.id, model])
    );
    for (const [id, cell] of this._cells) {
      if (present.get(id) !== cell.model) {
        this._cells.delete(id);
        if (!present.has(id)) {
          this._tell(cell, 'deleted');
        }
      }
    }
    for (const [id, model] of present) {
      const cell = this._cells.has(id) ? null : BoundCell.of(model);
      if (cell !== null) {
        this._cells.set(id, cell);
        void this._resume(cell);
      }
    }
  }

  /** A cell that was bound earlier: days ago, or before a reload. */
  private async _resume(cell: BoundCell): Promise<void> {
    let job: JobView | null;
    try {
      job = await this._around.training.job(cell.binding.job);
    } catch {
      return; // Tried again when the service is back.
    }
    if (job === null || this._isDisposed) {
      return;
    }
    this._jobs.set(job.id, job);
    const refusal = cell.refusal(job);
    if (refusal === 'edited') {
      this._tell(cell, refusal);
    } else if (refusal === null && !cell.isSettled(job)) {
      this._follow(job);
    }
  }

  private _follow(job: JobView): void {
    this._jobs.set(job.id, job);
    let stream = this._streams.get(job.id);
    if (stream === undefined) {
      stream = this._around.stream(job.id);
      this._streams.set(job.id, stream);
      stream.changed.connect(this._onStream, this);
    }
    stream.pull();
    this._write(job);
  }

  private _onJob(_: unknown, job: JobView): void {
    const before = this._jobs.get(job.id);
    if (before === undefined) {
      return;
    }
    this._jobs.set(job.id, job);
    if (before.phase !== job.phase || before.last_seq !== job.last_seq) {
      this._streams.get(job.id)?.pull();
      this._write(job);
    }
  }

  private _onOutput(_: unknown, news: { job: string }): void {
    this._streams.get(news.job)?.pull();
  }

  private _onStream(stream: JobStream): void {
    for (const [id, known] of this._streams) {
      const job = this._jobs.get(id);
      if (known === stream && job !== undefined) {
        this._write(job);
      }
    }
  }

  private _onResumed(): void {
    this._streams.forEach(stream => stream.pull());
    this._cells.forEach(cell => {
      if (!this._jobs.has(cell.binding.job)) {
        void this._resume(cell);
      }
    });
  }

  /** A hidden tab leaves the notebook alone, so that two tabs of it do not both change the file. */
  private readonly _onVisibility = (): void => {
    if (document.visibilityState === 'visible') {
      this._streams.forEach((_, id) => {
        const job = this._jobs.get(id);
        if (job !== undefined) {
          this._write(job);
        }
      });
    }
  };

  private _write(job: JobView): void {
    const stream = this._streams.get(job.id);
    if (stream === undefined || document.visibilityState === 'hidden') {
      return;
    }
    const cells = [...this._cells.values()].filter(cell => cell.binding.job === job.id);
    cells.forEach(cell => this._writeCell(cell, job, stream));
    if (isFinal(job.phase) && stream.finished) {
      void this._saver.saveIfOurs();
    }
  }

  private _writeCell(cell: BoundCell, job: JobView, stream: JobStream): void {
    const refusal = cell.refusal(job);
    if (refusal === 'replaced') {
      this._release(cell, refusal);
    } else if (refusal === 'edited') {
      this._tell(cell, refusal);
    } else if (refusal === null) {
      const outputs = stream.caughtUp ? (stream.cells.get(cell.model.id) ?? []) : null;
      this._saver.ours(() => cell.write(job, outputs, stream.seq));
    }
  }

  private _release(cell: BoundCell, why: Refusal): void {
    this._cells.delete(cell.model.id);
    this._saver.ours(() => cell.release());
    this._tell(cell, why);
  }

  private _tell(cell: BoundCell, why: Refusal | 'deleted'): void {
    const job = this._jobs.get(cell.binding.job);
    const key = `${cell.binding.job} ${cell.model.id}`;
    if (job !== undefined && !isFinal(job.phase) && !this._told.has(key)) {
      this._told.add(key);
      this._around.detached(job, why);
    }
  }

  private readonly _saver: Saver;
  private readonly _cells = new Map<string, BoundCell>();
  private readonly _jobs = new Map<string, JobView>();
  private readonly _streams = new Map<string, JobStream>();
  private readonly _told = new Set<string>();
  private _scanTimer: number | undefined;
  private _isDisposed = false;
}

function isCode(model: ICellModel): model is ICodeCellModel {
  return model.type === 'code';
}
