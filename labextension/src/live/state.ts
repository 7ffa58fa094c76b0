/** The present knowledge about the scheduler: an immutable state and its changes. Pure. */

import { hasServer, mergeJobs } from '../jobs';
import type { JobList, JobSummary, Me, NotebookView, QueueView } from '../wire';

/** The state of the scheduler at one moment, as far as a page knows it. */
export interface ILiveState {
  /** Whether the service can be reached; null before the first answer. */
  readonly available: boolean | null;
  /** Why the service is not available, and what to do; empty if it is available. */
  readonly message: string;
  /** Whether the jobs have been fetched at least once. */
  readonly loaded: boolean;
  /** Newest first. */
  readonly jobs: readonly JobSummary[];
  /** Ids of jobs that the service does not know for this user, such as those of a colleague's notebook. */
  readonly unknown: ReadonlySet<string>;
  /** The `before` of the next page of older jobs; null if there are none. */
  readonly next: string | null;
  /** Disk space of the files of the user's jobs, as a phrase; empty if it is not measured. */
  readonly disk: string;
  /** What the database keeps of the user's jobs, as a phrase; empty if it is not measured. */
  readonly database: string;
  readonly notebooks: readonly NotebookView[];
  readonly queues: readonly QueueView[];
  readonly me: Me | null;
  /** Name of the notebook server that this page came from. */
  readonly server: string;
}

/** The state before the first answer. */
export const INITIAL_STATE: ILiveState = {
  available: null,
  message: '',
  loaded: false,
  jobs: [],
  unknown: new Set(),
  next: null,
  disk: '',
  database: '',
  notebooks: [],
  queues: [],
  me: null,
  server: ''
};

/** Return the state with the service as not available, for the reason `message`; all lists stay. */
export function markUnavailable(state: ILiveState, message: string): ILiveState {
  return state.available === false && state.message === message
    ? state
    : { ...state, available: false, message };
}

/**
 * Return the state with the newest page of jobs.
 *
 * Older jobs stay if the page overlaps with the jobs that are known. If there is a gap, the list starts over. What is
 * known of the ids in `changed` is newer than the page: their jobs stay as they are, or were deleted.
 */
export function applyFirstPage(
  state: ILiveState,
  page: JobList,
  changed: ReadonlySet<string> = new Set()
): ILiveState {
  const known = new Map(state.jobs.map(job => [job.id, job]));
  const overlaps = page.jobs.some(job => known.has(job.id));
  const keeps = state.loaded && overlaps;
  const jobs = page.jobs.flatMap(job => (changed.has(job.id) ? (known.get(job.id) ?? []) : job));
  return {
    ...state,
    available: true,
    message: '',
    loaded: true,
    jobs: keeps ? mergeJobs(state.jobs, jobs) : mergeJobs([], jobs),
    next: keeps ? state.next : page.next,
    disk: page.disk,
    database: page.database
  };
}

/** Return the state with a page of older jobs added. */
export function appendPage(state: ILiveState, page: JobList): ILiveState {
  return { ...state, jobs: mergeJobs(state.jobs, page.jobs), next: page.next };
}

/** Return the state with this job added or replaced; a newer version of the job that is known stays. */
export function applyJob(state: ILiveState, job: JobSummary): ILiveState {
  return { ...state, jobs: mergeJobs(state.jobs, [job]) };
}

/** Return the state with other paths of notebooks for the jobs of these ids. */
export function placeJobs(state: ILiveState, paths: ReadonlyMap<string, string>): ILiveState {
  const jobs = state.jobs.map(job => placeJob(job, paths));
  return jobs.every((job, at) => job === state.jobs[at]) ? state : { ...state, jobs };
}

/** Return a job with another path of its notebook, if there is one for its id. */
export function placeJob<T extends JobSummary>(job: T, paths: ReadonlyMap<string, string>): T {
  const path = paths.get(job.id) ?? job.notebook_path;
  return path === job.notebook_path ? job : { ...job, notebook_path: path };
}

/** Return the state without the job of this id, as one that the service does not know, or no more, for this user. */
export function markUnknown(state: ILiveState, id: string): ILiveState {
  const jobs = state.jobs.filter(job => job.id !== id);
  if (state.unknown.has(id) && state.next !== id && jobs.length === state.jobs.length) {
    return state;
  }
  // The server cannot begin a page behind a job that it does not know.
  const next = state.next === id ? (jobs[jobs.length - 1]?.id ?? null) : state.next;
  return { ...state, jobs, next, unknown: new Set([...state.unknown, id]) };
}

/** Return the state with this notebook added or replaced, or removed if it has stopped. */
export function applyNotebook(state: ILiveState, notebook: NotebookView): ILiveState {
  const others = state.notebooks.filter(known => known.id !== notebook.id);
  return withNotebooks(state, notebook.phase === 'stopped' ? others : [notebook, ...others]);
}

/**
 * Return the state with the fetched notebooks in place of the known ones. Notebooks with an id in `changed` stay as they
 * are known, which is newer.
 */
export function applyNotebooks(
  state: ILiveState,
  fetched: readonly NotebookView[],
  changed: ReadonlySet<string>
): ILiveState {
  const kept = state.notebooks.filter(notebook => changed.has(notebook.id));
  return withNotebooks(state, [...kept, ...fetched.filter(notebook => !changed.has(notebook.id))]);
}

/** Return the state with these notebooks, newest first. */
function withNotebooks(state: ILiveState, notebooks: NotebookView[]): ILiveState {
  return { ...state, notebooks: notebooks.sort((one, other) => other.submitted_at - one.submitted_at) };
}

/** Return the notebook of the running server that this page came from; null if there is none. */
export function findNotebookHere(state: ILiveState): NotebookView | null {
  const nameOf = (server: string): string => (server === '-' ? '' : server);
  return (
    state.notebooks.find(
      notebook => hasServer(notebook.phase) && nameOf(notebook.server) === nameOf(state.server)
    ) ?? null
  );
}
