/** A job as a row, with its details unfolded below: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import {
  describeAmount,
  describeBriefly,
  describeShortAmount,
  isCancellable,
  isFinal,
  isOfCells,
  isWaiting,
  lookOf,
  nameAgain,
  nameHold,
  describeJob,
  omitUnused,
  tellHold
} from '../jobs';
import type { Client } from '../client';
import type { ILoadedVariables } from '../tokens';
import type { JobSummary } from '../wire';
import { omitState } from '../sentences';
import { ENGLISH } from '../translation';
import { listDetails } from './facts';
import { Action, Age, Caret, PhaseTag, ProgressBar } from './parts';
import { ResultList } from './results';
import { UsageChart } from './usage';

/** The actions of a row. */
export interface IJobActions {
  cancel(job: JobSummary): void;
  /** Delete a job that has ended. */
  remove(job: JobSummary): void;
  hold(job: JobSummary): void;
  release(job: JobSummary): void;
  openLog(job: JobSummary): void;
  openResult(job: JobSummary): void;
  goToCell(job: JobSummary): void;
  /** Load the variables of a job into its notebook. */
  loadVariables(job: JobSummary): void;
  /** Copy a file of a job beside its notebook, or all files. */
  copyFiles(job: JobSummary, path?: string): void;
  /** Copy a file of a job beside its notebook, and open the copy. */
  openFile(job: JobSummary, path: string): void;
  /** Send a job that has ended once more; the cell of a failed one is shown first. */
  resend(job: JobSummary): void;
  move(job: JobSummary): void;
  change(job: JobSummary): void;
  readonly client: Client;
  readonly loaded: ILoadedVariables;
}

export interface IJobRowProps {
  job: JobSummary;
  /** Name of the notebook of the job; empty if it has none. */
  notebook: string;
  /** Seconds since the epoch. */
  now: number;
  open: boolean;
  /** Whether the job is among those on which the user acts at once. */
  chosen: boolean;
  /** Whether there is another queue in which the job may wait. */
  movable: boolean;
  onChoose: (job: JobSummary) => void;
  onToggle: (job: JobSummary) => void;
  actions: IJobActions;
  trans: TranslationBundle;
}

function Row(props: IJobRowProps): React.JSX.Element {
  const { job, notebook, now, open, onToggle, trans } = props;
  const look = lookOf(job, trans);
  const name = job.name || trans.__('Unnamed job');
  return (
    <li
      className={`jp-gq-row${open ? ' jp-gq-mod-open' : ''}`}
      aria-label={`${name}, ${look.word}, ${describeAmount(job, trans)}`}
      data-job={job.id}
      data-phase={job.phase}
    >
      {isCancellable(job) && (
        <input
          type="checkbox"
          className="jp-gq-row-choice"
          aria-label={trans.__('Choose %1', name)}
          checked={props.chosen}
          onChange={() => props.onChoose(job)}
        />
      )}
      <button
        type="button"
        className="jp-gq-row-line"
        aria-expanded={open}
        aria-label={trans.__('Details of %1', name)}
        onClick={() => onToggle(job)}
      >
        <Caret open={open} />
        <span className="jp-gq-row-name" title={name}>
          {name}
        </span>
        <span className="jp-gq-row-amount" title={describeAmount(job, trans)}>
          {describeShortAmount(job, trans)}
        </span>
        <PhaseTag look={look} />
        <span className="jp-gq-row-sentence" title={describeJob(job, now, trans)}>
          {notebook !== '' && <span className="jp-gq-row-notebook">{notebook}</span>}
          {describeBriefly(job, now, trans)}
        </span>
        <Age instant={job.finished_at ?? job.submitted_at} now={now} trans={trans} />
        {job.phase === 'running' && (
          <ProgressBar fraction={job.progress?.fraction ?? null} label={trans.__('Progress of %1', name)} />
        )}
      </button>
      {open && <Details {...props} />}
    </li>
  );
}

/** A job as a row of a list. In a list of a thousand rows only the rows that changed are drawn again. */
export const JobRow = React.memo(Row);

function Details({
  job,
  now,
  movable,
  actions,
  trans
}: Pick<IJobRowProps, 'job' | 'now' | 'movable' | 'actions' | 'trans'>): React.JSX.Element {
  const sentence = omitUnused(job, now);
  return (
    <div className="jp-gq-details">
      {!hasSaid(describeBriefly(job, now, trans), sentence, job) && (
        <p className="jp-gq-details-sentence">{sentence}</p>
      )}
      {job.error !== null && !job.sentence.includes(job.error.ename) && (
        <p className="jp-gq-problem">
          {job.error.ename}
          {job.error.evalue !== '' && `: ${job.error.evalue}`}
        </p>
      )}
      <dl>
        {listDetails(job, now, trans).map(([term, value]) => (
          <React.Fragment key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </React.Fragment>
        ))}
      </dl>
      <UsageChart job={job} now={now} client={actions.client} trans={trans} />
      <ResultList
        job={job}
        client={actions.client}
        loaded={actions.loaded}
        onLoad={() => actions.loadVariables(job)}
        onCopy={path => actions.copyFiles(job, path)}
        onOpen={path => actions.openFile(job, path)}
        trans={trans}
      />
      <Actions job={job} movable={movable} actions={actions} trans={trans} />
    </div>
  );
}

/** Return whether the line of a job has this sentence, but for the word of the state and a capital letter. */
function hasSaid(line: string, sentence: string, job: JobSummary): boolean {
  const short = omitState(sentence, lookOf(job, ENGLISH).word);
  return line.toLowerCase().includes(short.toLowerCase());
}

/** The buttons of a job. */
function Actions({
  job,
  movable,
  actions,
  trans
}: Pick<IJobRowProps, 'job' | 'movable' | 'actions' | 'trans'>): React.JSX.Element {
  const name = job.name || trans.__('unnamed job');
  return (
    <div className="jp-gq-details-actions">
      {isOfCells(job) && (
        <Action
          label={trans.__('Go to cell')}
          about={trans.__('of %1', name)}
          onClick={() => actions.goToCell(job)}
        />
      )}
      <Action label={trans.__('Log')} about={trans.__('of %1', name)} onClick={() => actions.openLog(job)} />
      <Action
        label={trans.__('Open result')}
        about={trans.__('of %1', name)}
        disabled={job.run === 0}
        title={
          job.run === 0
            ? trans.__('There is no result before the job starts.')
            : trans.__('The executed notebook so far.')
        }
        onClick={() => actions.openResult(job)}
      />
      {isCancellable(job) && <HoldAction job={job} actions={actions} trans={trans} />}
      {isCancellable(job) && <ChangeAction job={job} actions={actions} trans={trans} />}
      {isWaiting(job.phase) && <MoveAction job={job} movable={movable} actions={actions} trans={trans} />}
      {isFinal(job.phase) && <EndedActions job={job} actions={actions} trans={trans} />}
      {!isFinal(job.phase) && (
        <Action
          label={trans.__('Cancel')}
          about={name}
          disabled={!isCancellable(job)}
          onClick={() => actions.cancel(job)}
        />
      )}
    </div>
  );
}

/** The buttons of a job that has ended. */
function EndedActions({
  job,
  actions,
  trans
}: Pick<IJobRowProps, 'job' | 'actions' | 'trans'>): React.JSX.Element {
  const name = job.name || trans.__('unnamed job');
  return (
    <>
      <Action
        label={nameAgain(job.phase, trans)}
        about={name}
        title={trans.__('Send the cells as they are now, with the settings of this job.')}
        onClick={() => actions.resend(job)}
      />
      <Action
        label={trans.__('Delete…')}
        about={name}
        title={trans.__('Delete the job with all that is kept of it, after a question.')}
        onClick={() => actions.remove(job)}
      />
    </>
  );
}

/** The button that holds or releases a job. */
function HoldAction({
  job,
  actions,
  trans
}: Pick<IJobRowProps, 'job' | 'actions' | 'trans'>): React.JSX.Element {
  const isFree = job.held_since === null;
  return (
    <Action
      label={nameHold(job, trans)}
      about={job.name || trans.__('unnamed job')}
      title={tellHold(job, trans)}
      onClick={() => (isFree ? actions.hold(job) : actions.release(job))}
    />
  );
}

/** The button that asks what is to change: of a job that runs, its priority and its maximum time only. */
function ChangeAction({
  job,
  actions,
  trans
}: Pick<IJobRowProps, 'job' | 'actions' | 'trans'>): React.JSX.Element {
  return (
    <Action
      label={trans.__('Change…')}
      about={job.name || trans.__('unnamed job')}
      title={
        isWaiting(job.phase)
          ? trans.__('Ask for other GPUs or tasks, another priority or another maximum time.')
          : trans.__('Give the job another priority or another maximum time.')
      }
      onClick={() => actions.change(job)}
    />
  );
}

/** The button that moves a job which waits. */
function MoveAction({
  job,
  movable,
  actions,
  trans
}: Pick<IJobRowProps, 'job' | 'movable' | 'actions' | 'trans'>): React.JSX.Element {
  return (
    <Action
      label={trans.__('Move…')}
      about={job.name || trans.__('unnamed job')}
      disabled={!movable}
      title={
        movable
          ? trans.__('Let the job wait in another queue.')
          : trans.__('There is no other queue that you may use.')
      }
      onClick={() => actions.move(job)}
    />
  );
}
