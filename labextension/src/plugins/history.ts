import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { CodeCell } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';

import { RunHistory } from '../bundle/history';
import { IRunHistory } from '../tokens';

/** Keeps which cells ran in which kernel. */
export const history: JupyterFrontEndPlugin<IRunHistory> = {
  id: 'jupyter-gq:history',
  description: 'Keeps which cells ran in which kernel, in run order.',
  autoStart: true,
  requires: [INotebookTracker],
  provides: IRunHistory,
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker): IRunHistory => {
    const runs = new RunHistory();
    connectRuns(runs, tracker);
    connectRestarts(runs, tracker);
    return runs;
  }
};

const now = (): number => Date.now() / 1000;

function connectRuns(runs: RunHistory, tracker: INotebookTracker): void {
  const kernelOf = (notebook: Notebook): string | null =>
    tracker.find(panel => panel.content === notebook)?.sessionContext.session?.kernel?.id ?? null;
  NotebookActions.executionScheduled.connect((_: unknown, args: { notebook: Notebook; cell: Cell }) => {
    const kernel = kernelOf(args.notebook);
    if (kernel !== null && args.cell instanceof CodeCell) {
      runs.scheduled(kernel, args.cell.model.id, args.cell.model.sharedModel.getSource(), now());
    }
  });
  NotebookActions.executed.connect(
    (_: unknown, args: { notebook: Notebook; cell: Cell; success: boolean }) => {
      const kernel = kernelOf(args.notebook);
      if (kernel !== null && args.cell instanceof CodeCell) {
        const { id, executionCount } = args.cell.model;
        runs.executed(kernel, { cellId: id, success: args.success, executionCount, at: now() });
      }
    }
  );
}

function connectRestarts(runs: RunHistory, tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_: unknown, panel: NotebookPanel) => {
    panel.sessionContext.statusChanged.connect((context, status) => {
      const kernel = context.session?.kernel;
      if (kernel && (status === 'restarting' || status === 'autorestarting')) {
        runs.restarted(kernel.id);
      }
    });
  });
}
