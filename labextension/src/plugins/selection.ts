/** The commands about several jobs, and those that change what a waiting job asks for, behind the buttons of the panel. */

import { Dialog, InputDialog, Notification, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import { actOnJob, cancelAll, changeJob, tellProblems } from '../acts';
import { describeError, isProblem } from '../client';
import { confirmFromLine } from '../focus';
import { warnOfMove } from '../jobs';
import { listOtherQueues } from '../queues';
import { definePlugin } from '../lifetime';
import type { IRefusedChange, IWrittenChange } from '../panel/changeform';
import { ChangeForm } from '../panel/changeform';
import { forEachPaced } from '../paced';
import { toProblem } from '../send/problems';
import { describeOffer } from '../send/values';
import { CommandIDs, ITraining, JOB_ARGS, JOBS_ARGS, readJobIds } from '../tokens';
import type { JobChange, JobView, Problem } from '../wire';

export const selection = definePlugin({
  id: 'jupyter-gq:selection',
  description:
    'Adds the commands about several jobs: cancel, hold, release, move, and change of GPUs, tasks and priority.',
  autoStart: true,
  requires: [ITraining],
  optional: [INotebookTracker],
  activate: ({ app, owned, trans }, training: ITraining, tracker: INotebookTracker | null): void => {
    const add = (id: string, label: string, act: (ids: string[]) => Promise<void>): void => {
      const execute = async (ids: string[]): Promise<void> => (ids.length === 0 ? undefined : act(ids));
      owned.add(
        app.commands.addCommand(id, {
          label,
          describedBy: { args: JOBS_ARGS },
          execute: args => execute(readJobIds(args))
        })
      );
    };
    add(CommandIDs.cancelJobs, trans.__('Cancel Jobs'), async ids => {
      // The line of a sweep has a button for all of its jobs.
      if (await confirmFromLine(tracker, () => confirmCancel(ids, trans))) {
        await cancelAll(training, ids, trans);
      }
    });
    add(CommandIDs.holdJobs, trans.__('Hold Jobs'), ids => change(training, trans, ids, { held: true }));
    add(CommandIDs.releaseJobs, trans.__('Release Held Jobs'), ids =>
      change(training, trans, ids, { held: false })
    );
    add(CommandIDs.moveJobs, trans.__('Move Jobs to Another Queue'), ids => move(training, trans, ids));
    owned.add(
      app.commands.addCommand(CommandIDs.changeGpus, {
        label: trans.__('Change GPUs, Tasks, Priority and Maximum Time of Job'),
        describedBy: { args: JOB_ARGS },
        execute: args => actOnJob(training, args, trans, job => changeRequest(training, trans, job))
      })
    );
  }
});

/** Return whether the user wants to cancel the jobs. */
async function confirmCancel(ids: readonly string[], trans: TranslationBundle): Promise<boolean> {
  const { button } = await showDialog({
    title: trans._n('Cancel %1 job?', 'Cancel %1 jobs?', ids.length),
    body: trans.__('The jobs stop and lose their places in the queue. The output so far is kept.'),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Keep them') }),
      Dialog.warnButton({ label: trans.__('Cancel jobs') })
    ]
  });
  return button.accept;
}

/** Ask the user for a queue, then move the jobs there. */
async function move(training: ITraining, trans: TranslationBundle, ids: string[]): Promise<void> {
  const jobs = training.state.jobs.filter(job => ids.includes(job.id));
  const names = listOtherQueues(training.state.queues, jobs);
  if (names.length === 0) {
    Notification.warning(trans.__('There is no other queue that you may use.'), { autoClose: 5000 });
    return;
  }
  const warning = warnOfMove(jobs, names, training.state.queues, trans);
  const { value } = await InputDialog.getItem({
    title: trans._n('Move %1 job to another queue', 'Move %1 jobs to another queue', ids.length),
    label: [trans.__('Queue'), warning].filter(Boolean).join('. '),
    items: names,
    okLabel: trans.__('Move'),
    cancelLabel: trans.__('Cancel')
  });
  if (value !== null) {
    await change(training, trans, ids, { queue: value });
  }
}

/** Ask the user for other GPUs, tasks, priority or maximum time until the job is changed, or the user gives up. */
async function changeRequest(training: ITraining, trans: TranslationBundle, job: JobView): Promise<void> {
  const { queues, me } = training.state;
  const queue = queues.find(known => known.name === job.queue);
  const offer = describeOffer(queue, me?.pools ?? []);
  const ask = (refused: IRefusedChange | null): Promise<IWrittenChange | null> =>
    askForChange(job, new ChangeForm(job, offer, trans, refused), trans);
  let written = await ask(null);
  while (written !== null && written.change !== null) {
    const { fields, change } = written;
    const problem = isProblem(change) ? change : await tryChange(training, job, change);
    if (problem === null) {
      return;
    }
    written = await ask({ fields, problem });
  }
}

/** Return what the user wrote into the form; null if the user cancels. */
async function askForChange(
  job: JobView,
  body: ChangeForm,
  trans: TranslationBundle
): Promise<IWrittenChange | null> {
  const { button, value } = await showDialog({
    title: trans.__('Change “%1”', job.name || trans.__('unnamed job')),
    body,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Change') })
    ],
    focusNodeSelector: 'input'
  });
  return button.accept ? value : null;
}

/** Change the job; return the problem if that is refused. */
async function tryChange(training: ITraining, job: JobView, wanted: JobChange): Promise<Problem | null> {
  try {
    await changeJob(training, job.id, wanted);
    return null;
  } catch (reason) {
    return toProblem(reason);
  }
}

/** Change each of the jobs, a few at one time. */
async function change(
  training: ITraining,
  trans: TranslationBundle,
  ids: readonly string[],
  wanted: JobChange
): Promise<void> {
  const problems: string[] = [];
  await forEachPaced(ids, id =>
    changeJob(training, id, wanted).then(
      () => undefined,
      (reason: unknown) => void problems.push(describeError(reason))
    )
  );
  tellProblems(problems, ids.length, trans);
}
