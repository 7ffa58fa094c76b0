/**
 * News that are worth a notification: a job that this page saw before is done, has failed or was paused, or a sweep is
 * over. The jobs of a sweep are no news one by one.
 *
 * See docs/decisions/0229-tell-the-end-of-a-sweep-once.md.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import { describeStates, findBest, nameSweep, readNumbers } from './attach/sweep';
import type { JobPhase } from './jobs';
import { isFinal, summarizeJob } from './jobs';
import { connect } from './lifetime';
import { stripControls } from './plain';
import type { ITraining } from './tokens';
import type { JobSummary } from './wire';

/** What the user is told. */
export interface INews {
  /** Id of the job or of the sweep. */
  readonly id: string;
  readonly name: string;
  readonly phase: JobPhase;
  /** Id of the job to which a click leads. */
  readonly job: string;
  /** Return the sentences of the news. */
  describe(): Promise<string>;
}

const OF_INTEREST: ReadonlySet<JobPhase> = new Set<JobPhase>(['done', 'failed', 'paused']);
/** Most jobs of a sweep whose numbers are fetched to name the best one. */
const MOST_COMPARED = 100;

/** Call `tell` once for each piece of news, until the result is disposed. */
export function connectNews(
  training: ITraining,
  trans: TranslationBundle,
  tell: (news: INews) => void
): IDisposable {
  const phases = new Map<string, JobPhase>();
  const sweeps = new Sweeps(training, trans, tell);
  return connect(training.jobChanged, (_, job) => {
    const before = phases.get(job.id);
    phases.set(job.id, job.phase);
    if (job.group !== '') {
      void sweeps.take(job);
    } else if (
      before !== undefined &&
      before !== job.phase &&
      !isFinal(before) &&
      OF_INTEREST.has(job.phase)
    ) {
      tell(makeJobNews(job, trans));
    }
  });
}

function makeJobNews(job: JobSummary, trans: TranslationBundle): INews {
  const { id, name, phase } = job;
  const sentence =
    phase === 'paused' ? job.sentence : summarizeJob(job, job.finished_at ?? job.submitted_at, trans);
  return { id, name, phase, job: id, describe: () => Promise.resolve(sentence) };
}

/** The sweeps that this page saw before their end, which is told once. */
class Sweeps {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle,
    private readonly _tell: (news: INews) => void
  ) {}

  /**
   * Note the phase of a job of a sweep, and tell that the sweep is over, if it is. The page may know only some of its
   * jobs, so the server is asked for all.
   */
  async take({ group, phase: present }: JobSummary): Promise<void> {
    if (!isFinal(present)) {
      this._alive.add(group); // also one that was over, and has got more jobs
      return;
    }
    const known = this._training.state.jobs.filter(job => job.group === group);
    if (!this._alive.has(group) || known.some(job => !isFinal(job.phase))) {
      return;
    }
    const jobs = await this._training.client.listGroup(group).catch(() => known);
    if (jobs.some(({ phase }) => !isFinal(phase)) || !this._alive.delete(group)) {
      return;
    }
    const job = jobs.find(({ phase }) => phase === 'failed') ?? jobs.find(({ phase }) => phase === 'done');
    if (job === undefined) {
      return; // the user has cancelled all of them
    }
    const describe = (): Promise<string> => this._describe(jobs);
    this._tell({ id: group, name: nameSweep(jobs), phase: job.phase, job: job.id, describe });
  }

  /** Return how the jobs ended, and which is the best if they have brought back numbers. */
  private async _describe(jobs: readonly JobSummary[]): Promise<string> {
    const states = `${describeStates(jobs, this._trans)}.`;
    const done = jobs.filter(job => job.phase === 'done').slice(0, MOST_COMPARED);
    const { client } = this._training;
    const results = await Promise.all(done.map(({ id }) => client.getResults(id).catch(() => null)));
    const numbers = results.map((found, at) => [done[at].id, readNumbers(found?.variables ?? [])] as const);
    const best = findBest(jobs, new Map(numbers));
    return best === null
      ? states
      : `${states} ${this._trans.__('Best: %1 in “%2”.', best.number, stripControls(best.job.name))}`;
  }

  /** Ids of the sweeps. */
  private readonly _alive = new Set<string>();
}
