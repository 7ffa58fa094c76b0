/** The fields of the form that changes a job, and the request that follows from them. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { readDevices } from '../amounts';
import { isProblem } from '../client';
import { trimBlanks } from '../plain';
import { readDuration } from '../send/duration';
import type { ITaskFields } from '../send/tasks';
import { readTaskFields } from '../send/tasks';
import type { IOffer } from '../send/values';
import { readPriority } from '../send/values';
import { formatExact } from '../times';
import type { JobChange, JobSummary, Problem } from '../wire';

/** The text in each field of the form that changes a job. */
export interface IChangeFields extends ITaskFields {
  /** A number of GPUs, or an amount of GPU memory with its unit. */
  readonly devices: string;
  /** A whole number; "" = 0. */
  readonly priority: string;
  /** A length of time; "" = no limit of the job's own. */
  readonly maxTime: string;
}

/** Return the fields as they are before the owner of the job writes into them. */
export function openFields(job: JobSummary): IChangeFields {
  return {
    devices: job.gpu_memory ?? job.gpus,
    tasks: String(job.tasks),
    minTasks: job.min_tasks === null ? '' : String(job.min_tasks),
    priority: String(job.priority),
    maxTime: job.max_seconds === null ? '' : formatExact(job.max_seconds)
  };
}

/**
 * Return the change of the job that the fields ask for, or the problem of a text that is no number of tasks, no priority
 * on offer or no length of time, or of an empty field for GPUs; null if nothing would change. The priority that the job
 * has may stay, however high it is.
 */
export function readChange(
  job: JobSummary,
  fields: IChangeFields,
  offer: Pick<IOffer, 'maxPriority'>,
  trans: TranslationBundle
): JobChange | Problem | null {
  const devices = trimBlanks(fields.devices);
  if (devices === '') {
    const message = trans.__('Write a number of GPUs, such as 0, 0.25 or 1, or GPU memory such as 12 GiB.');
    return { code: 'missing_gpus', field: 'gpus', message };
  }
  const numbers = readTaskFields(fields, trans);
  if (isProblem(numbers)) {
    return numbers;
  }
  const keeps = trimBlanks(fields.priority) === openFields(job).priority;
  const priority = keeps ? job.priority : readPriority(fields.priority, offer, job.queue, trans);
  if (typeof priority !== 'number') {
    return priority;
  }
  const maxTime = readDuration(fields.maxTime, 'max_seconds', trans);
  if (isProblem(maxTime)) {
    return maxTime;
  }
  const most = numbers.tasks ?? 1;
  const least = numbers.min_tasks ?? most;
  const change: JobChange = {
    ...(devices === openFields(job).devices ? {} : readDevices(devices)),
    ...(most === job.tasks && least === (job.min_tasks ?? job.tasks)
      ? {}
      : { tasks: most, min_tasks: least }),
    ...(priority === job.priority ? {} : { priority }),
    ...(trimBlanks(fields.maxTime) === openFields(job).maxTime ? {} : { max_seconds: maxTime ?? 0 })
  };
  return Object.keys(change).length === 0 ? null : change;
}
