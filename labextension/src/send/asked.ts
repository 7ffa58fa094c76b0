/** What the user asks for in the dialog, as he writes it: how it is sent, said in short, and remembered. Pure. */

import { choices, coreWords, gpuWords, milli } from '../amounts';
import { memberQueues } from '../jobs';
import { parsedSpan, span } from '../times';
import type { Bounds, JobRequest, JobView, Me, PoolView, Problem, QueueView } from '../wire';

/** Text of each field; "" is "not said". */
export interface IAsked {
  readonly name: string;
  readonly queue: string;
  readonly gpus: string;
  readonly cpus: string;
  readonly memory: string;
  readonly model: string;
  readonly expected: string;
}

/** What is the same from one job to the next; `notebook` is the path of the last one. */
export type IRemembered = Partial<Omit<IAsked, 'name'> & { readonly notebook: string }>;

const SAME = ['queue', 'gpus', 'cpus', 'memory', 'model', 'expected'] as const;
const REMEMBERED = [...SAME, 'notebook'] as const;

/** As the service has it. */
const LONGEST = 10 * 366 * 24 * 3600;

function wrong(message: string): Problem {
  return { code: 'invalid_duration', field: 'expected_seconds', message };
}

/** The request, or what is wrong with it before anybody is asked. */
export function requestOf(asked: IAsked, models: readonly string[]): JobRequest | Problem {
  const expected = asked.expected.trim();
  const seconds = expected === '' ? null : parsedSpan(expected);
  if (expected !== '' && seconds === null) {
    return wrong(
      `“${expected}” is no length of time. Write one with its unit, such as 45 min, 2 h 30 min or 3 d.`
    );
  }
  if (seconds !== null && seconds > LONGEST) {
    return wrong(`“${expected}” is more than ten years. Write less, or leave it empty.`);
  }
  return {
    name: asked.name,
    queue: asked.queue,
    gpus: asked.gpus,
    cpus: asked.cpus.trim() || null,
    memory: asked.memory.trim() || null,
    gpu_model: choosesModel(asked, models) && models.includes(asked.model) ? asked.model : null,
    expected_seconds: seconds
  };
}

/** There is something to choose. */
export function choosesModel(asked: Pick<IAsked, 'gpus'>, models: readonly string[]): boolean {
  return models.length > 1 && milli(asked.gpus) !== 0;
}

/** "4 CPU cores · 16 GiB · about 2 h": what stands beside the closed section. */
export function inShort(asked: IAsked, models: readonly string[]): string {
  const request = requestOf(asked, models);
  const parts = [
    asked.cpus.trim() === '' ? null : coreWords(asked.cpus.trim()),
    asked.memory.trim() === '' ? null : withUnit(asked.memory),
    'gpu_model' in request ? request.gpu_model : null,
    'expected_seconds' in request && typeof request.expected_seconds === 'number'
      ? `about ${span(request.expected_seconds)}`
      : asked.expected.trim() || null
  ];
  return parts.filter(part => part !== null).join(' · ');
}

/** A number without a unit is GiB. */
export function withUnit(memory: string): string {
  const text = memory.trim();
  return /^[\d.]+$/.test(text) ? `${text} GiB` : text;
}

/** What stands beside a field: its unit, and the most there is. */
export function hint(unit: string, most: string | null | undefined): string {
  return most ? `${unit}, at most ${most}` : unit;
}

/** What stands in a field while it is empty: what the queue gives to jobs that name nothing. */
export function byDefault(bounds: Bounds | undefined): string {
  return bounds?.default ? `${bounds.default} by default` : '';
}

/** The pool that a queue takes its GPUs from. */
export function poolOf(queue: QueueView | undefined, pools: readonly PoolView[]): PoolView | undefined {
  return pools.find(pool => pool.name === queue?.pool);
}

/** What is kept for the next time. */
export function remembered(asked: IAsked, notebook: string): IRemembered {
  return { ...Object.fromEntries(SAME.map(key => [key, asked[key]])), notebook };
}

/** What was kept, as far as it can be read: it may come from another version. */
export function recalled(kept: unknown): IRemembered {
  const known = (typeof kept === 'object' && kept !== null ? kept : {}) as Record<string, unknown>;
  return Object.fromEntries(
    REMEMBERED.filter(key => typeof known[key] === 'string').map(key => [key, known[key]])
  );
}

/** What the dialog opens with: what was asked for last time, where that is still possible. */
export function proposal(
  kept: IRemembered,
  me: Pick<Me, 'queues' | 'largest_request'>,
  notebook: string,
  name: string
): IAsked {
  const queues = memberQueues(me.queues);
  const possible = choices(me.largest_request);
  const usual = possible.includes('1') ? '1' : possible[possible.length - 1];
  return {
    name,
    queue: (queues.find(queue => queue.name === kept.queue) ?? queues[0]).name,
    gpus: possible.find(gpus => gpus === kept.gpus) ?? usual,
    cpus: kept.cpus ?? '',
    memory: kept.memory ?? '',
    model: kept.model ?? '',
    // How long it runs is a matter of the work: another notebook is other work.
    expected: kept.notebook === notebook ? (kept.expected ?? '') : ''
  };
}

/** "1 GPU of H100, 4 CPU cores, 16 GiB of memory, expected to run 2 h": what a job asked for. */
export function askedFor(
  job: Pick<JobView, 'gpus' | 'cpus' | 'memory' | 'gpu_model' | 'expected_seconds'>
): string {
  const gpus = gpuWords(job.gpus) + (job.gpu_model === null ? '' : ` of ${job.gpu_model}`);
  const parts = [
    gpus,
    job.cpus === null ? null : coreWords(job.cpus),
    job.memory === null ? null : `${job.memory} of memory`,
    job.expected_seconds === null ? null : `expected to run ${span(job.expected_seconds)}`
  ];
  return parts.filter(part => part !== null).join(', ');
}
