/** The sweep under a cell as the notebook file has it, and the rows of its table. Pure. */

import type { IDisplayData } from '@jupyterlab/nbformat';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { lookOf } from '../jobs';
import { formatInstant } from '../times';
import type { JobResults, JobSummary, SentSweep } from '../wire';

/** Media type of a sweep. */
export const SWEEP_MIME = 'application/vnd.jupyter-gq.sweep+json';

/** Numbers that a job has brought back, by name. */
export type Numbers = Readonly<Record<string, number>>;

/** A job of a sweep as a row of the table. */
export interface ISweepRow {
  readonly id: string;
  readonly values: Readonly<Record<string, string>>;
  /** Null while the job is not known. */
  readonly job: JobSummary | null;
  readonly numbers: Numbers;
}

/** Return the output that shows a sweep. */
export function makeSweepOutput(sweep: SentSweep): IDisplayData {
  // Files have the entries of objects in the order of the alphabet.
  const names = [...new Set(sweep.jobs.flatMap(({ values }) => Object.keys(values)))];
  const text = `Sweep ${sweep.name} (${sweep.group}) of ${sweep.jobs.length} jobs in ${sweep.queue}`;
  return {
    output_type: 'display_data',
    data: {
      [SWEEP_MIME]: { ...sweep, names, jobs: sweep.jobs.map(job => ({ ...job })) },
      'text/plain': text
    },
    metadata: {}
  };
}

/** Return the sweep in the data of an output; null if this version cannot read it. */
export function readSweep(data: ReadonlyPartialJSONObject): SentSweep | null {
  const found = data[SWEEP_MIME] as (Partial<SentSweep> & { names?: unknown }) | null | undefined;
  if (typeof found !== 'object' || found === null || typeof found.group !== 'string') {
    return null;
  }
  const jobs = Array.isArray(found.jobs) ? found.jobs : [];
  const names = Array.isArray(found.names) ? found.names.filter(name => typeof name === 'string') : [];
  return {
    group: found.group,
    name: found.name ?? '',
    queue: found.queue ?? '',
    metric: found.metric ?? '',
    mode: found.mode === 'min' ? 'min' : 'max',
    jobs: jobs
      .filter(each => typeof each?.job === 'string')
      .map(each => ({ job: each.job, values: orderEntries(each.values, names) }))
  };
}

/** Return the entries of these names in their order, and then all others. */
function orderEntries(
  entries: Readonly<Record<string, string>>,
  names: readonly string[]
): Record<string, string> {
  const known = names.filter(name => name in entries).map(name => [name, entries[name]]);
  return { ...(Object.fromEntries(known) as Record<string, string>), ...entries };
}

/** Return the name of the number by which the rows are compared; empty if no job has brought a number back. */
export function findMetric(sweep: SentSweep, numbers: ReadonlyMap<string, Numbers>): string {
  if (sweep.metric !== '') {
    return sweep.metric;
  }
  const first = sweep.jobs.map(({ job }) => Object.keys(numbers.get(job) ?? {})[0]);
  return first.find(name => name !== undefined) ?? '';
}

/** Return the rows of the table: best first, then those with nan or without a number, each in the order of the sweep. */
export function sortRows(
  sweep: SentSweep,
  jobs: ReadonlyMap<string, JobSummary>,
  numbers: ReadonlyMap<string, Numbers>
): ISweepRow[] {
  const metric = findMetric(sweep, numbers);
  const sign = sweep.mode === 'max' ? -1 : 1;
  const rows = sweep.jobs.map(({ job, values }) => ({
    id: job,
    values,
    job: jobs.get(job) ?? null,
    numbers: numbers.get(job) ?? {}
  }));
  const compared = (row: ISweepRow): boolean => isCompared(row.numbers[metric]);
  return [
    ...rows
      .filter(compared)
      .sort(({ numbers: one }, { numbers: other }) =>
        one[metric] === other[metric] ? 0 : sign * (one[metric] - other[metric])
      ),
    ...rows.filter(row => !compared(row))
  ];
}

/** Return whether this is a number that is better or worse than others: nan is not. */
function isCompared(number: number | undefined): boolean {
  return number !== undefined && !Number.isNaN(number);
}

/** The numbers that JSON does not know, by their names in Python. */
const NOT_FINITE = { nan: Number.NaN, inf: Number.POSITIVE_INFINITY, '-inf': Number.NEGATIVE_INFINITY };

/** Return the numbers among the variables that a job has brought back. */
export function readNumbers(variables: JobResults['variables']): Numbers {
  return Object.fromEntries(
    variables.flatMap(({ name, number }) =>
      number === null ? [] : [[name, typeof number === 'string' ? NOT_FINITE[number] : number] as const]
    )
  );
}

/** Return how many jobs are in which state, such as "6 jobs: 1 running, 5 done"; null is a job that is not known. */
export function describeStates(jobs: readonly (JobSummary | null)[], trans: TranslationBundle): string {
  const counts = new Map<string, number>();
  for (const job of jobs) {
    const word = job === null ? trans.__('unknown') : lookOf(job, trans).word.toLowerCase();
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const parts = Array.from(counts, ([word, count]) => `${count} ${word}`);
  return `${trans._n('%1 job', '%1 jobs', jobs.length)}: ${parts.join(', ')}`;
}

/** Return the words with which the names of all jobs of a sweep begin, or else the id of the sweep. */
export function nameSweep(jobs: readonly JobSummary[]): string {
  const [first = [], ...others] = jobs.map(({ name }) => name.split(' '));
  const end = first.findIndex((word, at) => others.some(words => words[at] !== word));
  return first.slice(0, end === -1 ? undefined : end).join(' ') || (jobs[0]?.group ?? '');
}

/** Return a name for each sweep of these jobs, by its id; sweeps of one name also have the time when they were sent. */
export function nameSweeps(
  jobs: readonly JobSummary[],
  trans: TranslationBundle
): ReadonlyMap<string, string> {
  const groups = [...new Set(jobs.map(({ group }) => group))].filter(group => group !== '');
  const sweeps = groups.map(group => jobs.filter(job => job.group === group));
  const names = sweeps.map(nameSweep);
  const isShared = (name: string): boolean => names.filter(other => other === name).length > 1;
  return new Map(
    sweeps.map((sweep, at) => {
      const sent = Math.min(...sweep.map(job => job.submitted_at));
      const name = names[at];
      return [groups[at], isShared(name) ? trans.__('%1, sent %2', name, formatInstant(sent)) : name];
    })
  );
}

/** Return the best job of a sweep with its number, such as "accuracy 0.95"; null if no job has brought one back. */
export function findBest(
  jobs: readonly JobSummary[],
  numbers: ReadonlyMap<string, Numbers>
): { job: JobSummary; number: string } | null {
  const [any] = jobs;
  const sweep = {
    group: any.group,
    name: nameSweep(jobs),
    queue: any.queue,
    metric: any.group_metric,
    mode: any.group_mode,
    jobs: jobs.map(({ id }) => ({ job: id, values: {} }))
  };
  const metric = findMetric(sweep, numbers);
  const [best] = sortRows(sweep, new Map(jobs.map(job => [job.id, job])), numbers);
  return best.job !== null && isCompared(best.numbers[metric])
    ? { job: best.job, number: `${metric} ${formatNumber(best.numbers[metric])}` }
    : null;
}

/** Return the names of all numbers in the rows, the compared one first. */
export function listNumbers(rows: readonly ISweepRow[], metric: string): string[] {
  const names = new Set(rows.flatMap(row => Object.keys(row.numbers)));
  return [...(metric === '' ? [] : [metric]), ...[...names].filter(name => name !== metric)];
}

/**
 * Return a number with four significant digits, such as 0.01473 or 1.2e-7, and a whole number as it is; nan and the infinite
 * ones as in Python.
 */
export function formatNumber(value: number): string {
  const name = Object.entries(NOT_FINITE).find(([, number]) => Object.is(number, value))?.[0];
  if (name !== undefined) {
    return name;
  }
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
}
