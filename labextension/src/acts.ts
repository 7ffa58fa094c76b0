/** Acts on a job by a command. */

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { describeError } from './client';
import { fitToast } from './toasts';
import type { ITraining } from './tokens';
import { readJobId } from './tokens';
import type { JobView } from './wire';

/** Look up the job of a command and act on it. A failure is shown in one notification. */
export async function actOnJob(
  training: ITraining,
  args: ReadonlyPartialJSONObject,
  trans: TranslationBundle,
  act: (job: JobView) => Promise<void>
): Promise<void> {
  try {
    const job = await training.findJob(readJobId(args));
    if (job === null) {
      throw new Error(trans.__('The scheduler no longer knows this job.'));
    }
    await act(job);
  } catch (reason) {
    Notification.error(fitToast(describeError(reason)), { autoClose: 8000 });
  }
}
