import type { Event, ServiceManager } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { Poll } from '@lumino/polling';
import type { IDisposable } from '@lumino/disposable';

import type { Client } from '../client';
import { isStopped } from '../hub';
import { describeError, isMissing, RequestError } from '../client';
import { hasCells, isFinal } from '../jobs';
import type { ITraining } from '../tokens';
import type { ConnectionNotice, JobSummary, JobView, NotebookView, OutputNotice, Problem } from '../wire';
import { readEvent } from './events';
import type { ILiveState } from './state';
import {
  markUnavailable,
  markUnknown,
  findNotebookHere,
  INITIAL_STATE,
  applyJob,
  applyNotebook,
  applyNotebooks,
  appendPage,
  applyFirstPage,
  placeJob,
  placeJobs
} from './state';

/** Jobs in a page. */
const PAGE = 50;
/** Jobs in a page if all are fetched. */
const LARGE_PAGE = 200;
/** Jobs up to which all are fetched, so that a search finds them. */
const MOST_LISTED = 1000;
/** Milliseconds between refreshes without a cause. Events bring the changes; a refresh only finds lost events. */
const SAFETY_INTERVAL = 60_000;
/** Milliseconds before the first retry while the service is down. The intervals grow up to `SAFETY_INTERVAL`. */
const RETRY_INTERVAL = 4_000;
/** Least milliseconds between two fetches of the queues, whose totals change often in a busy cluster. */
const QUEUE_INTERVAL = 2_000;

/** The live state, kept by events. After a gap everything is fetched again, but not while the page is hidden. */
export class Training implements ITraining, IDisposable {
  constructor(
    readonly client: Client,
    private readonly _events: ServiceManager.IManager['events']
  ) {
    this._events.stream.connect(this._onEmission, this);
    client.lost.connect(this._onLost, this);
    document.addEventListener('visibilitychange', this._onVisibility);
    this._poll = new Poll({
      auto: true,
      factory: () => this._refreshOrThrow(),
      frequency: { interval: RETRY_INTERVAL, backoff: 2, max: SAFETY_INTERVAL },
      name: 'jupyter-gq:refresh',
      standby: 'when-hidden'
    });
  }

  get state(): ILiveState {
    return this._state;
  }

  get stateChanged(): ISignal<ITraining, ILiveState> {
    return this._stateChanged;
  }

  get jobChanged(): ISignal<ITraining, JobSummary> {
    return this._jobChanged;
  }

  get outputArrived(): ISignal<ITraining, OutputNotice> {
    return this._outputArrived;
  }

  get resumed(): ISignal<ITraining, void> {
    return this._resumed;
  }

  get notebookHere(): NotebookView | null {
    return findNotebookHere(this._state);
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._events.stream.disconnect(this._onEmission, this);
    this.client.lost.disconnect(this._onLost, this);
    document.removeEventListener('visibilitychange', this._onVisibility);
    window.clearTimeout(this._queueTimer);
    this._poll.dispose();
    Signal.clearData(this);
  }

  async refresh(): Promise<void> {
    await this._poll.refresh();
    await this._poll.tick.catch(() => undefined);
  }

  async loadMore(): Promise<void> {
    const before = this._state.next;
    if (before === null) {
      return;
    }
    await this._loadPage(PAGE, before);
  }

  async loadAll(): Promise<void> {
    while (this._state.next !== null && this._state.jobs.length < MOST_LISTED) {
      await this._loadPage(LARGE_PAGE, this._state.next);
    }
  }

  async findJob(id: string): Promise<JobView | null> {
    if (id === '') {
      return null; // the path of all jobs ends where an id would begin
    }
    const known = this._state.jobs.find(job => job.id === id);
    if (known !== undefined && hasCells(known)) {
      return known;
    }
    try {
      // A running job is kept live, however old it is.
      const isKept = (job: JobView): boolean => known !== undefined || !isFinal(job.phase);
      const job = await this.recordAnswer(this.client.getJob(id), found => (isKept(found) ? [found] : []));
      return placeJob(job, this._paths);
    } catch (reason) {
      if (isMissing(reason)) {
        this.forgetJob(id);
      }
      if (reason instanceof RequestError && reason.status === 404) {
        return null;
      }
      throw reason;
    }
  }

  async recordAnswer<T>(answer: Promise<T>, listJobs: (found: T) => readonly JobSummary[]): Promise<T> {
    return this._hear(async changed => {
      const found = await answer;
      listJobs(found)
        .filter(job => !changed.has(job.id))
        .forEach(job => {
          this._note(job.id, changed);
          this._putJob(job);
        });
      return found;
    });
  }

  forgetJob(id: string): void {
    this._note(id);
    this._set(markUnknown(this._state, id));
  }

  recordPath(id: string, path: string): void {
    this._paths.set(id, path);
    this._set(this._state);
  }

  recordJob(job: JobSummary): void {
    this._note(job.id);
    this._putJob(job);
  }

  private _putJob(job: JobSummary): void {
    this._set(applyJob(this._state, job));
    this._jobChanged.emit(this._state.jobs.find(known => known.id === job.id) ?? job);
  }

  recordSent(job: JobView): void {
    const known = this._state.jobs.find(({ id }) => id === job.id);
    this.recordJob({ ...job, ...known });
  }

  recordNotebook(notebook: NotebookView): void {
    this._note(notebook.id);
    this._set(applyNotebook(this._state, notebook));
  }

  /** Fetch the page of jobs that are older than this one into the state; if this one was deleted, than the one before. */
  private async _loadPage(size: number, before: string): Promise<void> {
    try {
      await this._hear(async changed => {
        const page = await this.client.listJobs(size, before);
        const jobs = page.jobs.filter(job => !changed.has(job.id)); // what is known of the others is newer
        this._set(appendPage(this._state, { ...page, jobs }));
      });
    } catch (reason) {
      if (!isMissing(reason)) {
        throw reason;
      }
      this.forgetJob(before);
      if (this._state.next !== null) {
        await this._loadPage(size, this._state.next);
      }
    }
  }

  /** Do a request that is given the ids of the jobs and notebooks of which newer is known when it ends. */
  private async _hear<T>(request: (changed: ReadonlySet<string>) => Promise<T>): Promise<T> {
    const changed = new Set<string>();
    this._changed.add(changed);
    try {
      return await request(changed);
    } finally {
      this._changed.delete(changed);
    }
  }

  /**
   * Note that a job or notebook has changed: by an event for all requests under way, by the answer to one of them only
   * for those that began before it, because an answer to a later request is newer.
   */
  private _note(id: string, answered?: ReadonlySet<string>): void {
    for (const changed of this._changed) {
      if (changed === answered) {
        return;
      }
      changed.add(id);
    }
  }

  /** Fetch every list. Raises what the fetch raises, so that the poll retries. */
  private async _refreshOrThrow(): Promise<void> {
    const wasDown = this._state.available === false;
    try {
      await this._hear(changed => this._fetchAll(changed));
    } catch (reason) {
      this._setInterval(RETRY_INTERVAL);
      this._set(markUnavailable(this._state, describeError(reason)));
      throw reason;
    }
    this._setInterval(SAFETY_INTERVAL);
    if (wasDown || this._missed) {
      this._missed = false;
      this._resumed.emit();
    }
  }

  /** Fetch every list; what changed by an event after the requests began is newer, and stays. */
  private async _fetchAll(changed: ReadonlySet<string>): Promise<void> {
    const status = await this.client.getStatus();
    if (!status.available) {
      throw new Error(status.message || 'The GPU scheduler does not answer.');
    }
    const [page, notebooks, me] = await Promise.all([
      this.client.listJobs(PAGE),
      this.client.listNotebooks(),
      this.client.getMe()
    ]);
    const before = { ...this._state, server: status.server, me, queues: me.queues };
    const state = applyFirstPage(applyNotebooks(before, notebooks, changed), page, changed);
    this._set(state);
    const fetched = new Set(page.jobs.map(job => job.id));
    [...fetched, ...notebooks.map(({ id }) => id)]
      .filter(id => !changed.has(id))
      .forEach(id => this._note(id, changed));
    state.jobs.filter(job => fetched.has(job.id)).forEach(job => this._jobChanged.emit(job));
  }

  private _onEmission(_: unknown, emission: Event.Emission): void {
    const event = readEvent(emission);
    switch (event?.kind) {
      case 'job':
        this.recordJob(event.data);
        break;
      case 'notebook':
        this.recordNotebook(event.data);
        break;
      case 'output':
        this._outputArrived.emit(event.data);
        break;
      case 'queues':
        this._scheduleQueues();
        break;
      case 'reset':
        this._missed = true;
        void this._poll.refresh();
        break;
      case 'connection':
        this._onConnection(event.data);
        break;
    }
  }

  private _onConnection(data: ConnectionNotice): void {
    if (data.available) {
      this._missed = true;
      void this._poll.refresh();
    } else {
      this._goDown(data.message);
    }
  }

  private _onLost(_: unknown, problem: Problem): void {
    const { message } = problem;
    const here = this.notebookHere;
    if (isStopped(problem) && here !== null) {
      // The list would say under the notice of the stopped server that it runs.
      this.recordNotebook({ ...here, phase: 'stopped' });
    }
    // Said once: each further failure would put the next attempt off.
    if (this._state.available !== false || this._state.message !== message) {
      this._goDown(message);
    }
  }

  /** Show why nothing is known at present, and ask again in a moment. */
  private _goDown(message: string): void {
    this._set(markUnavailable(this._state, message));
    this._setInterval(RETRY_INTERVAL);
    void this._poll.schedule({ interval: RETRY_INTERVAL, phase: 'started' });
  }

  private readonly _onVisibility = (): void => {
    if (document.visibilityState === 'visible') {
      this._missed = true;
      void this._poll.refresh();
    }
  };

  /** Fetch the queues soon, once for all events until then. */
  private _scheduleQueues(): void {
    if (this._queueTimer !== undefined || document.visibilityState === 'hidden') {
      return;
    }
    this._queueTimer = window.setTimeout(() => {
      this._queueTimer = undefined;
      this.client.listQueues().then(
        queues => this._set({ ...this._state, queues }),
        // The next event or refresh brings the queues.
        () => undefined
      );
    }, QUEUE_INTERVAL);
  }

  /** Set the milliseconds to the next refresh; after failures the backoff applies as well. */
  private _setInterval(interval: number): void {
    if (!this.isDisposed) {
      this._poll.frequency = { ...this._poll.frequency, interval };
    }
  }

  private _set(state: ILiveState): void {
    const placed = placeJobs(state, this._paths);
    if (placed !== this._state) {
      this._state = placed;
      this._stateChanged.emit(placed);
    }
  }

  private _state: ILiveState = INITIAL_STATE;
  private _missed = false;
  /** Paths of notebooks that have others than when their jobs were sent, by the ids of the jobs. */
  private readonly _paths = new Map<string, string>();
  /** For each request under way, in the order of their beginning, the ids of what has changed since it began. */
  private readonly _changed = new Set<Set<string>>();
  private _queueTimer: number | undefined;
  private readonly _poll: Poll<void, unknown>;
  private readonly _stateChanged = new Signal<ITraining, ILiveState>(this);
  private readonly _jobChanged = new Signal<ITraining, JobSummary>(this);
  private readonly _outputArrived = new Signal<ITraining, OutputNotice>(this);
  private readonly _resumed = new Signal<ITraining, void>(this);
}
