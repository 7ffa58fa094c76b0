/**
 * The work that a cell already has in training: one job, or all jobs of a sweep.
 *
 * See docs/decisions/0265-replace-a-sweep-as-a-whole.md.
 */

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { cancelAll, cancelJob } from '../acts';
import { describeStates, nameSweep } from '../attach/sweep';
import { describeError } from '../client';
import { findJobOfCell, isCancellable, isFinal, lookOfPhase, mergeJobs } from '../jobs';
import { fitToast, quoteName } from '../toasts';
import type { ITraining } from '../tokens';
import type { JobSummary, JobView } from '../wire';

/** A job whose output goes to a cell, with the jobs of its sweep; none if it belongs to no sweep. */
export interface IPresentWork {
  readonly job: JobView;
  readonly sweep: readonly JobSummary[];
}

/** Return the work to which the job belongs. If the server cannot tell the jobs of its sweep, those known here count. */
export async function findPresentWork(training: ITraining, job: JobView): Promise<IPresentWork> {
  return { job, sweep: job.group === '' ? [] : await listSweep(training, job.group) };
}

/** Return the present works of these cells, each once, by the first of the `active` jobs of each cell. */
export async function listPresentWorks(
  training: ITraining,
  active: readonly JobView[],
  cells: readonly string[]
): Promise<IPresentWork[]> {
  const found = cells.map(cell => findJobOfCell(active, cell)).filter((job): job is JobView => job !== null);
  const byWork = new Map(found.reverse().map(job => [job.group === '' ? job.id : `group ${job.group}`, job]));
  return Promise.all([...byWork.values()].reverse().map(job => findPresentWork(training, job)));
}

async function listSweep(training: ITraining, group: string): Promise<readonly JobSummary[]> {
  const known = training.state.jobs.filter(job => job.group === group);
  return training.client.listGroup(group).catch(() => known);
}

/**
 * Ask what to do with the work of the same cell: keep both, or replace it by the new job; null if the user cancels. The
 * question follows the states of the jobs.
 */
export async function askAboutPresentWork(
  training: ITraining,
  work: IPresentWork,
  trans: TranslationBundle
): Promise<'both' | 'replace' | null> {
  const result = await showDialog({
    title: trans.__('This cell was sent to training before'),
    body: ReactWidget.create(
      <UseSignal signal={training.jobChanged}>
        {() => <span role="status">{describeWork(training, work, trans)}</span>}
      </UseSignal>
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.createButton({ label: trans.__('Keep both'), accept: true, actions: ['both'] }),
      Dialog.warnButton({ label: trans.__('Replace it'), accept: true, actions: ['replace'] })
    ],
    // Enter keeps what runs: by default it would press the last button.
    defaultButton: 1
  });
  if (!result.button.accept) {
    return null;
  }
  return result.button.actions.includes('replace') ? 'replace' : 'both';
}

function describeWork(training: ITraining, { job, sweep }: IPresentWork, trans: TranslationBundle): string {
  const refresh = (known: JobSummary): JobSummary => findNewest(training, known);
  return sweep.length > 0
    ? describeSweepWork(sweep.map(refresh), trans)
    : describeJobWork(refresh(job), trans);
}

/** Return the newest known version of the job. */
function findNewest(training: ITraining, job: JobSummary): JobSummary {
  const heard = training.state.jobs.filter(({ id }) => id === job.id);
  return mergeJobs([job], heard)[0];
}

function describeJobWork(job: JobSummary, trans: TranslationBundle): string {
  const { word } = lookOfPhase(job.phase, trans);
  if (isFinal(job.phase)) {
    return trans.__(
      '“%1” in %2 has ended by now: %3. Once another job takes over the cell, its output is in the panel only.',
      job.name,
      job.queue,
      word
    );
  }
  const said = trans.__('“%1” in %2: %3.', job.name, job.queue, word);
  const replaced = isCancellable(job)
    ? [trans.__('Replacing it cancels this job, once the new one is accepted.')]
    : [];
  const taken = trans.__(
    'Once another job takes over the cell, the output of this job is in the panel only.'
  );
  return [said, ...replaced, taken].join(' ');
}

function describeSweepWork(jobs: readonly JobSummary[], trans: TranslationBundle): string {
  const left = jobs.filter(isCancellable).length;
  const said = trans.__(
    'The sweep “%1” in %2, %3.',
    nameSweep(jobs),
    jobs[0].queue,
    describeStates(jobs, trans)
  );
  if (left === 0) {
    return `${said} ${trans.__('All of its jobs have ended or are being cancelled by now.')}`;
  }
  const replaced = trans._n(
    'Replacing it cancels the %1 job that is left.',
    'Replacing it cancels the %1 jobs that are left.',
    left
  );
  const taken = trans.__(
    'Once another job takes over the cell, the jobs of this sweep are in the panel only.'
  );
  return `${said} ${replaced} ${taken}`;
}

/**
 * Return a sentence for the dialog about what the new job replaces: the forecast counts it, since it goes on until the
 * new job is accepted. "" if nothing is left to cancel.
 *
 * See docs/decisions/0391-say-that-the-forecast-counts-what-is-replaced.md.
 */
export function describeReplaced(
  training: ITraining,
  { job, sweep }: IPresentWork,
  trans: TranslationBundle
): string {
  const jobs = (sweep.length > 0 ? sweep : [job]).map(known => findNewest(training, known));
  const left = jobs.filter(isCancellable).length;
  if (left === 0) {
    return '';
  }
  return sweep.length > 0
    ? trans._n(
        'The %1 job that is left of the sweep “%2” is cancelled once this one is accepted. The forecast still counts it.',
        'The %1 jobs that are left of the sweep “%2” are cancelled once this one is accepted. The forecast still counts them.',
        left,
        nameSweep(jobs)
      )
    : trans.__('“%1” is cancelled once this job is accepted. The forecast still counts it.', job.name);
}

/** Cancel the job, or all jobs of the sweep that have not ended by now; a failure is shown in one notification. */
export async function cancelPresentWork(
  training: ITraining,
  { job, sweep }: IPresentWork,
  trans: TranslationBundle
): Promise<void> {
  if (sweep.length > 0) {
    const jobs = await listSweep(training, job.group);
    await cancelAll(
      training,
      jobs.filter(isCancellable).map(({ id }) => id),
      trans
    );
    return;
  }
  if (!isCancellable(findNewest(training, job))) {
    return;
  }
  try {
    await cancelJob(training, job.id);
  } catch (reason) {
    const message = trans.__('%1 could not be cancelled. %2', quoteName(job.name), describeError(reason));
    Notification.error(fitToast(message), { autoClose: 8000 });
  }
}
