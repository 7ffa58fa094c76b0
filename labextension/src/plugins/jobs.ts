import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { ICellModel } from '@jupyterlab/cells';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import { actOnJob, cancelAll, cancelJob, changeJob, deleteJob } from '../acts';
import { goToCell } from '../attach/locate';
import { confirmFromLine } from '../focus';
import { isCancellable, isFinal, listUnbegun } from '../jobs';
import { definePlugin } from '../lifetime';
import { listLoadable, makeLoadingCode } from '../results';
import { CommandIDs, ITraining, JOB_ARGS, NO_ARGS } from '../tokens';
import type { JobView } from '../wire';

/** The commands about jobs, behind the buttons of the panel and of the status line under a cell. */
export const jobs = definePlugin({
  id: 'jupyter-gq:jobs',
  description: 'Adds the commands about jobs: hold, release, cancel, result, cell.',
  autoStart: true,
  requires: [ITraining],
  optional: [INotebookTracker, IDocumentManager],
  activate: (
    { app, owned, trans },
    training: ITraining,
    tracker: INotebookTracker | null,
    documents: IDocumentManager | null
  ): void => {
    const addCommand = (id: string, label: string, act: (job: JobView) => Promise<unknown>): void => {
      const command = app.commands.addCommand(id, {
        label,
        describedBy: { args: JOB_ARGS },
        execute: args => actOnJob(training, args, trans, act)
      });
      owned.add(command);
    };
    addCommand(CommandIDs.cancelJob, trans.__('Cancel Job'), job => cancel(training, tracker, job, trans));
    addCommand(CommandIDs.deleteJob, trans.__('Delete Job…'), job => askAndDelete(training, job, trans));
    addCommand(CommandIDs.holdJob, trans.__('Hold Job'), job => changeJob(training, job.id, { held: true }));
    addCommand(CommandIDs.releaseJob, trans.__('Release Held Job'), job =>
      changeJob(training, job.id, { held: false })
    );
    owned.add(
      app.commands.addCommand(CommandIDs.cancelWaiting, {
        label: trans.__('Cancel Jobs That Wait'),
        describedBy: { args: NO_ARGS },
        execute: () => cancelWaiting(training, trans)
      })
    );
    addCommand(CommandIDs.openResult, trans.__('Open Result of Job'), job =>
      openResult(app, documents, training, job)
    );
    addCommand(CommandIDs.loadResults, trans.__('Load Results of Job into Notebook'), job =>
      loadResults(app, tracker, training, job, trans)
    );
    addCommand(CommandIDs.goToCell, trans.__('Go to Cell of Job'), async job => {
      await goToCell(app, tracker, job, trans);
    });
  }
});

/** Ask the user, then cancel the job. */
async function cancel(
  training: ITraining,
  tracker: INotebookTracker | null,
  job: JobView,
  trans: TranslationBundle
): Promise<void> {
  if (!isCancellable(job)) {
    return;
  }
  const confirm = async (): Promise<boolean> => {
    const { button } = await showDialog({
      title: trans.__('Cancel “%1”?', job.name),
      body: trans.__('The job stops and loses its place in the queue. The output so far is kept.'),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Keep it') }),
        Dialog.warnButton({ label: trans.__('Cancel job') })
      ]
    });
    return button.accept;
  };
  if (await confirmFromLine(tracker, confirm)) {
    await cancelJob(training, job.id);
  }
}

/** Ask the user, then delete the job, if it has ended. */
async function askAndDelete(training: ITraining, job: JobView, trans: TranslationBundle): Promise<void> {
  if (!isFinal(job.phase)) {
    return;
  }
  const { button } = await showDialog({
    title: trans.__('Delete “%1”?', job.name),
    body: trans.__(
      'Its output, log, results and, except on Kubernetes, checkpoints are deleted for good. Cells keep their output.'
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Keep it') }),
      Dialog.warnButton({ label: trans.__('Delete job') })
    ],
    // Enter keeps the job: a second press of the key that opened the dialog must not delete what cannot be had back.
    defaultButton: 0
  });
  if (button.accept) {
    await deleteJob(training, job.id, trans);
  }
}

/** Ask the user, then cancel the known jobs that have not begun. A failure is shown in one notification. */
async function cancelWaiting(training: ITraining, trans: TranslationBundle): Promise<void> {
  const asked = new Set(listUnbegun(training.state.jobs).map(job => job.id));
  if (asked.size === 0) {
    return;
  }
  const answer = await showDialog({
    title: trans._n('Cancel the job that waits?', 'Cancel the %1 jobs that wait?', asked.size),
    body: trans.__(
      'The jobs lose their places in the queue. Jobs that have begun stay, also paused ones, and so do held jobs.'
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Keep them') }),
      Dialog.warnButton({ label: trans.__('Cancel jobs') })
    ]
  });
  if (answer.button.accept) {
    // Some may have begun while the user was asked.
    const waiting = listUnbegun(training.state.jobs).filter(job => asked.has(job.id));
    await cancelAll(
      training,
      waiting.map(job => job.id),
      trans
    );
  }
}

/** Preference for a notebook that is only read: no kernel starts, and none is asked for. */
const NO_KERNEL = { shouldStart: false, autoStartDefault: false };

/** Copy the executed notebook into the user's folder and open it, without a kernel where JupyterLab can do so. */
async function openResult(
  app: JupyterFrontEnd,
  documents: IDocumentManager | null,
  training: ITraining,
  job: JobView
): Promise<void> {
  const path = await training.client.copyResult(job.id);
  if (documents === null) {
    await app.commands.execute('docmanager:open', { path });
  } else {
    documents.openOrReveal(path, undefined, undefined, undefined, NO_KERNEL);
  }
}

/** The cells that load variables at this moment. */
const LOADING = new WeakSet<ICellModel>();

/**
 * Load the variables of a job by a cell below the cell of the job, which runs in the user's kernel.
 *
 * The user sees the code that runs, and can run it again after a restart. A cell with the same code is used again. While
 * that cell loads, it is only shown: a second run would clear the error of the first one, and be dropped by that error.
 * See docs/decisions/0117-load-results-by-a-cell-that-the-user-sees.md.
 */
async function loadResults(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  training: ITraining,
  job: JobView,
  trans: TranslationBundle
): Promise<void> {
  const names = listLoadable(await training.client.getResults(job.id)).map(variable => variable.name);
  if (names.length === 0) {
    throw new Error(trans.__('The job has brought no variable back. Its details in the panel say why.'));
  }
  const panel = await goToCell(app, tracker, job, trans);
  if (panel === null) {
    return;
  }
  const code = makeLoadingCode(job.id, names);
  const { content } = panel;
  const following = content.widgets[content.activeCellIndex + 1];
  if (following?.model.sharedModel.getSource() === code) {
    content.activeCellIndex += 1;
  } else {
    NotebookActions.insertBelow(content);
    content.activeCell?.model.sharedModel.setSource(code);
  }
  const model = content.activeCell?.model;
  if (model === undefined || LOADING.has(model)) {
    return;
  }
  LOADING.add(model);
  try {
    await NotebookActions.run(content, panel.sessionContext);
  } finally {
    LOADING.delete(model);
  }
}
