/** Amounts of GPUs and CPU cores: decimal text on the wire and on the screen, integer thousandths for comparing. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { trimBlanks } from './plain';
import type { JobSummary } from './wire';

const FRACTIONS = ['0.1', '0.2', '0.25', '0.5', '0.75'] as const;
/** Up to this amount whole GPUs are offered one by one, above it in powers of two, to keep the list short. */
const LAST_STEP_OF_ONE = 8;

/** Return the thousandths of a decimal amount, such as 250 for "0.25"; null if the text is not an amount. */
export function parseMilli(text: string): number | null {
  return /^\d+(\.\d{1,3})?$/.test(trimBlanks(text)) ? Math.round(Number(trimBlanks(text)) * 1000) : null;
}

/** Return an amount with its unit: "CPU only", "0.25 GPU", "1 GPU", "2 GPUs". */
export function formatGpus(gpus: string, trans: TranslationBundle): string {
  const amount = parseMilli(gpus);
  if (amount === 0) {
    return trans.__('CPU only');
  }
  return amount !== null && amount > 1000 ? trans.__('%1 GPUs', gpus) : trans.__('%1 GPU', gpus);
}

/** Return what a text asks for: GPU memory, if it is an amount with a unit such as "12 GiB", otherwise GPUs. */
export function readDevices(text: string): { gpus: string } | { gpu_memory: string } {
  const amount = trimBlanks(text);
  return /^[\d.]+[\s\u200b\u2060]*[kmgt]i?b?$/i.test(amount) ? { gpu_memory: amount } : { gpus: amount };
}

/** Return a number of CPU cores with its unit: "1 CPU core", "4 CPU cores". */
export function formatCores(cpus: string, trans: TranslationBundle): string {
  return parseMilli(cpus) === 1000 ? trans.__('%1 CPU core', cpus) : trans.__('%1 CPU cores', cpus);
}

/** Return the amounts that the user can choose: none, fractions, and whole GPUs up to `largest`, and `kept` in its place. */
export function listGpuChoices(largest: string, kept = '0'): string[] {
  const most = parseMilli(largest) ?? 0;
  const whole: string[] = [];
  for (let count = 1; count * 1000 <= most; count = count < LAST_STEP_OF_ONE ? count + 1 : count * 2) {
    whole.push(String(count));
  }
  const top = String(Math.floor(most / 1000));
  if (most >= 1000 && !whole.includes(top)) {
    whole.push(top);
  }
  const usual = ['0', ...FRACTIONS.filter(fraction => (parseMilli(fraction) ?? 0) <= most), ...whole];
  const all = usual.includes(kept) ? usual : [...usual, kept];
  return all.sort((one, other) => (parseMilli(one) ?? 0) - (parseMilli(other) ?? 0));
}

/** Return which portion of `whole` the amount `part` is, from 0 to 1; 0 if `whole` is 0. */
export function computePortion(part: string, whole: string): number {
  const total = parseMilli(whole) ?? 0;
  return total === 0 ? 0 : Math.min(1, (parseMilli(part) ?? 0) / total);
}

/** The fields of a job from which its amount of GPUs is written. */
type Sized = Pick<JobSummary, 'gpus' | 'tasks' | 'min_tasks' | 'tasks_now'>;

/** Return the GPUs of a job: "1 GPU", "2 × 0.5 GPU", "3 of 4 tasks × 1 GPU", "2 to 4 tasks × 1 GPU", "CPU only". */
export function formatAmount(job: Sized, trans: TranslationBundle): string {
  const gpus = formatGpus(job.gpus, trans);
  if (job.tasks_now !== null && job.tasks_now < job.tasks) {
    return trans.__('%1 of %2 tasks × %3', job.tasks_now, job.tasks, gpus);
  }
  if (job.min_tasks !== null && job.tasks_now === null) {
    return trans.__('%1 to %2 tasks × %3', job.min_tasks, job.tasks, gpus);
  }
  return job.tasks > 1 ? `${job.tasks} × ${gpus}` : gpus;
}

/** Return `formatAmount` for a narrow place: "1 of 2 × 0.5 GPU". */
export function formatShortAmount(job: Sized, trans: TranslationBundle): string {
  const gpus = formatGpus(job.gpus, trans);
  if (job.tasks_now !== null && job.tasks_now < job.tasks) {
    return trans.__('%1 of %2 × %3', job.tasks_now, job.tasks, gpus);
  }
  return job.min_tasks !== null && job.tasks_now === null
    ? trans.__('%1 to %2 × %3', job.min_tasks, job.tasks, gpus)
    : formatAmount(job, trans);
}
