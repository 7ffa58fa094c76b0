/** The choice and the order of the jobs in the panel. Pure. */

import { parseMilli } from '../amounts';
import { isFinal, isWaiting } from '../jobs';
import { stripControls } from '../plain';
import type { JobSummary } from '../wire';

/** A group of phases by which the list can be filtered. */
export type StateFilter = 'active' | 'running' | 'waiting' | 'held' | 'done' | 'failed' | 'cancelled';

/** The property by which the list is sorted. */
export type SortKey = 'state' | 'newest' | 'name' | 'notebook' | 'queue' | 'gpus';

/** A query for jobs. An empty text and null restrict nothing. */
export interface IJobQuery {
  /** Words that must all be in the name, notebook, queue, group or sentence of a job, or begin its id. */
  readonly search: string;
  readonly state: StateFilter | null;
  readonly queue: string | null;
  /** Path of a notebook. */
  readonly notebook: string | null;
  /** Id of a group, such as a sweep. */
  readonly group: string | null;
  readonly sort: SortKey;
  /** Whether the order is turned around. */
  readonly reversed: boolean;
}

/** Least number of characters with which a job is found by its id. */
const ID_LENGTH = 4;

export const ALL_JOBS: IJobQuery = {
  search: '',
  state: null,
  queue: null,
  notebook: null,
  group: null,
  sort: 'state',
  reversed: false
};

/** The order of phases: what runs comes first, what is over last. */
const RANKS: Readonly<Record<JobSummary['phase'], number>> = {
  running: 0,
  starting: 1,
  pausing: 2,
  cancelling: 3,
  paused: 4,
  waiting: 5,
  done: 6,
  failed: 6,
  cancelled: 6
};

const FILTERS: Readonly<Record<StateFilter, (job: JobSummary) => boolean>> = {
  active: job => !isFinal(job.phase),
  running: job => RANKS[job.phase] <= RANKS.cancelling,
  waiting: job => isWaiting(job.phase) && job.held_since === null,
  held: job => !isFinal(job.phase) && job.held_since !== null,
  done: job => job.phase === 'done',
  failed: job => job.phase === 'failed',
  cancelled: job => job.phase === 'cancelled'
};

/** The names of the state filters, in the order in which they are offered. */
export const STATE_FILTERS = Object.keys(FILTERS) as readonly StateFilter[];

/** Return whether the query leaves out jobs. */
export function isRestricting(query: IJobQuery): boolean {
  return (
    query.search.trim() !== '' ||
    query.state !== null ||
    query.queue !== null ||
    query.notebook !== null ||
    query.group !== null
  );
}

/** Return the jobs that match the query, in its order. `jobs` are newest first. */
export function selectJobs(jobs: readonly JobSummary[], query: IJobQuery): JobSummary[] {
  const wanted = query.search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = jobs.filter(
    job =>
      (query.state === null || FILTERS[query.state](job)) &&
      (query.queue === null || job.queue === query.queue) &&
      (query.notebook === null || job.notebook_path === query.notebook) &&
      (query.group === null || job.group === query.group) &&
      hasWords(job, wanted)
  );
  found.sort(COMPARATORS[query.sort]); // stable: equal jobs stay newest first
  return query.reversed ? found.reverse() : found;
}

/** Return the distinct values of the jobs in alphabetical order, without empty ones. */
export function listValues(values: readonly string[]): string[] {
  return [...new Set(values)].filter(value => value !== '').sort(compareText);
}

/**
 * Return a name for each notebook of the jobs, by its path, fit to be shown: without its folders, or else with as many of
 * them as it needs to be told from the others.
 */
export function nameNotebooks(
  jobs: readonly Pick<JobSummary, 'notebook_path'>[]
): ReadonlyMap<string, string> {
  const paths = listValues(jobs.map(job => job.notebook_path));
  const owners = new Map<string, number>();
  for (const end of paths.flatMap(listEnds)) {
    owners.set(end, (owners.get(end) ?? 0) + 1);
  }
  return new Map(
    paths.map(path => [path, stripControls(listEnds(path).find(end => owners.get(end) === 1) ?? path)])
  );
}

/** Return the ends of a path, the shortest one first and the whole path last: "c", "b/c" and "a/b/c". */
function listEnds(path: string): string[] {
  const names = path.split('/');
  return names.map((_, index) => names.slice(names.length - 1 - index).join('/'));
}

function hasWords(job: JobSummary, wanted: readonly string[]): boolean {
  if (wanted.length === 0) {
    return true;
  }
  const text = [job.name, job.notebook_path, job.queue, job.group, job.sentence].join('\n').toLowerCase();
  return wanted.every(word => text.includes(word) || beginsId(job, word));
}

/** Return whether the id of the job begins with the word; a short word would find ids by chance. */
function beginsId(job: JobSummary, word: string): boolean {
  return word.length >= ID_LENGTH && (job.id.startsWith(word) || job.id.startsWith(`job-${word}`));
}

type Comparator = (one: JobSummary, other: JobSummary) => number;

const COMPARATORS: Readonly<Record<SortKey, Comparator>> = {
  state: (one, other) => RANKS[one.phase] - RANKS[other.phase] || comparePlaces(one, other),
  newest: (one, other) => other.submitted_at - one.submitted_at,
  name: (one, other) => compareText(one.name, other.name),
  notebook: (one, other) => compareText(one.notebook_path, other.notebook_path),
  queue: (one, other) => compareText(one.queue, other.queue),
  gpus: (one, other) => countMilli(other) - countMilli(one)
};

/** Compare the places of two jobs in line; a job without a place comes last. */
function comparePlaces(one: JobSummary, other: JobSummary): number {
  const [first, second] = [one.position ?? Infinity, other.position ?? Infinity];
  return first === second ? 0 : first - second;
}

function compareText(one: string, other: string): number {
  return one.localeCompare(other, undefined, { numeric: true });
}

/** Return the GPUs of all tasks of a job, in thousandths. */
function countMilli(job: JobSummary): number {
  return (parseMilli(job.gpus) ?? 0) * (job.tasks_now ?? job.tasks);
}
