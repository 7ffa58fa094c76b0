/** Acts on jobs by commands. */

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { describeError, isMissing } from './client';
import { describeUnknown } from './jobs';
import { fitToast } from './toasts';
import type { ITraining } from './tokens';
import { readJobId } from './tokens';
import type { JobChange, JobView } from './wire';

/** Look up the job of a command and act on it. A failure is shown in one notification, and makes the answer null. */
export async function actOnJob<T>(
  training: ITraining,
  args: ReadonlyPartialJSONObject,
  trans: TranslationBundle,
  act: (job: JobView) => Promise<T>
): Promise<T | null> {
  try {
    const id = readJobId(args);
    if (id === '') {
      throw new Error(
        trans.__('This command needs a job. Run it from the panel Training, or from the line under a cell.')
      );
    }
    const job = await training.findJob(id);
    if (job === null) {
      throw new Error(describeUnknown(trans));
    }
    return await act(job);
  } catch (reason) {
    Notification.error(fitToast(describeError(reason)), { autoClose: 8000 });
    return null;
  }
}

/** The most jobs of one request to cancel; the service refuses more. */
const MOST_JOBS = 500;

/** Change a job, and show the answer at once. */
export async function changeJob(training: ITraining, id: string, change: JobChange): Promise<void> {
  await training.recordAnswer(training.client.changeJob(id, change), job => [job]);
}

/** Cancel a job, and show the answer at once. */
export async function cancelJob(training: ITraining, id: string): Promise<void> {
  await training.recordAnswer(training.client.cancelJob(id), job => [job]);
}

/** Delete a job that has ended, and take it out of the lists; another page may have deleted the job before. */
export async function deleteJob(training: ITraining, id: string, trans: TranslationBundle): Promise<void> {
  try {
    await training.client.deleteJob(id);
  } catch (reason) {
    if (!isMissing(reason)) {
      throw reason;
    }
    if (!(await training.client.getJob(id).then(() => false, isMissing))) {
      // A service of an older release knows the job, and answers 404 because it cannot delete.
      throw new Error(
        trans.__(
          'The GPU scheduler is older than this page and cannot delete jobs. Ask your administrator to update it.'
        )
      );
    }
  }
  training.forgetJob(id);
}

/** Cancel jobs without asking; return whether none was refused. Refusals are shown in one notification. */
export async function cancelAll(
  training: ITraining,
  ids: readonly string[],
  trans: TranslationBundle
): Promise<boolean> {
  const problems: string[] = [];
  for (let first = 0; first < ids.length; first += MOST_JOBS) {
    try {
      const request = training.client.cancelJobs(ids.slice(first, first + MOST_JOBS));
      const answer = await training.recordAnswer(request, ({ jobs }) => jobs);
      problems.push(...answer.refused.map(({ message }) => message));
    } catch (reason) {
      problems.push(describeError(reason));
    }
  }
  tellProblems(problems, ids.length, trans);
  return problems.length === 0;
}

/** Say in one notification which jobs were refused and why; equal reasons are said once. */
export function tellProblems(problems: readonly string[], count: number, trans: TranslationBundle): void {
  if (problems.length === 0) {
    return;
  }
  const reasons = [...new Set(problems)].join(' ');
  const told =
    count === 1 ? reasons : trans.__('%1 of %2 jobs were refused. %3', problems.length, count, reasons);
  Notification.error(fitToast(told), { autoClose: 8000 });
}
