/** The values that a sweep gives to names of the cells, as the user writes them. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { isProblem } from '../client';
import { cutEnd, trimBlanks } from '../plain';
import type { Problem, SweepRequest } from '../wire';

/** The text that the user wrote into the section; "" is an empty field. */
export interface ISweepChoice {
  /** Values by name, separated by commas. */
  readonly values: Readonly<Record<string, string>>;
  /** Jobs that may run at the same time. */
  readonly parallel: string;
  /** Name of the number by which the jobs are compared. */
  readonly metric: string;
  /** Whether the highest or the lowest number is the best; null while the name of the number decides. */
  readonly mode: Mode | null;
}

export type Mode = 'max' | 'min';

export const NO_SWEEP: ISweepChoice = { values: {}, parallel: '', metric: '', mode: null };

/** Words in the names of numbers that are better the lower they are. */
const LOSSES: ReadonlySet<string> = new Set(
  [
    'loss',
    'losses',
    'err',
    'error',
    'errors',
    'mae',
    'mse',
    'rmse',
    'mape',
    'nll',
    'perplexity',
    'ppl',
    'wer',
    'cer'
  ].concat(['cost', 'latency', 'seconds', 'time', 'duration'])
);

/**
 * Return whether the highest or the lowest number is the best, as the user chose it or as its name says: that of the
 * number by which the jobs are compared, or of the first of those that they bring back.
 *
 * See docs/decisions/0470-read-from-its-name-whether-a-number-is-a-loss.md.
 */
export function findMode({ mode, metric }: ISweepChoice, returns: readonly string[]): Mode {
  const name = metric.trim() || (returns[0] ?? '');
  const words = name
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[^a-z]+/);
  return mode ?? (words.some(word => LOSSES.has(word)) ? 'min' : 'max');
}

/** The part of a request that makes several jobs of one. */
export type SweepFields = Pick<SweepRequest, 'grid' | 'group_parallel' | 'group_metric' | 'group_mode'>;

/** Return the field of the dialog for the values of a name, as a problem names it. */
export function fieldOf(name: string): string {
  return `sweep-${name}`;
}

/** The most jobs of a sweep that the server takes. */
export const MOST_JOBS = 200;

/** A literal in quotes, or text without a comma. */
const VALUE = /\s*((?:[a-zA-Z]{0,2}(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|[^,])*)\s*(?:,|$)/gy;

/** Return the values in a field, "" for one that is missing; a comma in quotes separates nothing, nor one at the end. */
export function splitValues(text: string): string[] {
  const values = Array.from(text.matchAll(VALUE), match => match[1].trim());
  while (values[values.length - 1] === '') {
    values.pop();
  }
  return values;
}

/** Return the values by name, without names for which the field is empty. */
export function listGrid(choice: ISweepChoice): Record<string, string[]> {
  const entries = Object.entries(choice.values).map(([name, text]) => [name, splitValues(text)] as const);
  return Object.fromEntries(entries.filter(([, values]) => values.length > 0));
}

/** Return the number of jobs: one for each combination; 1 if nothing varies. */
export function countJobs(choice: ISweepChoice): number {
  return Object.values(listGrid(choice)).reduce((count, values) => count * values.length, 1);
}

/** A number of Python. */
const NUMBER =
  /^[+-]?\s*(?:(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[+-]?[\d_]+)?|0x[\da-f_]+|0o[0-7_]+|0b[01_]+)$/i;

/** A text in quotes, or several that Python joins. */
const TEXT = /^(?:[a-z]{0,2}(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*)+$/is;

/** Return whether a value may be a literal, which alone can vary. The server knows better about a text in quotes. */
function mayBeLiteral(value: string): boolean {
  return ['True', 'False', 'None'].includes(value) || NUMBER.test(value) || TEXT.test(value);
}

/** A text in quotes of which no part stands for something else. */
const PLAIN_TEXT = /^(["'])([^"'\\]*)\1$/;

/**
 * Return a text that is the same for two values that are certainly equal in Python, such as 0.1 and 0.10. The server
 * knows better about other texts in quotes.
 */
function normalise(value: string): string {
  const text = PLAIN_TEXT.exec(value);
  if (text !== null) {
    return `text ${text[2]}`;
  }
  if (!NUMBER.test(value)) {
    return value;
  }
  const digits = value.replace(/[_\s+]/g, '');
  const isNegative = digits.startsWith('-');
  const size = isNegative ? digits.slice(1) : digits;
  if (/^(?:\d+|0[xob].+)$/i.test(size)) {
    return `int ${isNegative ? -BigInt(size) : BigInt(size)}`;
  }
  return `float ${isNegative ? 0 - Number(size) : Number(size)}`;
}

/** Return the first value that an earlier one equals; undefined if there is none. */
function findDoubled(values: readonly string[]): string | undefined {
  const known = values.map(normalise);
  return values.find((_, at) => known.indexOf(known[at]) < at);
}

/** Return the problem of the values of one name; null if there is none. */
function findFault(name: string, values: readonly string[], trans: TranslationBundle): Problem | null {
  const wrong = values.find(value => !mayBeLiteral(value));
  if (wrong === '') {
    const message = trans.__('A value is missing before or between commas. Write it, or delete a comma.');
    return { code: 'invalid_grid', field: fieldOf(name), message };
  }
  if (wrong !== undefined) {
    const message = trans.__(
      '“%1” is not a number, a text in quotes, True, False or None.',
      cutEnd(wrong, 60)
    );
    return { code: 'invalid_grid', field: fieldOf(name), message };
  }
  const doubled = findDoubled(values);
  if (doubled === undefined) {
    return null;
  }
  const message = trans.__(
    '“%1” is written twice, and the jobs would be the same. Write it once.',
    cutEnd(doubled, 60)
  );
  return { code: 'invalid_grid', field: fieldOf(name), message };
}

/** Return the fields of the sweep, null if nothing varies, or the problem of a field. */
export function makeSweep(
  choice: ISweepChoice,
  trans: TranslationBundle,
  returns: readonly string[] = []
): SweepFields | Problem | null {
  const grid = listGrid(choice);
  if (Object.keys(grid).length === 0) {
    return null;
  }
  for (const [name, values] of Object.entries(grid)) {
    const fault = findFault(name, values, trans);
    if (fault !== null) {
      return fault;
    }
  }
  if (countJobs(choice) > MOST_JOBS) {
    const message = trans.__(
      'These values make %1 jobs; a sweep has at most %2.',
      countJobs(choice),
      MOST_JOBS
    );
    return { code: 'invalid_grid', field: 'grid', message };
  }
  const parallel = trimBlanks(choice.parallel);
  if (parallel !== '' && !/^[1-9]\d{0,4}$/.test(parallel)) {
    const message = trans.__('“%1” is not a number of jobs. Write 1 or more, or leave it empty.', parallel);
    return { code: 'invalid_parallel', field: 'group_parallel', message };
  }
  return {
    grid,
    group_parallel: parallel === '' ? null : Number(parallel),
    group_metric: choice.metric.trim(),
    group_mode: findMode(choice, returns)
  };
}

/**
 * Return the forecast of one job as that of the first job of a sweep; unchanged if one job is sent, empty if the sweep
 * cannot be sent. The service foretells one job alone, so that nobody knows when the other jobs start.
 */
export function tellOfFirst(forecast: string, choice: ISweepChoice, trans: TranslationBundle): string {
  if (isProblem(makeSweep(choice, trans))) {
    return '';
  }
  const count = countJobs(choice);
  return count === 1
    ? forecast
    : trans.__('The first of %1 jobs: %2 When the others start is not known.', count, forecast);
}

/** Return a sentence about what is sent; empty if nothing varies, or if a field has a problem. */
export function describeSweep(choice: ISweepChoice, trans: TranslationBundle): string {
  const sweep = makeSweep(choice, trans);
  if (sweep === null || isProblem(sweep)) {
    return '';
  }
  const count = countJobs(choice);
  const jobs = trans._n('Sends %1 job.', 'Sends %1 jobs as one group.', count);
  if (count === 1) {
    return jobs;
  }
  const parallel = trimBlanks(choice.parallel);
  const cap =
    parallel === ''
      ? trans.__('As many run at the same time as the queue lets run.')
      : trans._n(
          'At most %1 of them runs at the same time; the others wait for their turn.',
          'At most %1 of them run at the same time; the others wait for their turn.',
          Number(parallel)
        );
  return `${jobs} ${cap}`;
}
