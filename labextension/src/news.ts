/** News about jobs that are worth a notification: a job that this page saw before is done, has failed or was paused. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import type { JobPhase } from './jobs';
import { isFinal, summarizeJob } from './jobs';
import { connect } from './lifetime';
import type { ITraining } from './tokens';
import type { JobSummary } from './wire';

const OF_INTEREST: ReadonlySet<JobPhase> = new Set<JobPhase>(['done', 'failed', 'paused']);

/** Call `tell` once for each such phase of a job, until the result is disposed. */
export function connectNews(training: ITraining, tell: (job: JobSummary) => void): IDisposable {
  const phases = new Map<string, JobPhase>();
  return connect(training.jobChanged, (_, job) => {
    const before = phases.get(job.id);
    phases.set(job.id, job.phase);
    if (before !== undefined && before !== job.phase && !isFinal(before) && OF_INTEREST.has(job.phase)) {
      tell(job);
    }
  });
}

/** Return the sentence of a job's news. */
export function describeNews(job: JobSummary, trans: TranslationBundle): string {
  return job.phase === 'paused'
    ? job.sentence
    : summarizeJob(job, job.finished_at ?? job.submitted_at, trans);
}
