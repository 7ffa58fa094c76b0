/**
 * The opening of the dialog for a job that is sent once more: its settings, and the cells as they are now. Pure.
 *
 * See docs/decisions/0143-send-again-through-the-dialog.md.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

import { parseMilli } from '../amounts';
import { hashSource } from '../bundle/hash';
import type { IPrefixEntry } from '../bundle/prefix';
import { leaveOutAgain } from '../bundle/prefix';
import { listMemberQueues } from '../queues';
import { stripControls } from '../plain';
import { formatExact } from '../times';
import type { JobView, Me } from '../wire';
import { findEarlierJob, wantsToContinue } from './continuing';
import { AS_PROPOSED } from './environment';
import type { IOpening, IProposed, ISendOrigin, UnshownSettings } from './opening';
import { isAllowed } from './secrets';
import type { ITargetCell } from './targets';
import { findTargetsOfJob } from './targets';
import type { IFormValues } from './values';
import { describeOffer } from './values';

/** The user and the cluster, as far as they decide which settings are still possible. */
type Possible = Pick<Me, 'queues' | 'pools' | 'largest_request' | 'secrets'>;

/** Return the cells of a job, as they are now in the notebook, with the settings of the job. */
export function repeatJob(job: JobView, trans: TranslationBundle): ISendOrigin {
  return {
    findTargets: panel => findTargetsOfJob(panel, job, trans),
    open: (targets, proposed, me) => describeOpening(job, targets, proposed, me, trans)
  };
}

/**
 * Return the origin of a job that replaces `job`: without the cells that `job` left out, unless the origin repeats a job
 * itself. `note` says what becomes of the replaced job; "" says nothing.
 *
 * See docs/decisions/0455-leave-out-the-same-cells-in-a-job-that-replaces-another.md.
 */
export function replaceJob(
  job: JobView,
  note: string,
  origin: ISendOrigin,
  trans: TranslationBundle
): ISendOrigin {
  return {
    findTargets: panel => origin.findTargets(panel),
    open: (targets, proposed, me) => {
      const { start, notes, ...opening } = origin.open(targets, proposed, me);
      const entries = start.entries ?? repeatLeftOut(job, proposed.entries);
      const left = start.entries === null ? describeLeft(proposed.entries, entries, trans) : [];
      return {
        ...opening,
        start: { ...start, entries },
        notes: [...(note === '' ? [] : [note]), ...left, ...notes]
      };
    }
  };
}

/** Return what the dialog opens with for a job that is sent again; `proposed` fills what is no longer possible. */
function describeOpening(
  job: JobView,
  targets: readonly ITargetCell[],
  proposed: IProposed,
  me: Possible,
  trans: TranslationBundle
): IOpening {
  const values = repeatValues(job, proposed.values, me);
  const entries = repeatLeftOut(job, proposed.entries);
  const unshown = listUnshown(job);
  return {
    values,
    start: {
      returns: job.returns.length === 0 ? null : job.returns.join(', '),
      environment: { ...AS_PROPOSED, secrets: job.secrets.length === 0 ? null : job.secrets },
      unshown,
      entries,
      earlier: findEarlierJob(job)
    },
    notes: [
      ...describeCells(job, targets, trans),
      ...describeLeft(proposed.entries, entries, trans),
      ...describeCarried(job, trans),
      ...describeLost(job, values, me, trans),
      ...describeUnshown(unshown, trans)
    ]
  };
}

/** Return the proposed entries without those that the user of the job left out. */
function repeatLeftOut(job: JobView, proposed: readonly IPrefixEntry[]): readonly IPrefixEntry[] {
  // An earlier release of the service does not send the field.
  return leaveOutAgain(proposed, job.left_out_cells ?? []);
}

/** Return the values of the fields, as far as they are still possible. */
function repeatValues(job: JobView, proposed: IFormValues, me: Possible): IFormValues {
  const isMember = listMemberQueues(me.queues).some(queue => queue.name === job.queue);
  const isPossible = (parseMilli(job.gpus) ?? 0) <= (parseMilli(me.largest_request) ?? 0);
  return {
    ...proposed,
    name: job.name,
    queue: isMember ? job.queue : proposed.queue,
    gpus: isPossible && job.gpu_memory === null ? job.gpus : proposed.gpus,
    gpuMemory: job.gpu_memory ?? '',
    tasks: job.tasks > 1 ? String(job.tasks) : '',
    minTasks: job.min_tasks === null ? '' : String(job.min_tasks),
    cpus: job.cpus ?? '',
    memory: job.memory ?? '',
    model: job.gpu_model ?? '',
    expected: job.expected_seconds === null ? '' : formatExact(job.expected_seconds),
    maxTime: showOwnMaxTime(job, me),
    priority: job.priority === 0 ? '' : String(job.priority),
    // An earlier release of the service does not send the field.
    software: job.software ?? '',
    continueFrom: wantsToContinue(job) ? (findEarlierJob(job)?.id ?? '') : ''
  };
}

/** Return the maximum running time of a job as text; "" if it has only the limit of its queue. */
function showOwnMaxTime(job: JobView, me: Possible): string {
  const limit = me.queues.find(queue => queue.name === job.queue)?.max_seconds ?? null;
  return job.max_seconds === null || job.max_seconds === limit ? '' : formatExact(job.max_seconds);
}

/** Return the settings without a field. */
function listUnshown(job: JobView): UnshownSettings {
  return {
    ...(job.preferred_gpu_models.length > 0 && { preferred_gpu_models: job.preferred_gpu_models }),
    ...(job.within !== null && { within: job.within })
  };
}

/** Return sentences about cells that changed or are gone. */
function describeCells(job: JobView, targets: readonly ITargetCell[], trans: TranslationBundle): string[] {
  const sources = new Map(targets.map(target => [target.id, target.source]));
  const known = job.targets.filter(target => sources.has(target.cell_id));
  const changed = known.filter(
    target => hashSource(sources.get(target.cell_id) ?? '') !== target.source_hash
  );
  const gone = job.targets.length - known.length;
  const name = stripControls(job.name);
  const notes = [
    trans._n(
      'A cell has changed since “%2” was sent. The job runs it as it is now.',
      '%1 cells have changed since “%2” was sent. The job runs them as they are now.',
      changed.length,
      name
    ),
    trans._n(
      'A cell of “%2” is no longer in this notebook, and is not sent.',
      '%1 cells of “%2” are no longer in this notebook, and are not sent.',
      gone,
      name
    )
  ];
  return notes.filter((_, index) => [changed.length, gone][index] > 0);
}

/** Return a sentence about the proposed entries that are left out, as they were before; none if none is. */
function describeLeft(
  proposed: readonly IPrefixEntry[],
  entries: readonly IPrefixEntry[],
  trans: TranslationBundle
): string[] {
  const count = (some: readonly IPrefixEntry[]): number => some.filter(entry => entry.included).length;
  const left = count(proposed) - count(entries);
  const note = trans._n(
    'As before, %1 earlier cell does not run first.',
    'As before, %1 earlier cells do not run first.',
    left
  );
  return left > 0 ? [note] : [];
}

/** Return a sentence about the variables that went along with the job; none without any. */
function describeCarried(job: JobView, trans: TranslationBundle): string[] {
  const note = trans.__(
    'Variables of the kernel went along with “%1”. To take them along as they are now, choose so above.',
    stripControls(job.name)
  );
  return job.carries_variables === true ? [note] : [];
}

/** Return sentences about settings that the job had and that are no longer possible. */
function describeLost(job: JobView, values: IFormValues, me: Possible, trans: TranslationBundle): string[] {
  const notes: string[] = [];
  const queue = me.queues.find(known => known.name === values.queue);
  if (values.queue !== job.queue) {
    notes.push(trans.__('The job was in the queue %1, to which you can no longer send.', job.queue));
  }
  if (job.gpu_memory === null && values.gpus !== job.gpus) {
    notes.push(trans.__('The job had %1 GPU, which is more than there is now.', job.gpus));
  }
  const { models } = describeOffer(queue, me.pools);
  if (job.gpu_model !== null && !models.includes(job.gpu_model)) {
    notes.push(
      trans.__('The job asked for GPUs of the model %1, which %2 does not have.', job.gpu_model, values.queue)
    );
  }
  for (const secret of job.secrets.filter(name => !isAllowed(name, me))) {
    notes.push(trans.__('The job had the secret %1, which your admin no longer allows.', secret));
  }
  return notes;
}

/** Return a sentence with the settings that have no field; none without such a setting. */
function describeUnshown(unshown: UnshownSettings, trans: TranslationBundle): string[] {
  const { preferred_gpu_models = [], within } = unshown;
  const kept = [
    preferred_gpu_models.length > 0
      ? trans.__('prefers %1', preferred_gpu_models.join(trans.__(', then ')))
      : '',
    within ? trans.__('has all tasks in one %1', within) : ''
  ].filter(part => part !== '');
  return kept.length === 0 ? [] : [trans.__('As before, the job %1.', kept.join(', '))];
}
