/** Sentences on the cost of a pause of a job, now or in future. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatClock } from './times';
import type { JobSummary } from './wire';

/** Return whether a job is paused, or about to be. */
export function hasPaused({ phase }: Pick<JobSummary, 'phase'>): boolean {
  return phase === 'paused' || phase === 'pausing';
}

/** Return a sentence about what the pause of a job costs, or would cost; "" if the service does not say. */
export function describePauseCost(job: JobSummary, now: number, trans: TranslationBundle): string {
  // An earlier release of the service does not send the field.
  switch (job.pause?.way) {
    case 'suspended':
      return describeSuspension(job, now, trans);
    case 'checkpoint': {
      const time = job.saved_at === null ? '' : formatClock(job.saved_at, now);
      return hasPaused(job)
        ? trans.__('It continues from its checkpoint of %1, or from a later one.', time)
        : trans.__('It would continue from its checkpoint of %1, or from a later one.', time);
    }
    case 'restart':
      if (!hasBegun(job)) {
        return hasPaused(job)
          ? trans.__('Its code has not begun yet, so nothing is lost.')
          : trans.__('Its code has not begun yet, so a pause loses nothing.');
      }
      if (job.phase === 'paused') {
        return trans.__('It starts again from the beginning, since it has saved no checkpoint.');
      }
      // Code that follows the guide saves only when it is told to stop.
      return hasPaused(job)
        ? trans.__('It starts again from the beginning, unless it saves its state before it ends.')
        : trans.__(
            'It has saved no checkpoint so far, and would start again from the beginning unless it saves its state when told to stop.'
          );
    default:
      return '';
  }
}

/**
 * Return whether the code of a job may have run: not before its files are there, nor, in a job that continues from
 * another, before the service has heard of its checkpoints.
 */
function hasBegun(job: JobSummary): boolean {
  const copies = Boolean(job.continue_from) && job.saved_at === null;
  // An earlier release of the service does not send the times.
  return !copies && (job.ran_seconds !== 0 || job.running_since !== null);
}

/** Return a warning for a suspended job, whose run ends if its GPUs, its tasks or its pool change; "" for any other job. */
export function warnOfChange({ phase, pause }: JobSummary, trans: TranslationBundle): string {
  return phase === 'paused' && pause?.way === 'suspended'
    ? trans.__('Other GPUs or tasks end its suspended run: what it has not saved is computed again.')
    : '';
}

function describeSuspension(
  { phase, saved_at: savedAt }: JobSummary,
  now: number,
  trans: TranslationBundle
): string {
  switch (phase) {
    case 'paused':
      return trans.__('Nothing is lost: its GPU memory is kept in host memory, and it goes on where it was.');
    case 'pausing':
      return trans.__('Its GPU memory is being moved to host memory, so that nothing is lost.');
    case 'starting':
      return trans.__('Its GPU memory is coming back from host memory, and it goes on where it was.');
    default: {
      // A job that must leave its GPU, such as at a drain, is not suspended.
      const kept = trans.__(
        'If held, or paused for other work, nothing would be lost: its GPU memory would be moved to host memory.'
      );
      const left =
        typeof savedAt === 'number'
          ? trans.__(
              'At a drain or a move, it would continue from its checkpoint of %1.',
              formatClock(savedAt, now)
            )
          : trans.__('At a drain or a move, it would start again from the beginning.');
      return `${kept} ${left}`;
    }
  }
}
