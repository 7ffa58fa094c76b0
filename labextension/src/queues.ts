/** Lists of queues, and the words that describe them. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Bounds, JobSummary, QueueView } from './wire';

/** Return the GPU totals of a queue, such as "0.5 guaranteed, 1 in use, at most 4, 2 waiting". */
export function describeGpuUsage(queue: QueueView, trans: TranslationBundle): string {
  const parts = [
    trans.__('%1 guaranteed', queue.quota),
    trans.__('%1 in use', queue.used),
    queue.limit === null ? '' : trans.__('at most %1', queue.limit),
    queue.waiting === 0 ? '' : trans.__('%1 waiting', queue.waiting)
  ];
  return parts.filter(part => part !== '').join(', ');
}

/** Return CPU cores and memory in use, such as "12 of 32 CPU cores"; "" if the queue has no bounds of either. */
export function describeHostUsage(queue: QueueView, trans: TranslationBundle): string {
  const parts = [describeCores(queue.cpus, trans), describeMemory(queue.memory, trans)];
  return parts.filter(part => part !== '').join(', ');
}

/** Return the use of CPU cores against their quota, or against their limit if there is no quota; "" without either. */
function describeCores({ quota, limit, used }: Bounds, trans: TranslationBundle): string {
  if (quota !== null) {
    return trans.__('%1 of %2 CPU cores', used, quota);
  }
  return limit === null ? '' : trans.__('%1 of at most %2 CPU cores', used, limit);
}

/** Return the use of memory against its quota, or against its limit if there is no quota; "" without either. */
function describeMemory({ quota, limit, used }: Bounds, trans: TranslationBundle): string {
  if (quota !== null) {
    return trans.__('%1 of %2 of memory', used, quota);
  }
  return limit === null ? '' : trans.__('%1 of at most %2 of memory', used, limit);
}

/** Return the names of the queues to which the user can move all of these jobs. */
export function listOtherQueues(
  queues: readonly QueueView[],
  jobs: readonly Pick<JobSummary, 'queue'>[]
): string[] {
  const present = new Set(jobs.map(job => job.queue));
  return listMemberQueues(queues)
    .map(queue => queue.name)
    .filter(name => present.size !== 1 || !present.has(name));
}

/** Return the queues that the user can send a job to: leaves of the tree that the user is a member of. */
export function listMemberQueues(queues: readonly QueueView[]): QueueView[] {
  const parents = new Set(queues.map(queue => queue.parent));
  return queues.filter(queue => queue.member && !parents.has(queue.name));
}
