import type { Cell } from '@jupyterlab/cells';
import { CodeCell } from '@jupyterlab/cells';
import type { Notebook } from '@jupyterlab/notebook';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { DisposableSet } from '@lumino/disposable';
import type { IDisposable } from '@lumino/disposable';

import { RunHistory } from '../bundle/history';
import type { Client } from '../client';
import { connect, definePlugin, NotebookAttachments } from '../lifetime';
import { IRunHistory, ITraining } from '../tokens';
import type { AnnouncedCell } from '../wire';

/** The record of the cells that ran in each kernel. */
export const history = definePlugin({
  id: 'jupyter-gq:history',
  description: 'Records the cells that ran in each kernel, in run order.',
  autoStart: true,
  requires: [INotebookTracker, ITraining],
  provides: IRunHistory,
  activate: ({ owned }, tracker: INotebookTracker, training: ITraining): IRunHistory => {
    const runs = new RunHistory();
    const announcer = new Announcer(training.client);
    owned.add(announcer);
    owned.add(recordRuns(runs, announcer, tracker));
    owned.add(recordRestarts(runs, tracker));
    return runs;
  }
});

const now = (): number => Date.now() / 1000;

/** Milliseconds in which cells are collected, so that "Run All" makes one request. */
const COLLECT = 50;

/** Tells the server which cells were handed to which kernel: a kernel does not tell the ids of cells. */
class Announcer implements IDisposable {
  constructor(private readonly _client: Client) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    window.clearTimeout(this._timer);
  }

  /** Announce a cell, soon. A failure leaves the server without the cell's id; it still knows the code. */
  announce(kernelId: string, cell: AnnouncedCell): void {
    this._waiting.set(kernelId, [...(this._waiting.get(kernelId) ?? []), cell]);
    this._timer ??= window.setTimeout(() => this._send(), COLLECT);
  }

  private _send(): void {
    this._timer = undefined;
    this._waiting.forEach((cells, kernelId) => {
      this._client.announceCells(kernelId, { cells }).catch(() => undefined);
    });
    this._waiting.clear();
  }

  private readonly _waiting = new Map<string, AnnouncedCell[]>();
  private _timer: number | undefined;
  private _isDisposed = false;
}

/** Record the start and the end of each cell that is run, until the result is disposed. */
function recordRuns(runs: RunHistory, announcer: Announcer, tracker: INotebookTracker): IDisposable {
  const kernelOf = (notebook: Notebook): string | null =>
    tracker.find(panel => panel.content === notebook)?.sessionContext.session?.kernel?.id ?? null;
  const starts = connect(
    NotebookActions.executionScheduled,
    (_: unknown, args: { notebook: Notebook; cell: Cell }) => {
      const kernel = kernelOf(args.notebook);
      if (kernel !== null && args.cell instanceof CodeCell) {
        const { id, sharedModel } = args.cell.model;
        const source = sharedModel.getSource();
        runs.recordStart(kernel, id, source, now());
        announcer.announce(kernel, { cell_id: id, source });
      }
    }
  );
  const ends = connect(
    NotebookActions.executed,
    (_: unknown, args: { notebook: Notebook; cell: Cell; success: boolean }) => {
      const kernel = kernelOf(args.notebook);
      if (kernel !== null && args.cell instanceof CodeCell) {
        const { id, executionCount } = args.cell.model;
        runs.recordEnd(kernel, { cellId: id, success: args.success, executionCount, at: now() });
      }
    }
  );
  return DisposableSet.from([starts, ends]);
}

/** Record the restarts of the kernels of all notebooks, until the result is disposed. */
function recordRestarts(runs: RunHistory, tracker: INotebookTracker): IDisposable {
  return new NotebookAttachments(tracker, panel =>
    connect(panel.sessionContext.statusChanged, (context, status) => {
      const kernel = context.session?.kernel;
      if (kernel && (status === 'restarting' || status === 'autorestarting')) {
        runs.recordRestart(kernel.id);
      }
    })
  );
}
