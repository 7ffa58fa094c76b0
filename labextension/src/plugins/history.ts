import type { Cell } from '@jupyterlab/cells';
import { CodeCell } from '@jupyterlab/cells';
import type { Notebook } from '@jupyterlab/notebook';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { DisposableSet } from '@lumino/disposable';
import type { IDisposable } from '@lumino/disposable';

import { RunHistory } from '../bundle/history';
import { connect, definePlugin, NotebookAttachments } from '../lifetime';
import { IRunHistory } from '../tokens';

/** The record of the cells that ran in each kernel. */
export const history = definePlugin({
  id: 'jupyter-gq:history',
  description: 'Records the cells that ran in each kernel, in run order.',
  autoStart: true,
  requires: [INotebookTracker],
  provides: IRunHistory,
  activate: ({ owned }, tracker: INotebookTracker): IRunHistory => {
    const runs = new RunHistory();
    owned.add(recordRuns(runs, tracker));
    owned.add(recordRestarts(runs, tracker));
    return runs;
  }
});

const now = (): number => Date.now() / 1000;

/** Record the start and the end of each cell that is run, until the result is disposed. */
function recordRuns(runs: RunHistory, tracker: INotebookTracker): IDisposable {
  const kernelOf = (notebook: Notebook): string | null =>
    tracker.find(panel => panel.content === notebook)?.sessionContext.session?.kernel?.id ?? null;
  const starts = connect(
    NotebookActions.executionScheduled,
    (_: unknown, args: { notebook: Notebook; cell: Cell }) => {
      const kernel = kernelOf(args.notebook);
      if (kernel !== null && args.cell instanceof CodeCell) {
        runs.recordStart(kernel, args.cell.model.id, args.cell.model.sharedModel.getSource(), now());
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
