/**
 * News that are worth a notification: a job that this page saw before is done, has failed or was paused, or a sweep is
 * over. The jobs of a sweep are no news one by one.
 *
 * See docs/decisions/0229-tell-the-end-of-a-sweep-once.md and
 * docs/decisions/0249-share-the-news-between-notifications.md.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';

import type { Numbers } from './attach/sweep';
import { describeStates, findBest, nameSweep, readNumbers } from './attach/sweep';
import type { JobPhase } from './jobs';
import { isFinal, isOfCells, summarizeJob } from './jobs';
import { connect } from './lifetime';
import { stripControls } from './plain';
import { showSentence } from './sentences';
import type { INewsFeed, ITraining } from './tokens';
import type { JobSummary } from './wire';

/** A piece of news for the user, about a job or a whole sweep that has ended or is paused. */
export interface INews {
  /** Id of the job or of the sweep. */
  readonly id: string;
  readonly name: string;
  readonly phase: JobPhase;
  /** Id of the job to which a click leads. */
  readonly job: string;
  /** Whether the job was sent from a notebook, so that there is a cell to go to. */
  readonly hasCell: boolean;
  /** Return the sentences of the news; the server is asked for them once for all listeners. */
  describe(): Promise<string>;
}

const OF_INTEREST: ReadonlySet<JobPhase> = new Set<JobPhase>(['done', 'failed', 'paused']);
/** Most jobs of a sweep whose numbers are fetched to name the best one; of more, none is named. */
const MOST_COMPARED = 100;

/** A receiver of the news. */
export interface IListener {
  /** Return whether news are wanted at present; the server is asked for nothing that nobody wants to know. */
  isWanted(): boolean | Promise<boolean>;
  /** Called once for each piece of news that is wanted. */
  tell(news: INews): void;
}

/** The news of a page. Several listeners are told of them, and the server is asked once for all of them. */
export class NewsFeed implements INewsFeed, IDisposable {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {
    this._sweeps = new Sweeps(_training, _trans, this);
    this._connection = connect(_training.jobChanged, (_, job) => this._take(job));
  }

  get isDisposed(): boolean {
    return this._connection.isDisposed;
  }

  /** Tell nobody any more. */
  dispose(): void {
    this._connection.dispose();
    this._listeners.clear();
  }

  listen(listener: IListener): IDisposable {
    this._listeners.add(listener);
    return new DisposableDelegate(() => void this._listeners.delete(listener));
  }

  /** Return the listeners that want news at present. */
  async findListeners(): Promise<IListener[]> {
    const listeners = [...this._listeners];
    const wanted = await Promise.all(listeners.map(wantsNews));
    return listeners.filter((listener, at) => wanted[at] && this._listeners.has(listener));
  }

  private _take(job: JobSummary): void {
    const before = this._phases.get(job.id);
    this._phases.set(job.id, job.phase);
    if (job.group !== '') {
      void this._sweeps.take(job);
    } else if (
      before !== undefined &&
      before !== job.phase &&
      !isFinal(before) &&
      OF_INTEREST.has(job.phase) &&
      !isHeldByOwner(job)
    ) {
      void this._tellJob(job);
    }
  }

  private async _tellJob(job: JobSummary): Promise<void> {
    const listeners = await this.findListeners();
    const news = makeJobNews(job, this._training.client.now, this._trans);
    listeners.forEach(listener => listener.tell(news));
  }

  private readonly _sweeps: Sweeps;
  private readonly _connection: IDisposable;
  private readonly _listeners = new Set<IListener>();
  private readonly _phases = new Map<string, JobPhase>();
}

/** Tell whether a listener wants news; one that cannot say gets none. */
async function wantsNews(listener: IListener): Promise<boolean> {
  try {
    return await listener.isWanted();
  } catch {
    return false;
  }
}

/** Return whether a job was paused because its owner holds it, which is no news: an act of somebody else is. */
function isHeldByOwner({ phase, eviction }: JobSummary): boolean {
  return phase === 'paused' && eviction?.reason === 'PAUSED_BY_USER' && eviction.by === null;
}

function makeJobNews(job: JobSummary, now: number, trans: TranslationBundle): INews {
  const { id, name, phase } = job;
  const sentence =
    phase === 'paused' ? job.sentence : summarizeJob(job, job.finished_at ?? job.submitted_at, trans);
  const describe = (): Promise<string> => Promise.resolve(showSentence(sentence, now));
  return { id, name, phase, job: id, hasCell: isOfCells(job), describe };
}

/** The sweeps that this page saw before their end, which is told once. */
class Sweeps {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle,
    private readonly _feed: NewsFeed
  ) {}

  /**
   * Note the phase of a job of a sweep, and tell that the sweep is over, if it is. The page may know only some of its
   * jobs, so the server is asked for all: once for many ends in a row, and once more for those during the request.
   */
  async take({ group, phase }: JobSummary): Promise<void> {
    if (!isFinal(phase)) {
      this._alive.add(group); // also one that was over, and has got more jobs
      return;
    }
    if (this._asked.has(group)) {
      this._again.add(group);
      return;
    }
    this._asked.add(group);
    do {
      this._again.delete(group);
      await this._tellEnd(group);
    } while (this._again.has(group));
    this._asked.delete(group);
  }

  /** Tell that a sweep is over, unless it may still run. If the server cannot say, a later event asks again. */
  private async _tellEnd(group: string): Promise<void> {
    if (!this._mayBeOver(group)) {
      return;
    }
    const listeners = await this._feed.findListeners();
    if (listeners.length === 0) {
      this._alive.delete(group);
      return;
    }
    const jobs = await this._training.client.listGroup(group).catch(() => null);
    if (jobs === null || jobs.some(({ phase }) => !isFinal(phase)) || !this._mayBeOver(group)) {
      return;
    }
    this._alive.delete(group);
    const job = jobs.find(({ phase }) => phase === 'failed') ?? jobs.find(({ phase }) => phase === 'done');
    if (job === undefined) {
      return; // the user has cancelled all of them
    }
    const described = this._describe(jobs);
    const describe = (): Promise<string> => described;
    const hasCell = isOfCells(job);
    const news = { id: group, name: nameSweep(jobs), phase: job.phase, job: job.id, hasCell, describe };
    listeners.forEach(listener => listener.tell(news));
  }

  /** Return whether a sweep was seen before its end, and this page knows no job of it that has not ended. */
  private _mayBeOver(group: string): boolean {
    const isLiving = (job: JobSummary): boolean => job.group === group && !isFinal(job.phase);
    return this._alive.has(group) && !this._training.state.jobs.some(isLiving);
  }

  /** Return how the jobs ended, and which is the best if all that are done could be compared. */
  private async _describe(jobs: readonly JobSummary[]): Promise<string> {
    const states = `${describeStates(jobs, this._trans)}.`;
    const numbers = await this._readNumbers(jobs.filter(job => job.phase === 'done'));
    const best = numbers === null ? null : findBest(jobs, numbers);
    return best === null
      ? states
      : `${states} ${this._trans.__('Best: %1 in “%2”.', best.number, stripControls(best.job.name))}`;
  }

  /** Return the numbers that each job has brought back, by its id; null if the jobs are many, or some are not known. */
  private async _readNumbers(done: readonly JobSummary[]): Promise<Map<string, Numbers> | null> {
    if (done.length > MOST_COMPARED) {
      return null;
    }
    const { client } = this._training;
    const read = async ({ id }: JobSummary): Promise<[string, Numbers]> => [
      id,
      readNumbers((await client.getResults(id)).variables)
    ];
    return Promise.all(done.map(read)).then(
      numbers => new Map(numbers),
      () => null
    );
  }

  /** Ids of the sweeps that this page saw before their end. */
  private readonly _alive = new Set<string>();
  /** Ids of the sweeps about which the server is being asked. */
  private readonly _asked = new Set<string>();
  /** Ids of those of them of which a job has ended meanwhile. */
  private readonly _again = new Set<string>();
}
