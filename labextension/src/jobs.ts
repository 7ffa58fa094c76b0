/** Jobs and notebooks as lists and lines: what is shown of them, in words. Pure. */

import { gpuWords } from './amounts';
import { ago, clock, minutes, roughly, span } from './times';
import type { Bounds, JobView, NotebookView, QueueView } from './wire';

export type JobPhase = JobView['phase'];
export type NotebookPhase = NotebookView['phase'];

/** How a state is coloured: never the only sign, the word stands beside it. */
export type Tone = 'quiet' | 'active' | 'good' | 'warn' | 'bad';

export interface IPhaseLook {
  readonly word: string;
  readonly tone: Tone;
  readonly icon: 'clock' | 'spinner' | 'pause' | 'check' | 'error' | 'stop';
}

export const JOB_LOOKS: Readonly<Record<JobPhase, IPhaseLook>> = {
  waiting: { word: 'Waiting', tone: 'quiet', icon: 'clock' },
  starting: { word: 'Starting', tone: 'active', icon: 'spinner' },
  running: { word: 'Running', tone: 'active', icon: 'spinner' },
  pausing: { word: 'Pausing', tone: 'warn', icon: 'pause' },
  paused: { word: 'Paused', tone: 'warn', icon: 'pause' },
  cancelling: { word: 'Cancelling', tone: 'quiet', icon: 'stop' },
  done: { word: 'Done', tone: 'good', icon: 'check' },
  failed: { word: 'Failed', tone: 'bad', icon: 'error' },
  cancelled: { word: 'Cancelled', tone: 'quiet', icon: 'stop' }
};

export const NOTEBOOK_LOOKS: Readonly<Record<NotebookPhase, IPhaseLook>> = {
  waiting: { word: 'Waiting', tone: 'quiet', icon: 'clock' },
  starting: { word: 'Starting', tone: 'active', icon: 'spinner' },
  running: { word: 'Running', tone: 'good', icon: 'check' },
  stopping: { word: 'Stopping', tone: 'quiet', icon: 'stop' },
  stopped: { word: 'Stopped', tone: 'quiet', icon: 'stop' }
};

const FINAL: ReadonlySet<JobPhase> = new Set<JobPhase>(['done', 'failed', 'cancelled']);

export function isFinal(phase: JobPhase): boolean {
  return FINAL.has(phase);
}

/** It may still be cancelled. */
export function isCancellable(job: JobView): boolean {
  return !isFinal(job.phase) && job.phase !== 'cancelling';
}

/** Puts newer versions of jobs into a list, newest first; the latest version of a job wins. */
export function merged(jobs: readonly JobView[], news: readonly JobView[]): JobView[] {
  const byId = new Map(jobs.map(job => [job.id, job]));
  for (const job of news) {
    const known = byId.get(job.id);
    byId.set(job.id, known !== undefined && isStale(job, known) ? known : job);
  }
  return [...byId.values()].sort(newestFirst);
}

/** An answer that was under way when an event told a later state must not bring the earlier one back. */
function isStale(job: JobView, known: JobView): boolean {
  return (
    (isFinal(known.phase) && !isFinal(job.phase)) || job.run < known.run || job.last_seq < known.last_seq
  );
}

function newestFirst(one: JobView, other: JobView): number {
  return other.submitted_at - one.submitted_at || (one.id < other.id ? 1 : -1);
}

/** Jobs that hold or want something, before those that are over. */
export function split(jobs: readonly JobView[]): { active: JobView[]; over: JobView[] } {
  return { active: jobs.filter(job => !isFinal(job.phase)), over: jobs.filter(job => isFinal(job.phase)) };
}

/** "1 GPU", "2 × 0.5 GPU", "CPU only". */
export function amount(job: Pick<JobView, 'gpus' | 'tasks'>): string {
  return job.tasks > 1 ? `${job.tasks} × ${gpuWords(job.gpus)}` : gpuWords(job.gpus);
}

/** Seconds of the last run; null before it began. */
export function runSeconds(job: JobView, now: number): number | null {
  return job.started_at === null ? null : Math.max(0, (job.finished_at ?? now) - job.started_at);
}

/** The sentence of a row: what it does, or why it does not. Position first, since that is what is asked. */
export function line(job: JobView, now: number): string {
  if (isFinal(job.phase)) {
    return summary(job, now);
  }
  const place = job.position === null ? null : `${ordinal(job.position)} in line`;
  if (job.phase === 'running' && job.progress?.text) {
    return job.progress.text;
  }
  const parts = [
    place === null || job.phase === 'paused' ? '' : `${place}.`,
    job.sentence,
    expected(job, now)
  ];
  return parts.filter(part => part !== '').join(' ');
}

/** "Probably starts within 5 min, almost surely within 15 min."; "" when that cannot be said. */
export function expected(job: JobView, now: number): string {
  if (job.expected_start === null) {
    return '';
  }
  const [likely, surely] = [job.expected_start.p50, job.expected_start.p90].map(at => roughly(at - now));
  return likely === surely
    ? `Probably starts within ${surely}.`
    : `Probably starts within ${likely}, almost surely within ${surely}.`;
}

/** "Trained in vision on 1 GPU for 2 min 3 s": what stays under the cell. */
export function summary(job: JobView, now: number): string {
  const seconds = runSeconds(job, now);
  const time = seconds === null ? '' : ` for ${span(seconds)}`;
  const runs = job.run > 1 ? `, in ${job.run} runs` : '';
  switch (job.phase) {
    case 'done':
      return `Trained in ${job.queue} on ${amount(job)}${time}${runs}`;
    case 'failed':
      return failure(job);
    case 'cancelled':
      return job.sentence || `Cancelled${seconds === null ? ' before it began' : ` after ${span(seconds)}`}`;
    default:
      return job.sentence;
  }
}

function failure(job: JobView): string {
  if (job.error === null) {
    return job.sentence;
  }
  const value = job.error.evalue.split('\n')[0];
  return value === '' ? job.error.ename : `${job.error.ename}: ${value}`;
}

export function ordinal(place: number): string {
  const tens = place % 100;
  const ending = tens >= 11 && tens <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][place % 10] ?? 'th');
  return `${place}${ending}`;
}

/** The instant that the age of a row counts from, and its word. */
export function age(job: JobView, now: number): { text: string; instant: number } {
  const instant = job.finished_at ?? job.submitted_at;
  return { text: ago(instant, now), instant };
}

/** Name of a server for people: the default one has none of its own. */
export function serverName(notebook: Pick<NotebookView, 'server'>): string {
  return notebook.server === '' || notebook.server === '-' ? 'Default server' : notebook.server;
}

/** What a notebook does: what is wrong with it, idle since, memory, or why it waits. Unknown is said, never shown as 0. */
export function notebookLine(notebook: NotebookView, now: number): string {
  if (notebook.phase !== 'running') {
    return notebook.position === null
      ? notebook.sentence
      : `${ordinal(notebook.position)} in line. ${notebook.sentence}`;
  }
  if (notebook.trouble !== undefined && notebook.trouble !== '') {
    return notebook.trouble;
  }
  if (notebook.warning !== null) {
    return `Idle: its share is taken at ${clock(notebook.warning.expire_at, now)}`;
  }
  const idle = notebook.idle_since === null ? 0 : now - notebook.idle_since;
  const use = idle < 60 ? '' : `Idle ${minutes(idle)}`;
  return [use, memory(notebook)].filter(part => part !== '').join(' · ') || notebook.sentence;
}

/** "6.1 / 10 GB", or nothing when the quota is not known either. */
export function memory(notebook: NotebookView): string {
  if (notebook.memory_quota_mib === null) {
    return '';
  }
  const quota = gigabytes(notebook.memory_quota_mib);
  return notebook.memory_used_mib === null
    ? `${quota} GB`
    : `${gigabytes(notebook.memory_used_mib)} / ${quota} GB`;
}

function gigabytes(mib: number): string {
  const value = mib / 1024;
  return value >= 10 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

/** "0.5 guaranteed, 1 in use", as the dialog and the bars say it. */
export function queueTotals(queue: QueueView): string {
  const limit = queue.limit === null ? '' : `, at most ${queue.limit}`;
  const waiting = queue.waiting === 0 ? '' : `, ${queue.waiting} waiting`;
  return `${queue.quota} guaranteed, ${queue.used} in use${limit}${waiting}`;
}

/** "12 of 32 CPU cores, 64 GiB of 256 GiB of memory": where the queue says something of them; else "". */
export function restTotals(queue: QueueView): string {
  const parts = [bounds(queue.cpus, 'CPU cores'), bounds(queue.memory, 'of memory')];
  return parts.filter(part => part !== '').join(', ');
}

function bounds({ quota, limit, used }: Bounds, noun: string): string {
  if (quota === null && limit === null) {
    return '';
  }
  return quota === null ? `${used} of at most ${limit} ${noun}` : `${used} of ${quota} ${noun}`;
}

/** Queues that a job can be sent to. */
export function memberQueues(queues: readonly QueueView[]): QueueView[] {
  const parents = new Set(queues.map(queue => queue.parent));
  return queues.filter(queue => queue.member && !parents.has(queue.name));
}

/** Where a job of the same cell already waits or runs. */
export function activeJobOf(jobs: readonly JobView[], cellId: string, path: string): JobView | null {
  return (
    jobs.find(
      job =>
        !isFinal(job.phase) &&
        job.notebook_path === path &&
        job.targets.some(target => target.cell_id === cellId)
    ) ?? null
  );
}
