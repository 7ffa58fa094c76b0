/** The details of a job as terms and values. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { computeRunSeconds, formatAmount, formatOrdinal, hasDevices } from '../jobs';
import { stripControls } from '../plain';
import { describeRequest } from '../send/values';
import { formatInstant, formatSpan } from '../times';
import type { JobSummary } from '../wire';

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
    [trans.__('Paused'), describePause(job)],
    [trans.__('Runs'), job.run > 1 ? String(job.run) : null],
    [trans.__('Time'), describeTime(job, now, trans)],
    [
      trans.__('At most'),
      job.max_seconds === null
        ? null
        : trans.__('%1 over all runs, without pauses', formatSpan(job.max_seconds))
    ],
    [trans.__('Sweep'), stripControls(job.group) || null],
    [trans.__('Disk'), job.disk],
    [trans.__('Sent'), formatInstant(job.submitted_at)],
    [trans.__('Ended'), job.finished_at === null ? null : formatInstant(job.finished_at)],
    [trans.__('Notebook'), stripControls(job.notebook_path) || null]
  ];
  return rows.filter((row): row is [string, string] => row[1] !== null);
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

/** Return why and when the job was paused last; null if it was not, or was ended at its maximum running time. */
function describePause({ eviction }: JobSummary): string | null {
  const paused = eviction !== null && eviction.reason !== 'RUN_TIME_LIMIT';
  return paused ? `${eviction.sentence} (${formatInstant(eviction.at)})` : null;
}

/** Return for how long all runs ran; null if none has begun to run. */
function describeTime(job: JobSummary, now: number, trans: TranslationBundle): string | null {
  const seconds = computeRunSeconds(job, now);
  if (seconds === null) {
    return null;
  }
  return job.run > 1
    ? trans.__('%1 over all runs, without pauses', formatSpan(seconds))
    : formatSpan(seconds);
}
