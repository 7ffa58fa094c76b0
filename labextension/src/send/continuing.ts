/**
 * The checkpoints of an ended job with which the dialog offers a new job to begin. Pure.
 *
 * See docs/decisions/0493-continue-a-job-from-the-checkpoints-of-another.md.
 */

import { isFinal } from '../jobs';
import { stripControls } from '../plain';
import type { JobSummary, JobView } from '../wire';
import type { IOpening, ISendOrigin } from './opening';

/** An ended job whose checkpoints a new job can begin with, as far as this page knows. */
export interface IEarlierJob {
  readonly id: string;
  /** How the dialog calls the job. */
  readonly title: string;
}

/**
 * Return the job with whose checkpoints a new job of the same cells can begin: this job if it has saved some, or else the
 * job from which it was to continue; null if there is none, or if this job has not ended.
 */
export function findEarlierJob(job: JobView): IEarlierJob | null {
  if (!isFinal(job.phase)) {
    return null;
  }
  if (job.saved_at !== null) {
    return { id: job.id, title: stripControls(job.name) || job.id };
  }
  // An earlier release of the service does not send the field.
  const before = job.continue_from ?? '';
  return before === '' ? null : { id: before, title: before };
}

/** Return the job with the name that it has among these jobs; one that is not among them keeps its title. */
function nameEarlier(earlier: IEarlierJob | null, jobs: readonly JobSummary[]): IEarlierJob | null {
  const name = stripControls(jobs.find(({ id }) => id === earlier?.id)?.name ?? '');
  return earlier === null || name === '' ? earlier : { ...earlier, title: name };
}

/**
 * Return whether a job that is sent again begins with the checkpoints of that job unless the user says otherwise. After a job
 * that is done, the new one would find the last epoch done, and end at once.
 */
export function wantsToContinue(job: JobView): boolean {
  return job.phase === 'failed' || job.phase === 'cancelled';
}

/**
 * Return the origin with an offer of the checkpoints of a job that its cells show, unless it offers some itself. A new run
 * is new unless the user takes the offer: old weights that nobody noticed would spoil its results. The offered job has the
 * name that it has among these `jobs`.
 */
export function offerCheckpoints(
  origin: ISendOrigin,
  earlier: IEarlierJob | null,
  jobs: readonly JobSummary[]
): ISendOrigin {
  return {
    findTargets: panel => origin.findTargets(panel),
    open: (targets, proposed, me): IOpening => {
      const opening = origin.open(targets, proposed, me);
      const offered = nameEarlier(opening.start.earlier ?? earlier, jobs);
      return { ...opening, start: { ...opening.start, earlier: offered } };
    }
  };
}
