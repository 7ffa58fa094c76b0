/** The bar with the acts on the chosen jobs: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { isWaiting } from '../jobs';
import { listOtherQueues } from '../queues';
import type { JobSummary, QueueView } from '../wire';
import { Action } from './parts';

/** The acts on several jobs. Each asks the user if that is needed, and says which jobs were refused. */
export interface IManyActions {
  cancel(jobs: readonly JobSummary[]): void;
  hold(jobs: readonly JobSummary[]): void;
  release(jobs: readonly JobSummary[]): void;
  move(jobs: readonly JobSummary[]): void;
}

export interface ISelectionBarProps {
  chosen: readonly JobSummary[];
  /** The listed jobs that can be chosen. */
  choosable: readonly JobSummary[];
  queues: readonly QueueView[];
  many: IManyActions;
  onChoose: (jobs: readonly JobSummary[]) => void;
  trans: TranslationBundle;
}

export function SelectionBar(props: ISelectionBarProps): React.JSX.Element | null {
  const { chosen, choosable, queues, many, onChoose, trans } = props;
  if (choosable.length < 2) {
    return null;
  }
  const held = chosen.filter(job => job.held_since !== null);
  const free = chosen.filter(job => job.held_since === null);
  const waiting = chosen.filter(job => isWaiting(job.phase));
  const movable = listOtherQueues(queues, waiting).length === 0 ? [] : waiting;
  const isAll = chosen.length === choosable.length;
  return (
    <div className="jp-gq-selection" role="group" aria-label={trans.__('Chosen jobs')}>
      <label className="jp-gq-all">
        <input
          type="checkbox"
          aria-label={trans.__('Choose all %1 listed jobs that have not ended', choosable.length)}
          checked={isAll}
          onChange={() => onChoose(isAll ? [] : choosable)}
        />
        <span>
          {chosen.length === 0
            ? trans.__('Choose all %1', choosable.length)
            : trans.__('%1 chosen', chosen.length)}
        </span>
      </label>
      {chosen.length > 0 && (
        <span className="jp-gq-selection-actions">
          <Act label={trans.__('Cancel')} jobs={chosen} act={many.cancel} trans={trans} />
          <Act label={trans.__('Hold')} jobs={free} act={many.hold} trans={trans} />
          <Act label={trans.__('Release')} jobs={held} act={many.release} trans={trans} />
          <Act label={trans.__('Move…')} jobs={movable} act={many.move} trans={trans} />
        </span>
      )}
    </div>
  );
}

interface IActProps {
  label: string;
  /** The jobs to which the act applies; without one it is not offered. */
  jobs: readonly JobSummary[];
  act: (jobs: readonly JobSummary[]) => void;
  trans: TranslationBundle;
}

function Act({ label, jobs, act, trans }: IActProps): React.JSX.Element | null {
  const about = trans._n('%1 chosen job', '%1 chosen jobs', jobs.length);
  return jobs.length === 0 ? null : <Action label={label} about={about} onClick={() => act(jobs)} />;
}
