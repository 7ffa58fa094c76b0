/** What is known of the scheduler at present: an immutable snapshot and the ways it changes. Pure. */

import { merged } from '../jobs';
import type { JobView, JobList, Me, NotebookView, QueueView } from '../wire';

export interface ILiveState {
  /** null: not asked yet. */
  readonly available: boolean | null;
  /** Why it is not available, and what to do. */
  readonly message: string;
  /** The jobs have been fetched at least once. */
  readonly loaded: boolean;
  /** Newest first. */
  readonly jobs: readonly JobView[];
  /** There are older jobs: pass it as `before`. */
  readonly next: string | null;
  readonly notebooks: readonly NotebookView[];
  readonly queues: readonly QueueView[];
  readonly me: Me | null;
  /** Name of the server that this page came from. */
  readonly server: string;
}

export const UNKNOWN: ILiveState = {
  available: null,
  message: '',
  loaded: false,
  jobs: [],
  next: null,
  notebooks: [],
  queues: [],
  me: null,
  server: ''
};

export function lost(state: ILiveState, message: string): ILiveState {
  return state.available === false && state.message === message
    ? state
    : { ...state, available: false, message };
}

/** The first page again: jobs further back stay, and so does the way to still older ones. */
export function withPage(state: ILiveState, page: JobList): ILiveState {
  const known = new Set(state.jobs.map(job => job.id));
  const overlaps = page.jobs.some(job => known.has(job.id));
  const keeps = state.loaded && overlaps;
  return {
    ...state,
    available: true,
    message: '',
    loaded: true,
    jobs: keeps ? merged(state.jobs, page.jobs) : merged([], page.jobs),
    next: keeps ? state.next : page.next
  };
}

/** Older jobs were fetched. */
export function withOlder(state: ILiveState, page: JobList): ILiveState {
  return { ...state, jobs: merged(state.jobs, page.jobs), next: page.next };
}

export function withJob(state: ILiveState, job: JobView): ILiveState {
  return { ...state, jobs: merged(state.jobs, [job]) };
}

/** Stopped notebooks leave the list. */
export function withNotebook(state: ILiveState, notebook: NotebookView): ILiveState {
  const others = state.notebooks.filter(known => known.id !== notebook.id);
  const notebooks = notebook.phase === 'stopped' ? others : [notebook, ...others];
  return { ...state, notebooks: notebooks.sort((one, other) => other.submitted_at - one.submitted_at) };
}

/** The running notebook of the server that this page came from. */
export function notebookHere(state: ILiveState): NotebookView | null {
  const name = (server: string): string => (server === '-' ? '' : server);
  return (
    state.notebooks.find(
      notebook => notebook.phase === 'running' && name(notebook.server) === name(state.server)
    ) ?? null
  );
}
