/** Lists of jobs and notebooks, and the words that describe each of them. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatAmount, formatShortAmount } from './amounts';
import { describePauseCost, hasPaused, warnOfChange } from './pauses';
import { joinPlace, omitState, showSentence } from './sentences';
import { formatClock, formatEstimate, formatMinutes, formatSpan } from './times';
import { ENGLISH } from './translation';
import type { JobSummary, JobView, NotebookView, QueueView } from './wire';

export type JobPhase = JobSummary['phase'];
export type NotebookPhase = NotebookView['phase'];

/** The colour of a phase. A word always stands beside the colour. */
export type Tone = 'quiet' | 'active' | 'good' | 'warn' | 'bad';

/** The look of a phase on the screen. */
export interface IPhaseLook {
  readonly word: string;
  readonly tone: Tone;
  readonly icon: 'clock' | 'spinner' | 'pause' | 'check' | 'error' | 'stop';
}

type Style = Omit<IPhaseLook, 'word'>;

const JOB_STYLES: Readonly<Record<JobPhase, Style>> = {
  waiting: { tone: 'quiet', icon: 'clock' },
  starting: { tone: 'active', icon: 'spinner' },
  running: { tone: 'active', icon: 'spinner' },
  pausing: { tone: 'warn', icon: 'pause' },
  paused: { tone: 'warn', icon: 'pause' },
  cancelling: { tone: 'quiet', icon: 'stop' },
  done: { tone: 'good', icon: 'check' },
  failed: { tone: 'bad', icon: 'error' },
  cancelled: { tone: 'quiet', icon: 'stop' }
};

const NOTEBOOK_STYLES: Readonly<Record<NotebookPhase, Style>> = {
  waiting: { tone: 'quiet', icon: 'clock' },
  starting: { tone: 'active', icon: 'spinner' },
  running: { tone: 'good', icon: 'check' },
  suspended: { tone: 'warn', icon: 'pause' },
  resuming: { tone: 'active', icon: 'spinner' },
  stopping: { tone: 'quiet', icon: 'stop' },
  stopped: { tone: 'quiet', icon: 'stop' }
};

/** Return whether a text is a phase of a job. */
export function isJobPhase(text: string): text is JobPhase {
  return Object.prototype.hasOwnProperty.call(JOB_STYLES, text);
}

/** Return the look of a job in this phase. */
export function lookOfPhase(phase: JobPhase, trans: TranslationBundle): IPhaseLook {
  const words: Record<JobPhase, string> = {
    waiting: trans.__('Waiting'),
    starting: trans.__('Starting'),
    running: trans.__('Running'),
    pausing: trans.__('Pausing'),
    paused: trans.__('Paused'),
    cancelling: trans.__('Cancelling'),
    done: trans.__('Done'),
    failed: trans.__('Failed'),
    cancelled: trans.__('Cancelled')
  };
  return { ...JOB_STYLES[phase], word: words[phase] };
}

/** Return the look of a notebook in this phase. */
export function lookOfNotebook(phase: NotebookPhase, trans: TranslationBundle): IPhaseLook {
  const words: Record<NotebookPhase, string> = {
    waiting: trans.__('Waiting'),
    starting: trans.__('Starting'),
    running: trans.__('Running'),
    suspended: trans.__('Suspended'),
    resuming: trans.__('Resuming'),
    stopping: trans.__('Stopping'),
    stopped: trans.__('Stopped')
  };
  return { ...NOTEBOOK_STYLES[phase], word: words[phase] };
}

/** Return whether the server of a notebook in this phase runs, whether its share is in use or suspended. */
export function hasServer(phase: NotebookPhase): boolean {
  return phase === 'running' || phase === 'suspended' || phase === 'resuming';
}

const FINAL: ReadonlySet<JobPhase> = new Set<JobPhase>(['done', 'failed', 'cancelled']);

/** Return whether a job in this phase is over. */
export function isFinal(phase: JobPhase): boolean {
  return FINAL.has(phase);
}

/** Return whether a job has no device, for the first time or after a pause. */
export function isWaiting(phase: JobPhase): boolean {
  return phase === 'waiting' || phase === 'paused';
}

/**
 * Return the jobs that can be cancelled without loss: they wait for their first run, and nobody holds them. A paused job
 * waits as well, but has computed something.
 *
 * See docs/decisions/0228-cancel-only-what-has-not-begun.md.
 */
export function listUnbegun(jobs: readonly JobSummary[]): JobSummary[] {
  return jobs.filter(job => job.phase === 'waiting' && job.held_since === null);
}

/** Return the look of a job. */
export function lookOf(job: JobSummary, trans: TranslationBundle): IPhaseLook {
  const isHeld = job.held_since !== null && isWaiting(job.phase);
  return isHeld ? { word: trans.__('Held'), tone: 'warn', icon: 'pause' } : lookOfPhase(job.phase, trans);
}

/** Return a sentence about a job that the service does not know for this user. */
export function describeUnknown(trans: TranslationBundle): string {
  return trans.__("This job is not known to you here: it may be deleted, or be somebody else's.");
}

/** Return the word of the button that holds a job, whether it waits or runs, or releases it. */
export function nameHold(job: JobSummary, trans: TranslationBundle): string {
  return job.held_since === null ? trans.__('Hold') : trans.__('Release');
}

/** Return what the button does that holds or releases the job. */
export function tellHold(job: JobSummary, trans: TranslationBundle): string {
  return job.held_since === null
    ? trans.__('The job does not run until you release it. A running job saves its state first.')
    : trans.__('The job waits again, at its old place in line.');
}

/** Return the word of the button that sends a job which has ended once more. */
export function nameAgain(phase: JobPhase, trans: TranslationBundle): string {
  return phase === 'failed' ? trans.__('Fix and send again') : trans.__('Send again');
}

/** Return whether the job can still be cancelled. */
export function isCancellable(job: JobSummary): boolean {
  return !isFinal(job.phase) && job.phase !== 'cancelling';
}

/**
 * Merge newer versions of jobs into a list; return it newest first, with the latest version of each job.
 *
 * The cells of a job stay known, also if the newer version does not have them.
 */
export function mergeJobs(jobs: readonly JobSummary[], news: readonly JobSummary[]): JobSummary[] {
  const byId = new Map(jobs.map(job => [job.id, job]));
  for (const job of news) {
    const known = byId.get(job.id);
    byId.set(
      job.id,
      known !== undefined && isStale(job, known) ? { ...job, ...known } : { ...known, ...job }
    );
  }
  return [...byId.values()].sort(compareBySubmission);
}

/** Return whether `job` is older than `known`: an answer may arrive after an event with a later version. */
function isStale(job: JobSummary, known: JobSummary): boolean {
  return (
    (isFinal(known.phase) && !isFinal(job.phase)) || job.run < known.run || job.last_seq < known.last_seq
  );
}

/** Compare two jobs so that the newer one comes first. */
function compareBySubmission(one: JobSummary, other: JobSummary): number {
  return other.submitted_at - one.submitted_at || (one.id < other.id ? 1 : -1);
}

/** Return whether a job in this phase has its devices now. */
export function hasDevices(phase: JobPhase): boolean {
  return !isWaiting(phase) && !isFinal(phase);
}

/** Return the GPUs that a job has or had, or "for 1 GPU" if the job waits for them. */
export function describeAmount(job: JobSummary, trans: TranslationBundle, format = formatAmount): string {
  const amount = format(job, trans);
  return isWaiting(job.phase) ? trans.__('for %1', amount) : amount;
}

/** Return `describeAmount` for a narrow place: "1 of 2 × 0.5 GPU", "for 2 to 4 × 1 GPU". */
export function describeShortAmount(job: JobSummary, trans: TranslationBundle): string {
  return describeAmount(job, trans, formatShortAmount);
}

/** Return for how many seconds all runs ran, without starts and pauses; null if no run has begun to run. */
export function computeRunSeconds(job: JobSummary, now: number): number | null {
  const { ran_seconds, running_since } = job;
  if (running_since === null) {
    return ran_seconds > 0 ? ran_seconds : null;
  }
  return ran_seconds + Math.max(0, now - running_since);
}

/**
 * Return one line about a job.
 *
 * A finished job: what it trained, where and how long. A running job: that it uses no GPU, or else the progress text of
 * its code, if there is one.
 * Any other job: its place in the queue, the service's sentence, what a pause costs and the expected start, as far as
 * known.
 */
export function describeJob(job: JobSummary, now: number, trans: TranslationBundle): string {
  if (isFinal(job.phase)) {
    return omitState(showSentence(summarizeJob(job, now, trans), now), lookOfPhase(job.phase, ENGLISH).word);
  }
  const unused = describeUnused(job, now, trans);
  if (unused !== '') {
    return unused;
  }
  if (job.phase === 'running' && job.progress?.text) {
    return job.progress.text;
  }
  const parts = [
    tellWhy(job, now, trans),
    hasPaused(job) ? describePauseCost(job, now, trans) : '',
    describeExpectedStart(job, now, trans)
  ];
  return parts.filter(part => part !== '').join(' ');
}

/** Return `describeJob` for a list: without the reason why a job waits if its place and its start are known. */
export function describeBriefly(job: JobSummary, now: number, trans: TranslationBundle): string {
  return job.phase === 'waiting' && job.position !== null && job.expected_start !== null
    ? `${joinPlace(formatOrdinal(job.position, trans), '', '', trans)} ${describeExpectedStart(job, now, trans)}`
    : describeJob(job, now, trans);
}

/** Return the place in the queue and the service's sentence, without the word of the state, which stands beside it. */
function tellWhy(job: JobSummary, now: number, trans: TranslationBundle): string {
  const [{ word }, sentence] = [lookOf(job, ENGLISH), showSentence(job.sentence, now)];
  return job.position === null || job.phase === 'paused'
    ? omitState(sentence, word)
    : joinPlace(formatOrdinal(job.position, trans), sentence, word, trans);
}

/** Return a warning about the named queues whose pools are others than those of the jobs; "" if there are none. */
export function warnOfMove(
  jobs: readonly JobSummary[],
  names: readonly string[],
  queues: readonly QueueView[],
  trans: TranslationBundle
): string {
  const pools = new Map(queues.map(queue => [queue.name, queue.pool]));
  const present = new Set(jobs.map(job => pools.get(job.queue)));
  const others = names.filter(name => [...present].some(pool => pool !== pools.get(name)));
  if (others.length === 0) {
    return '';
  }
  const listed = others.map(name => trans.__('%1 (pool %2)', name, pools.get(name) ?? '')).join(', ');
  const ends = jobs.some(job => warnOfChange(job, trans) !== '');
  return ends
    ? trans.__(
        'In another pool, with other GPUs: %1. There, a suspended run ends: what it has not saved is computed again',
        listed
      )
    : trans.__('In another pool, with other GPUs: %1', listed);
}

/** Return a sentence about a running job that uses none of its GPUs; "" for any other job. */
export function describeUnused(job: JobSummary, now: number, trans: TranslationBundle): string {
  // An earlier release of the service does not send the field.
  if (!job.unused_gpu || job.phase !== 'running') {
    return '';
  }
  const seconds = now - job.unused_gpu.since;
  const time = seconds < 60 ? trans.__('less than a minute') : formatMinutes(seconds);
  return trans.__('No GPU used for %1, although the job holds %2.', time, formatAmount(job, trans));
}

/**
 * Return the service's sentence of a job with local times, without the part on unused GPUs. `describeUnused` says that
 * part, with a time that goes on.
 */
export function omitUnused(job: JobSummary, now: number): string {
  const sentence = job.unused_gpu ? job.sentence.replace(job.unused_gpu.sentence, '').trim() : job.sentence;
  return showSentence(sentence, now);
}

/** Return a sentence such as "Probably starts within 5 min, almost surely within 15 min."; "" if nothing is known. */
export function describeExpectedStart(
  job: Pick<JobSummary, 'expected_start'>,
  now: number,
  trans: TranslationBundle
): string {
  if (job.expected_start === null) {
    return '';
  }
  const [likely, surely] = [job.expected_start.p50, job.expected_start.p90].map(at =>
    formatEstimate(at - now)
  );
  return likely === surely
    ? trans.__('Probably starts within %1.', surely)
    : trans.__('Probably starts within %1, almost surely within %2.', likely, surely);
}

/** Return the line that stays under the cell, such as "Trained in vision on 1 GPU for 2 min 3 s". */
export function summarizeJob(job: JobSummary, now: number, trans: TranslationBundle): string {
  switch (job.phase) {
    case 'done':
      return summarizeTraining(job, now, trans);
    case 'failed':
      return describeFailure(job);
    case 'cancelled':
      return (
        omitState(job.sentence, lookOfPhase(job.phase, ENGLISH).word) ||
        summarizeCancellation(computeRunSeconds(job, now), trans)
      );
    default:
      return job.sentence;
  }
}

/** Return where, on what and for how long a job that is done has trained. */
function summarizeTraining(job: JobSummary, now: number, trans: TranslationBundle): string {
  const [seconds, amount] = [computeRunSeconds(job, now), formatAmount(job, trans)];
  const trained =
    seconds === null
      ? trans.__('Trained in %1 on %2', job.queue, amount)
      : trans.__('Trained in %1 on %2 for %3', job.queue, amount, formatSpan(seconds));
  return job.run > 1 ? trans.__('%1, in %2 runs', trained, job.run) : trained;
}

function summarizeCancellation(seconds: number | null, trans: TranslationBundle): string {
  return seconds === null ? trans.__('Before it began') : trans.__('After %1', formatSpan(seconds));
}

/** Return the sentence of the service, with cell, error and remedy; without one, the error of the code. */
function describeFailure(job: JobSummary): string {
  if (job.sentence !== '' || job.error === null) {
    return job.sentence;
  }
  const value = job.error.evalue.split('\n')[0];
  return value === '' ? job.error.ename : `${job.error.ename}: ${value}`;
}

/** Return a place in a line: "1st", "2nd", "11th". */
export function formatOrdinal(place: number, trans: TranslationBundle): string {
  const tens = place % 100;
  const last = tens >= 11 && tens <= 13 ? 0 : place % 10;
  switch (last) {
    case 1:
      return trans.__('%1st', place);
    case 2:
      return trans.__('%1nd', place);
    case 3:
      return trans.__('%1rd', place);
    default:
      return trans.__('%1th', place);
  }
}

/** Return the name of a server for people: the default server has no name of its own. */
export function formatServerName(notebook: Pick<NotebookView, 'server'>, trans: TranslationBundle): string {
  return notebook.server === '' || notebook.server === '-' ? trans.__('Default server') : notebook.server;
}

/**
 * Return one line about a notebook: what is wrong, the idle time and memory, or why it waits.
 *
 * Unknown values are left out, never shown as 0.
 */
export function describeNotebook(notebook: NotebookView, now: number, trans: TranslationBundle): string {
  if (notebook.phase !== 'running') {
    const { word } = lookOfNotebook(notebook.phase, ENGLISH);
    return notebook.position === null
      ? omitState(notebook.sentence, word)
      : joinPlace(formatOrdinal(notebook.position, trans), notebook.sentence, word, trans);
  }
  // An earlier release of the service does not send the field.
  if (notebook.trouble) {
    return notebook.trouble;
  }
  if (notebook.warning !== null) {
    return trans.__('Idle: its share is taken at %1', formatClock(notebook.warning.expire_at, now));
  }
  const idle = notebook.idle_since === null ? 0 : now - notebook.idle_since;
  const use = idle < 60 ? '' : trans.__('Idle %1', formatMinutes(idle));
  return [use, formatMemory(notebook)].filter(part => part !== '').join(' · ') || notebook.sentence;
}

/** Return the memory in use and the quota, such as "6.1 / 10 GiB"; "" if the quota is unknown. */
export function formatMemory(notebook: NotebookView): string {
  if (notebook.memory_quota_mib === null) {
    return '';
  }
  const quota = formatGibibytes(notebook.memory_quota_mib);
  return notebook.memory_used_mib === null
    ? `${quota} GiB`
    : `${formatGibibytes(notebook.memory_used_mib)} / ${quota} GiB`;
}

/** Return MiB as GiB, with one decimal below 10. */
export function formatGibibytes(mib: number): string {
  const value = mib / 1024;
  return value >= 10 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

/** Return whether a job was sent from cells of a notebook: scripts and calls of functions have none. */
export function isOfCells(job: JobSummary): boolean {
  return findOrigin(job) === 'notebook';
}

/** Return what a job was made from. */
export function findOrigin({ origin, notebook_path: path }: JobSummary): JobSummary['origin'] {
  // An earlier release of the service does not send the field.
  return origin ?? (path.endsWith('.ipynb') ? 'notebook' : 'script');
}

/** Return whether the cells of a job are known: lists leave them out. */
export function hasCells(job: JobSummary): job is JobView {
  return 'targets' in job;
}

/** Return the jobs that wait or run and were sent from this path, or are among `bound`. */
export function listActiveJobs(
  jobs: readonly JobSummary[],
  path: string,
  bound: readonly (string | undefined)[] = []
): JobSummary[] {
  return jobs.filter(job => !isFinal(job.phase) && (job.notebook_path === path || bound.includes(job.id)));
}

/** Return the first of these jobs whose output goes to the cell; null if there is none. */
export function findJobOfCell(jobs: readonly JobView[], cellId: string): JobView | null {
  return jobs.find(job => job.targets.some(target => target.cell_id === cellId)) ?? null;
}
