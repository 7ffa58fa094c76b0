/** The values in the fields of the send dialog: how they become a request, are summarized and are remembered. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { listGpuChoices, formatCores, formatGpus, parseMilli } from '../amounts';
import { isProblem } from '../client';
import { trimBlanks } from '../plain';
import { listMemberQueues } from '../queues';
import { formatSpan } from '../times';
import type { Bounds, JobRequest, JobView, Me, PoolView, Problem, QueueView } from '../wire';
import { readDuration } from './duration';
import { readTaskFields, summarizeTasks } from './tasks';

/** The text in each field; "" means that the user left the field empty. */
export interface IFormValues {
  readonly name: string;
  readonly queue: string;
  readonly gpus: string;
  readonly gpuMemory: string;
  readonly tasks: string;
  readonly minTasks: string;
  readonly cpus: string;
  readonly memory: string;
  readonly model: string;
  readonly expected: string;
  /** The maximum running time. */
  readonly maxTime: string;
  readonly priority: string;
  /** Name of an image or of another kernel; "" = the software of the notebook. */
  readonly software: string;
  /** Id of the job with a copy of whose checkpoints the job begins; "" = none. */
  readonly continueFrom: string;
}

/** Return whether two sets of values differ in the name of the job at most, on which no forecast depends. */
export function isSameButName(one: IFormValues, other: IFormValues): boolean {
  const keys = Object.keys(one) as (keyof IFormValues)[];
  return keys.every(key => key === 'name' || one[key] === other[key]);
}

/** The possibilities that the chosen queue offers. */
export interface IOffer {
  /** Models of GPU in the pool of the queue. */
  readonly models: readonly string[];
  /** The highest priority that the user may give to a job. */
  readonly maxPriority: number;
  /** The maximum running time in seconds; null = no limit. */
  readonly maxSeconds: number | null;
}

/** Lowest priority that the service accepts. */
const MIN_PRIORITY = -100;

/** The values that the next dialog proposes again; `notebook` is the path of the last notebook. */
export type IRememberedValues = Partial<Omit<IFormValues, 'name'> & { readonly notebook: string }>;

const FIELDS = ['queue', 'gpus', 'gpuMemory', 'cpus', 'memory', 'model', 'expected'] as const;
const REMEMBERED = [...FIELDS, 'notebook'] as const;

/** Return the request for the service, or the problem of a duration or priority that is malformed or too large. */
export function makeRequest(
  values: IFormValues,
  offer: IOffer,
  trans: TranslationBundle
): JobRequest | Problem {
  const expected = readDuration(values.expected, 'expected_seconds', trans);
  if (isProblem(expected)) {
    return expected;
  }
  const maxTime = readDuration(values.maxTime, 'max_seconds', trans);
  if (isProblem(maxTime)) {
    return maxTime;
  }
  const priority = readPriority(values.priority, offer, values.queue, trans);
  if (typeof priority !== 'number') {
    return priority;
  }
  const sized = readTaskFields(values, trans);
  if ('code' in sized) {
    return sized;
  }
  return {
    name: values.name,
    queue: values.queue,
    gpus: chooseGpus(values),
    gpu_memory: trimBlanks(values.gpuMemory) || null,
    ...sized,
    cpus: trimBlanks(values.cpus) || null,
    memory: trimBlanks(values.memory) || null,
    gpu_model:
      canChooseModel(values, offer.models) && offer.models.includes(values.model) ? values.model : null,
    expected_seconds: expected,
    max_seconds: maxTime,
    priority,
    software: values.software,
    // A service of an earlier release does not know the field.
    ...(values.continueFrom !== '' && { continue_from: values.continueFrom })
  };
}

/** Return the number of GPUs that is sent: GPU memory is a part of one. */
function chooseGpus(values: Pick<IFormValues, 'gpus' | 'gpuMemory'>): string {
  return trimBlanks(values.gpuMemory) === '' ? values.gpus : '1';
}

/** Return the names in a text that separates them by commas or spaces. */
export function parseNames(text: string): string[] {
  return text.split(/[\s,]+/).filter(name => name !== '');
}

/** Return a text of names with one more at its end, or without this name if it has it. */
export function toggleName(text: string, name: string): string {
  const names = parseNames(text);
  return (names.includes(name) ? names.filter(each => each !== name) : [...names, name]).join(', ');
}

/** Return the priority in a field, 0 for an empty field, or the problem of a text that is none of those on offer. */
export function readPriority(
  text: string,
  { maxPriority }: Pick<IOffer, 'maxPriority'>,
  queue: string,
  trans: TranslationBundle
): number | Problem {
  const priority = readInteger(text);
  if (priority !== null && priority >= MIN_PRIORITY && priority <= maxPriority) {
    return priority;
  }
  const message = trans.__(
    'Write a whole number from %1 to %2, the highest priority that you may give in %3.',
    MIN_PRIORITY,
    maxPriority,
    queue
  );
  return { code: 'invalid_priority', field: 'priority', message };
}

/** Return the hint beside a field for the priority. */
export function describePriority(
  { maxPriority }: Pick<IOffer, 'maxPriority'>,
  trans: TranslationBundle
): string {
  return trans.__('in the queue, at most %1; below 0 others go first', maxPriority);
}

/** Return the number in a field, 0 for an empty field, or null for a text that is no whole number. */
function readInteger(text: string): number | null {
  const written = trimBlanks(text) || '0';
  return /^-?\d{1,3}$/.test(written) ? Number(written) : null;
}

/** Return whether the user can choose a GPU model: the job wants a GPU, and there are several models. */
export function canChooseModel(
  values: Pick<IFormValues, 'gpus' | 'gpuMemory'>,
  models: readonly string[]
): boolean {
  return models.length > 1 && parseMilli(chooseGpus(values)) !== 0;
}

/** Return the values of the closed section, such as "4 CPU cores · 16 GiB · about 2 h"; "" if all are empty. */
export function summarizeValues(values: IFormValues, offer: IOffer, trans: TranslationBundle): string {
  const request = makeRequest(values, offer, trans);
  const parts = [
    trimBlanks(values.gpuMemory) === '' ? null : trans.__('%1 of GPU memory', addUnit(values.gpuMemory)),
    summarizeTasks(values, trans),
    trimBlanks(values.cpus) === '' ? null : formatCores(trimBlanks(values.cpus), trans),
    trimBlanks(values.memory) === '' ? null : addUnit(values.memory),
    'gpu_model' in request ? request.gpu_model : null,
    'expected_seconds' in request && typeof request.expected_seconds === 'number'
      ? trans.__('about %1', formatSpan(request.expected_seconds))
      : trimBlanks(values.expected) || null,
    trimBlanks(values.maxTime) === '' ? null : trans.__('at most %1', trimBlanks(values.maxTime)),
    readInteger(values.priority) === 0 ? null : trans.__('priority %1', trimBlanks(values.priority)),
    values.software || null
  ];
  return parts.filter(part => part !== null).join(' · ');
}

/** Return an amount of memory with its unit: a number without a unit is GiB. */
export function addUnit(memory: string): string {
  const text = trimBlanks(memory);
  return /^[\d.]+$/.test(text) ? `${text} GiB` : text;
}

/** Return the hint beside a field: its unit, and the most that a node has. */
export function formatHint(unit: string, most: string | null | undefined, trans: TranslationBundle): string {
  return most ? trans.__('%1, at most %2', unit, most) : unit;
}

/** Return the placeholder of a field: the queue's default for jobs that ask for nothing; "" if there is none. */
export function formatDefault(bounds: Bounds | undefined, trans: TranslationBundle): string {
  return bounds?.default ? trans.__('%1 by default', bounds.default) : '';
}

/** Return the pool that a queue takes its GPUs from; undefined if the queue or its pool is unknown. */
export function findPool(queue: QueueView | undefined, pools: readonly PoolView[]): PoolView | undefined {
  return pools.find(pool => pool.name === queue?.pool);
}

/** Return what a queue makes possible, as far as the dialog offers it. */
export function describeOffer(queue: QueueView | undefined, pools: readonly PoolView[]): IOffer {
  return {
    models: findPool(queue, pools)?.models ?? [],
    maxPriority: queue?.max_priority ?? 0,
    maxSeconds: queue?.max_seconds ?? null
  };
}

/** Return the values that are kept for the next dialog. */
export function selectRemembered(values: IFormValues, notebook: string): IRememberedValues {
  return { ...Object.fromEntries(FIELDS.map(key => [key, values[key]])), notebook };
}

/** Return the kept values that this version can read: another version may have written them. */
export function readRemembered(kept: unknown): IRememberedValues {
  const known = (typeof kept === 'object' && kept !== null ? kept : {}) as Record<string, unknown>;
  return Object.fromEntries(
    REMEMBERED.filter(key => typeof known[key] === 'string').map(key => [key, known[key]])
  );
}

/** Return the values that the dialog opens with: those of the last job, as far as they are still possible. */
export function proposeValues(
  kept: IRememberedValues,
  me: Pick<Me, 'queues' | 'largest_request'>,
  notebook: string,
  name: string
): IFormValues {
  const queues = listMemberQueues(me.queues);
  const possible = listGpuChoices(me.largest_request);
  const usual = possible.includes('1') ? '1' : possible[possible.length - 1];
  return {
    name,
    queue: (queues.find(queue => queue.name === kept.queue) ?? queues[0]).name,
    gpus: possible.find(gpus => gpus === kept.gpus) ?? usual,
    gpuMemory: kept.gpuMemory ?? '',
    // One job of many tasks does not make the next one such a job.
    tasks: '',
    minTasks: '',
    cpus: kept.cpus ?? '',
    memory: kept.memory ?? '',
    model: kept.model ?? '',
    // The expected duration depends on the work, and another notebook is other work.
    expected: kept.notebook === notebook ? (kept.expected ?? '') : '',
    // The maximum running time ends a job, so it is chosen anew.
    maxTime: '',
    // One urgent job does not make the next one urgent.
    priority: '',
    // Another notebook has other kernels, and other needs.
    software: '',
    continueFrom: ''
  };
}

/** The fields of a job from which its request is described. */
type Requested = Pick<
  JobView,
  | 'gpus'
  | 'gpu_memory'
  | 'cpus'
  | 'memory'
  | 'gpu_model'
  | 'preferred_gpu_models'
  | 'expected_seconds'
  | 'priority'
>;

/** Return what a job asked for, such as "1 GPU of H100, 4 CPU cores, 16 GiB of memory, expected to run 2 h". */
export function describeRequest(job: Requested, trans: TranslationBundle): string {
  const preferred = job.preferred_gpu_models;
  const parts = [
    job.gpu_model === null
      ? describeGpus(job, trans)
      : trans.__('%1 of %2', describeGpus(job, trans), job.gpu_model),
    preferred.length === 0 ? null : trans.__('%1 preferred', preferred.join(trans.__(', then '))),
    job.cpus === null ? null : formatCores(job.cpus, trans),
    job.memory === null ? null : trans.__('%1 of memory', job.memory),
    job.expected_seconds === null ? null : trans.__('expected to run %1', formatSpan(job.expected_seconds)),
    job.priority === 0 ? null : trans.__('priority %1', job.priority)
  ];
  return parts.filter(part => part !== null).join(', ');
}

/** Return the GPUs that a job asked for, such as "12 GiB of GPU memory (0.3 GPU)". */
function describeGpus(job: Pick<JobView, 'gpus' | 'gpu_memory'>, trans: TranslationBundle): string {
  const gpus = formatGpus(job.gpus, trans);
  return job.gpu_memory === null ? gpus : trans.__('%1 of GPU memory (%2)', job.gpu_memory, gpus);
}

/** Return the names with one more, unless it is empty or among them. */
export function addName(names: string[], name: string): string[] {
  return name === '' || names.includes(name) ? names : [...names, name];
}
