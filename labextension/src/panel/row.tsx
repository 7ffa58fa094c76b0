/** One job in one line, with its details unfolded below: props in, no requests. */

import * as React from 'react';

import { amount, expected, isCancellable, isFinal, JOB_LOOKS, line, ordinal, runSeconds } from '../jobs';
import { askedFor } from '../send/asked';
import { absolute, span } from '../times';
import type { JobView } from '../wire';
import { Action, Age, Caret, PhaseTag, ProgressBar } from './parts';

export interface IJobActions {
  cancel(job: JobView): void;
  openLog(job: JobView): void;
  openResult(job: JobView): void;
  goToCell(job: JobView): void;
}

export interface IJobRowProps {
  job: JobView;
  /** Seconds since the epoch. */
  now: number;
  open: boolean;
  onToggle: (job: JobView) => void;
  actions: IJobActions;
}

function Row({ job, now, open, onToggle, actions }: IJobRowProps): React.JSX.Element {
  const look = JOB_LOOKS[job.phase];
  const name = job.name || 'Unnamed job';
  return (
    <li
      className={`jp-gq-row${open ? ' jp-gq-mod-open' : ''}`}
      aria-label={`${name}, ${look.word}, ${amount(job)}`}
      data-job={job.id}
      data-phase={job.phase}
    >
      <button
        type="button"
        className="jp-gq-row-line"
        aria-expanded={open}
        aria-label={`Details of ${name}`}
        onClick={() => onToggle(job)}
      >
        <Caret open={open} />
        <span className="jp-gq-row-name" title={name}>
          {name}
        </span>
        <span className="jp-gq-row-amount">{amount(job)}</span>
        <PhaseTag look={look} />
        <span className="jp-gq-row-sentence" title={line(job, now)}>
          {line(job, now)}
        </span>
        <Age instant={job.finished_at ?? job.submitted_at} now={now} />
        {job.phase === 'running' && (
          <ProgressBar fraction={job.progress?.fraction ?? null} label={`Progress of ${name}`} />
        )}
      </button>
      {open && <Details job={job} now={now} actions={actions} />}
    </li>
  );
}

/** A list of a thousand rows redraws only those that changed. */
export const JobRow = React.memo(Row);

function Details({ job, now, actions }: Pick<IJobRowProps, 'job' | 'now' | 'actions'>): React.JSX.Element {
  const name = job.name || 'unnamed job';
  return (
    <div className="jp-gq-details">
      <p className="jp-gq-details-sentence">{`${job.sentence} ${expected(job, now)}`}</p>
      {job.error !== null && !job.sentence.includes(job.error.ename) && (
        <p className="jp-gq-problem">
          {job.error.ename}
          {job.error.evalue !== '' && `: ${job.error.evalue}`}
        </p>
      )}
      <dl>
        {facts(job, now).map(([term, value]) => (
          <React.Fragment key={term}>
            <dt>{term}</dt>
            <dd title={value}>{value}</dd>
          </React.Fragment>
        ))}
      </dl>
      <div className="jp-gq-details-actions">
        <Action label="Go to cell" about={`of ${name}`} onClick={() => actions.goToCell(job)} />
        <Action label="Log" about={`of ${name}`} onClick={() => actions.openLog(job)} />
        <Action
          label="Open result"
          about={`of ${name}`}
          disabled={job.run === 0}
          title={
            job.run === 0 ? 'There is a result once the job has begun.' : 'The executed notebook, so far.'
          }
          onClick={() => actions.openResult(job)}
        />
        {!isFinal(job.phase) && (
          <Action
            label="Cancel"
            about={name}
            disabled={!isCancellable(job)}
            onClick={() => actions.cancel(job)}
          />
        )}
      </div>
    </div>
  );
}

/** Its line says the GPUs already. */
function asksForMore(job: JobView): boolean {
  return [job.cpus, job.memory, job.gpu_model, job.expected_seconds].some(said => said !== null);
}

/** What is known of a job beyond its line; what does not apply is left out. */
function facts(job: JobView, now: number): [string, string][] {
  const seconds = runSeconds(job, now);
  const rows: [string, string | null][] = [
    ['Queue', job.position === null ? job.queue : `${job.queue}, ${ordinal(job.position)} in line`],
    [
      'Has',
      job.devices.length === 0
        ? null
        : `${amount(job)} on ${job.devices.join(', ')}${job.node ? ` (${job.node})` : ''}`
    ],
    ['Asked for', asksForMore(job) ? `${askedFor(job)}${job.tasks > 1 ? ', for each task' : ''}` : null],
    [
      'Over quota',
      job.over_quota === null ? null : `${job.over_quota} GPU, may be paused when its owner needs it`
    ],
    ['Paused', job.eviction === null ? null : `${job.eviction.sentence} (${absolute(job.eviction.at)})`],
    ['Runs', job.run > 1 ? String(job.run) : null],
    ['Time', seconds === null ? null : span(seconds)],
    ['Sent', absolute(job.submitted_at)],
    ['Ended', job.finished_at === null ? null : absolute(job.finished_at)],
    ['Notebook', job.notebook_path || null]
  ];
  return rows.filter((row): row is [string, string] => row[1] !== null);
}
