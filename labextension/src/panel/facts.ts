/** The details of a job as terms and values. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { computeRunSeconds, formatOrdinal, hasDevices, findOrigin } from '../jobs';
import { stripControls } from '../plain';
import { describeRequest } from '../send/values';
import { formatAmount } from '../amounts';
import { describePauseCost, hasPaused } from '../pauses';
import { omitState, showSentence } from '../sentences';
import { formatAge, formatClock, formatEstimate, formatSpan } from '../times';
import type { JobSummary } from '../wire';

/** Progress and seconds of a run below which nothing is said about the rest. */
const LEAST_FRACTION = 0.01;
const LEAST_SECONDS = 10;

/** Return the details of a job as terms and values, without those that do not apply to the job. */
export function listDetails(job: JobSummary, now: number, trans: TranslationBundle): [string, string][] {
  const rows: [string, string | null][] = [
    [trans.__('Queue'), describePlace(job, trans)],
    [hasDevices(job.phase) ? trans.__('Has') : trans.__('Ran on'), describeDevices(job, trans)],
    [trans.__('Asked for'), describeAsked(job, trans)],
    [
      trans.__('Over quota'),
      job.over_quota === null
        ? null
        : trans.__('%1 GPU, may be paused when its owner needs it', job.over_quota)
    ],
    [trans.__('Paused'), describePause(job, now)],
    [trans.__('If paused'), hasPaused(job) ? null : describePauseCost(job, now, trans) || null],
    [trans.__('Runs'), job.run > 1 ? String(job.run) : null],
    [trans.__('Progress'), describeProgress(job)],
    [trans.__('Time'), describeTime(job, now, trans)],
    [trans.__('Left'), describeRest(job, now, trans)],
    [trans.__('Checkpoint'), describeCheckpoint(job, now, trans)],
    [
      trans.__('Maximum time'),
      job.max_seconds === null
        ? null
        : trans.__('%1 over all runs, without pauses', formatSpan(job.max_seconds))
    ],
    // An earlier release of the service does not send the field.
    [trans.__('Software'), stripControls(job.software ?? '') || null],
    [trans.__('Continues'), describeEarlier(job, trans)],
    [trans.__('Sweep'), stripControls(job.group) || null],
    [trans.__('Disk'), job.disk],
    [trans.__('Sent'), formatClock(job.submitted_at, now)],
    [trans.__('Ended'), job.finished_at === null ? null : formatClock(job.finished_at, now)],
    [
      findOrigin(job) === 'script' ? trans.__('Script') : trans.__('Notebook'),
      stripControls(job.notebook_path) || null
    ]
  ];
  return rows.filter((row): row is [string, string] => row[1] !== null);
}

/** Return from which job the job continues; null if from none. */
function describeEarlier(job: JobSummary, trans: TranslationBundle): string | null {
  // An earlier release of the service does not send the field.
  const earlier = stripControls(job.continue_from ?? '');
  return earlier === '' ? null : trans.__('from the checkpoints of %1', earlier);
}

function describePlace(job: JobSummary, trans: TranslationBundle): string {
  return job.position === null
    ? job.queue
    : trans.__('%1, %2 in line', job.queue, formatOrdinal(job.position, trans));
}

/** Return the devices that the job has, or had when it ended; null if it has none. */
function describeDevices(job: JobSummary, trans: TranslationBundle): string | null {
  if (job.devices.length === 0) {
    return null;
  }
  const devices = job.devices.join(', ');
  const amount = formatAmount(job, trans);
  return job.node
    ? trans.__('%1 on %2 (%3)', amount, devices, job.node)
    : trans.__('%1 on %2', amount, devices);
}

/** Return what the job asked for if that is more than GPUs, which its row shows already. */
function describeAsked(job: JobSummary, trans: TranslationBundle): string | null {
  if (!asksForMoreThanGpus(job)) {
    return null;
  }
  return job.tasks > 1
    ? trans.__('%1, for each task', describeRequest(job, trans))
    : describeRequest(job, trans);
}

function asksForMoreThanGpus(job: JobSummary): boolean {
  return (
    job.priority !== 0 ||
    job.preferred_gpu_models.length > 0 ||
    [job.gpu_memory, job.cpus, job.memory, job.gpu_model, job.expected_seconds].some(said => said !== null)
  );
}

/**
 * Return why and when the job was paused last; null if it was not, or was ended at its maximum running time. A pause that is
 * under way is told by the sentence of the job.
 */
function describePause({ eviction, phase }: JobSummary, now: number): string | null {
  const paused = eviction !== null && phase !== 'pausing' && eviction.reason !== 'RUN_TIME_LIMIT';
  if (!paused) {
    return null;
  }
  const why = omitState(showSentence(eviction.sentence, now), 'Paused');
  return `${why} (${formatClock(eviction.at, now)})`;
}

/** Return how far the code of a running job says that it is, such as "37 % · epoch 3"; null if it says nothing. */
function describeProgress({ phase, progress }: JobSummary): string | null {
  if (phase !== 'running' || progress === null) {
    return null;
  }
  const percent = progress.fraction === null ? '' : `${Math.floor(progress.fraction * 100)} %`;
  return [percent, stripControls(progress.text)].filter(part => part !== '').join(' · ') || null;
}

/** Return for how long all runs ran, and how long the owner expected it to take; null if none has begun to run. */
function describeTime(job: JobSummary, now: number, trans: TranslationBundle): string | null {
  const seconds = computeRunSeconds(job, now);
  if (seconds === null) {
    return null;
  }
  const time =
    job.run > 1 ? trans.__('%1 over all runs, without pauses', formatSpan(seconds)) : formatSpan(seconds);
  return job.expected_seconds === null
    ? time
    : trans.__('%1; %2 were expected', time, formatSpan(job.expected_seconds));
}

/** Return about how long a running job still takes if it goes on as before; null if its progress says too little. */
function describeRest(job: JobSummary, now: number, trans: TranslationBundle): string | null {
  const [seconds, fraction] = [computeRunSeconds(job, now), job.progress?.fraction ?? null];
  // A job that goes on from a checkpoint counts the steps of its earlier runs, so their time counts too.
  if (job.phase !== 'running' || seconds === null || fraction === null || seconds < LEAST_SECONDS) {
    return null;
  }
  return fraction < LEAST_FRACTION || fraction >= 1
    ? null
    : trans.__('about %1, by its progress', formatEstimate((seconds * (1 - fraction)) / fraction));
}

/** Return when a job last saved its state; null if that is not known. */
function describeCheckpoint(job: JobSummary, now: number, trans: TranslationBundle): string | null {
  // An earlier release of the service does not send the field.
  return typeof job.saved_at === 'number' ? trans.__('saved %1', formatAge(job.saved_at, now, trans)) : null;
}
