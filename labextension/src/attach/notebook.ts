import type { Cell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { CellList, NotebookPanel } from '@jupyterlab/notebook';
import type { CellChange, ISharedCodeCell } from '@jupyter/ydoc';
import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';

import { isFinal } from '../jobs';
import type { ITraining } from '../tokens';
import type { JobSummary, JobView, SentSweep } from '../wire';
import type { Loss } from './cell';
import { BoundCell } from './cell';
import { muteLocalRun } from './localrun';
import { Originals } from './original';
import { Saver } from './saver';
import { SourceWatch } from './source';
import type { JobStream } from './stream';
import type { JobStreams } from './streams';
import { makeSweepOutput } from './sweep';
import { readPresence, Writer } from './writer';

/** The services that the bindings of a notebook need. */
export interface IBindingServices {
  readonly training: ITraining;
  readonly contents: Contents.IManager;
  /** The streams of jobs, which all notebooks share. */
  readonly streams: Pick<JobStreams, 'acquire' | 'release'>;
  /** Tell the user that a cell no longer shows its job. Called once a cell, and only before the job is over. */
  reportDetached(job: JobView, why: Loss): void;
}

/** The links between the cells of one open notebook and their jobs. */
export class NotebookBindings implements IDisposable {
  constructor(
    readonly panel: NotebookPanel,
    private readonly _services: IBindingServices
  ) {
    const { context, model } = panel;
    this._originals = new Originals(_services.contents, _services.training.client);
    this._saver = new Saver(context, _services.contents);
    this._isShared = model?.collaborative === true;
    const mayWrite = (): boolean => !context.model.readOnly && context.contentsModel?.writable !== false;
    const presence = model !== null && this._isShared ? readPresence(model.sharedModel) : null;
    this._writer = new Writer(presence, mayWrite, context.ready);
    this._writer.begun.connect(this._writeAll, this);
    if (this._isShared) {
      model?.contentChanged.connect(this._scheduleScan, this);
    }
    this._cellList = model?.cells ?? null;
    this._cellList?.changed.connect(this._scheduleScan, this);
    panel.context.fileChanged.connect(this._scheduleScan, this);
    panel.context.pathChanged.connect(this._onPath, this);
    _services.training.jobChanged.connect(this._onJob, this);
    _services.training.outputArrived.connect(this._onOutput, this);
    _services.training.resumed.connect(this._onResumed, this);
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
    this._frames.forEach(frame => window.cancelAnimationFrame(frame));
    this._writer.dispose();
    this._cells.forEach((_, id) => this._drop(id));
    if (!this.panel.context.isDisposed) {
      this.panel.model?.contentChanged.disconnect(this._scheduleScan, this);
    }
    this._cellList?.changed.disconnect(this._scheduleScan, this);
    this.panel.context.fileChanged.disconnect(this._scheduleScan, this);
    this.panel.context.pathChanged.disconnect(this._onPath, this);
    const { training } = this._services;
    training.jobChanged.disconnect(this._onJob, this);
    training.outputArrived.disconnect(this._onOutput, this);
    training.resumed.disconnect(this._onResumed, this);
    this._streams.forEach((stream, job) => {
      stream.changed.disconnect(this._onStream, this);
      this._services.streams.release(job);
    });
    this._saver.dispose();
  }

  /**
   * Bind the target cells of a job that was just sent.
   *
   * Without `save`, the notebook is saved only if it has no unsaved edits of the user.
   */
  async bind(job: JobView, save: boolean): Promise<void> {
    const sources = new Map<string, string>();
    const bindCells = (): void => {
      for (const { cell_id } of job.targets) {
        const model = this._findCodeCell(cell_id);
        const source = model?.sharedModel.getSource() ?? '';
        // The file may have another source by now, which was not sent.
        if (model !== null && source === (sources.get(cell_id) ?? source)) {
          sources.set(cell_id, source);
          muteLocalRun(this._findWidget(cell_id));
          this._add(BoundCell.bind(model, job, this.panel.context.path, this._isShared));
        }
      }
    };
    this._saver.runOwnChange(bindCells);
    this._follow(job);
    this._scrollToJob(job);
    await this._save(save, () => {
      bindCells();
      this._write(this._jobs.get(job.id) ?? job);
    });
  }

  /** Show a sweep that was just sent as the only output of a cell; for `save` see `bind`. */
  async showSweep(cellId: string, sweep: SentSweep, save: boolean): Promise<void> {
    const show = (): void => {
      const model = this._findCodeCell(cellId);
      if (model !== null) {
        this._cells.get(cellId)?.unbind();
        this._drop(cellId);
        muteLocalRun(this._findWidget(cellId));
        model.outputs.fromJSON([makeSweepOutput(sweep)]);
        model.executionCount = null;
      }
    };
    this._saver.runOwnChange(show);
    await this._save(save, show);
  }

  /** Save the notebook, or with `all` false only if it has no unsaved edits of the user; for `again` see the saver. */
  private _save(all: boolean, again: () => void): Promise<void> {
    return all ? this._saver.save(again) : this._saver.saveOwnChanges(again);
  }

  /** Scroll the status line of a job into view: below a long cell the user would not see it. */
  private _scrollToJob(job: JobView): void {
    const widget = this._findWidget(job.targets[0]?.cell_id);
    requestAnimationFrame(() => {
      widget?.node.querySelector('.jp-Cell-outputWrapper')?.scrollIntoView({ block: 'nearest' });
    });
  }

  /** Unbind a cell that is about to run here: its local output wins. */
  handleLocalRun(cellId: string): void {
    const cell = this._cells.get(cellId);
    if (cell !== undefined) {
      this._unbind(cell, 'replaced');
    }
  }

  /** Take the counter of a run here, which has ended, off a cell that shows a job: its output is not that of this run. */
  handleLocalEnd(cellId: string): void {
    const cell = this._cells.get(cellId);
    if (cell !== undefined) {
      this._saver.runOwnChange(() => (cell.model.executionCount = null));
    }
  }

  private _findWidget(id: string | undefined): Cell | undefined {
    return this.panel.content.widgets.find(cell => cell.model.id === id);
  }

  private _findCodeCell(id: string): ICodeCellModel | null {
    for (const model of this.panel.model?.cells ?? []) {
      if (model.id === id && isCode(model)) {
        return model;
      }
    }
    return null;
  }

  private _hasCell(id: string): boolean {
    return Array.from(this.panel.model?.cells ?? []).some(model => model.id === id);
  }

  private _scheduleScan(): void {
    this._scanTimer ??= window.setTimeout(() => void this._scan(), 50);
  }

  /** Find cells that came or went: on opening, after a paste, an undo or a reload of the file. */
  private async _scan(): Promise<void> {
    this._scanTimer = undefined;
    await this.panel.context.ready;
    if (this._isDisposed || this.panel.model === null) {
      return;
    }
    this._originals.clear();
    const present = new Map(
      Array.from(this.panel.model.cells)
        .filter(isCode)
        .map(model => [model.id, model])
    );
    for (const [id, cell] of this._cells) {
      const model = present.get(id);
      if (model !== cell.model || BoundCell.read(model)?.binding.job !== cell.binding.job) {
        this._drop(id);
        if (model === undefined) {
          this._report(cell, this._hasCell(id) ? 'converted' : 'deleted');
        }
      }
    }
    for (const [id, model] of present) {
      const cell = this._cells.has(id) ? null : BoundCell.read(model, this._isShared);
      if (cell !== null) {
        muteLocalRun(this._findWidget(id)); // JupyterLab reattaches the run of a cell whose deletion is undone
        this._add(cell);
        void this._resume(cell);
      }
    }
    this._correct();
  }

  private _add(cell: BoundCell): void {
    this._drop(cell.model.id);
    this._cells.set(cell.model.id, cell);
    this._watches.set(cell.model.id, new SourceWatch(cell.model.sharedModel, () => this._onEdited(cell)));
    if (this._isShared) {
      cell.model.sharedModel.changed.connect(this._onSharedCell, this);
    }
  }

  private _drop(id: string): void {
    const cell = this._cells.get(id);
    this._cells.delete(id);
    this._watches.get(id)?.dispose();
    this._watches.delete(id);
    if (cell !== undefined && this._isShared && !cell.model.isDisposed) {
      cell.model.sharedModel.changed.disconnect(this._onSharedCell, this);
    }
  }

  /** Write what the cell did not get while its source was another one than was sent. */
  private _onEdited(cell: BoundCell): void {
    const job = this._jobs.get(cell.binding.job);
    if (job !== undefined && cell.findRefusal(job) === null && !cell.isSettled(job)) {
      this._follow(job);
    }
  }

  /** Remember that another page may have changed the outputs of a cell. */
  private _onSharedCell(shared: ISharedCodeCell, change: CellChange): void {
    if (change.outputsChange !== undefined || change.streamOutputChange !== undefined) {
      this._suspects.add(shared.getId());
    }
  }

  /** Show, and correct if this page writes, the outputs that another page may have changed. */
  private _correct(): void {
    const cells = [...this._suspects].map(id => this._cells.get(id));
    this._suspects.clear();
    for (const cell of cells) {
      const job = cell === undefined ? undefined : this._jobs.get(cell.binding.job);
      cell?.showShared();
      if (job !== undefined) {
        this._write(job);
      }
    }
  }

  /** Follow the job of a cell that was bound earlier, days ago or before a reload. */
  private async _resume(cell: BoundCell): Promise<void> {
    let job: JobView | null;
    try {
      job = await this._services.training.findJob(cell.binding.job);
    } catch {
      return; // The return of the service starts another attempt.
    }
    const isElsewhere = job !== null && (await this._isCopy(cell, job));
    if (job === null || this._isDisposed) {
      return;
    }
    if (isElsewhere || this._isCellCopy(cell, job)) {
      this._detachCopy(cell, job);
    }
    if (isElsewhere) {
      return;
    }
    this._jobs.set(job.id, job);
    this._services.training.recordJob(job); // for the line, whose buttons need the job, however old it is
    this._claim(cell);
    const refusal = cell.findRefusal(job);
    if (refusal === 'edited') {
      this._report(cell, refusal);
    } else if (refusal === null && !cell.isSettled(job)) {
      this._follow(job);
    }
  }

  /** Return whether the cell is a copy of another cell of this notebook, to which the output of the job goes. */
  private _isCellCopy(cell: BoundCell, job: JobView): boolean {
    return (
      cell.findRefusal(job) === 'foreign' &&
      job.targets.some(target => this._findCodeCell(target.cell_id) !== null)
    );
  }

  /**
   * Take the status line, with its buttons, off a copy unless the job is over and the copy has all of its output: the line
   * is the original's.
   *
   * See docs/decisions/0313-take-the-line-of-a-job-off-copies.md.
   */
  private _detachCopy(cell: BoundCell, job: JobView): void {
    if (!cell.isSettled(job) && this._writer.isHere) {
      this._drop(cell.model.id);
      this._saver.runOwnChange(() => cell.detachCopy());
    }
  }

  /** Return whether this notebook is a copy of the one that the metadata of the cell name. */
  private _isCopy(cell: BoundCell, job: JobView): Promise<boolean> {
    return this._originals.isCopy(this.panel.context.path, cell.path || job.notebook_path, job);
  }

  /** Let the metadata of a cell name this notebook as the one that shows the job. */
  private _claim(cell: BoundCell): void {
    const { path } = this.panel.context;
    this._services.training.recordPath(cell.binding.job, path);
    if (cell.path !== path) {
      this._saver.runOwnChange(() => cell.movePath(path));
    }
  }

  /** Take the bindings along when the notebook is renamed or moved; "Save as" leaves them with the old file. */
  private _onPath(): void {
    this._originals.clear(); // what was asked about the former path
    const known = [...this._cells.values()].map(cell => [cell, this._jobs.get(cell.binding.job)] as const);
    const moves = known.map(async ([cell, job]) => {
      if (job !== undefined && !(await this._isCopy(cell, job)) && !this._isDisposed) {
        this._claim(cell);
      }
    });
    void Promise.all(moves).then(() => this._saver.saveOwnChanges());
  }

  private _follow(job: JobView): void {
    this._jobs.set(job.id, job);
    let stream = this._streams.get(job.id);
    if (stream === undefined) {
      stream = this._services.streams.acquire(job.id);
      this._streams.set(job.id, stream);
      stream.changed.connect(this._onStream, this);
    }
    stream.fetchMore();
    this._write(job);
  }

  private _onJob(_: unknown, news: JobSummary): void {
    const before = this._jobs.get(news.id);
    if (before === undefined) {
      return;
    }
    const job = { ...before, ...news };
    this._jobs.set(job.id, job);
    if (before.phase !== job.phase || before.last_seq !== job.last_seq) {
      this._streams.get(job.id)?.fetchMore();
      this._write(job);
    }
  }

  private _onOutput(_: unknown, news: { job: string }): void {
    this._streams.get(news.job)?.fetchMore();
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
    this._streams.forEach(stream => stream.retry());
    this._cells.forEach(cell => {
      if (!this._jobs.has(cell.binding.job)) {
        void this._resume(cell);
      }
    });
  }

  /** Write what arrived while another page wrote, or while this page was hidden. */
  private _writeAll(): void {
    this._streams.forEach((_, id) => {
      const job = this._jobs.get(id);
      if (job !== undefined) {
        this._write(job);
      }
    });
  }

  private _write(job: JobView): void {
    const stream = this._streams.get(job.id);
    const cells = [...this._cells.values()].filter(cell => cell.binding.job === job.id);
    if (stream === undefined || !this._writer.isHere) {
      this._reportEdited(cells, job);
      return;
    }
    cells.forEach(cell => this._writeCell(cell, job, stream));
    if (cells.some(cell => cell.isBehind)) {
      this._continueSoon(job.id);
    } else if (isFinal(job.phase) && stream.isFinished) {
      void this._saver.saveOwnChanges();
    }
  }

  /** Write the next portion of a job's outputs when the page has shown the last one. */
  private _continueSoon(id: string): void {
    if (!this._frames.has(id)) {
      const frame = window.requestAnimationFrame(() => {
        this._frames.delete(id);
        const job = this._jobs.get(id);
        if (job !== undefined) {
          this._write(job);
        }
      });
      this._frames.set(id, frame);
    }
  }

  /** Tell the user of a page that does not write which of its cells are no longer written. */
  private _reportEdited(cells: readonly BoundCell[], job: JobView): void {
    if (document.visibilityState === 'visible') {
      cells.filter(cell => cell.findRefusal(job) === 'edited').forEach(cell => this._report(cell, 'edited'));
    }
  }

  private _writeCell(cell: BoundCell, job: JobView, stream: JobStream): void {
    cell.showShared();
    const refusal = cell.findRefusal(job);
    if (refusal === 'replaced' || refusal === 'cleared') {
      this._unbind(cell, refusal);
    } else if (refusal === 'edited') {
      this._report(cell, refusal);
    } else if (refusal === null) {
      const outputs = stream.isCaughtUp ? (stream.cells.get(cell.model.id) ?? []) : null;
      const hasEnded = stream.ended.has(cell.model.id);
      this._saver.runOwnChange(() => cell.write(job, outputs, stream.seq, hasEnded));
    }
  }

  private _unbind(cell: BoundCell, why: Loss): void {
    this._drop(cell.model.id);
    this._saver.runOwnChange(() => cell.unbind());
    this._report(cell, why);
  }

  private _report(cell: BoundCell, why: Loss): void {
    const job = this._jobs.get(cell.binding.job);
    const key = `${cell.binding.job} ${cell.model.id}`;
    if (job !== undefined && !isFinal(job.phase) && !this._told.has(key)) {
      this._told.add(key);
      this._services.reportDetached(job, why);
    }
  }

  private readonly _originals: Originals;
  private readonly _saver: Saver;
  private readonly _writer: Writer;
  /** Whether other pages may show the same document. */
  private readonly _isShared: boolean;
  /** Kept here, because a model that is disposed before its notebook has no list any more. */
  private readonly _cellList: CellList | null;
  private readonly _cells = new Map<string, BoundCell>();
  private readonly _watches = new Map<string, SourceWatch>();
  private readonly _jobs = new Map<string, JobView>();
  private readonly _streams = new Map<string, JobStream>();
  private readonly _told = new Set<string>();
  /** Ids of cells whose outputs another page may have changed. */
  private readonly _suspects = new Set<string>();
  /** Frames in which a job's next outputs are written, by the job. */
  private readonly _frames = new Map<string, number>();
  private _scanTimer: number | undefined;
  private _isDisposed = false;
}

function isCode(model: ICellModel): model is ICodeCellModel {
  return model.type === 'code';
}
