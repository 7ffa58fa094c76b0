/** The search box, the filters and the order above the jobs: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { nameSweeps } from '../attach/sweep';
import { stripControls } from '../plain';
import type { JobSummary } from '../wire';
import type { IJobQuery, SortKey, StateFilter } from './listing';
import { listValues, STATE_FILTERS } from './listing';

export interface IFiltersProps {
  jobs: readonly JobSummary[];
  query: IJobQuery;
  onChange: (query: IJobQuery) => void;
  trans: TranslationBundle;
}

export function Filters({ jobs, query, onChange, trans }: IFiltersProps): React.JSX.Element {
  const sweeps = React.useMemo(() => nameSweeps(jobs, trans), [jobs, trans]);
  const change = (part: Partial<IJobQuery>): void => onChange({ ...query, ...part });
  return (
    <div className="jp-gq-filters" role="search" aria-label={trans.__('Find jobs')}>
      <input
        type="search"
        className="jp-gq-search"
        aria-label={trans.__('Search jobs')}
        placeholder={trans.__('Search jobs')}
        value={query.search}
        onChange={event => change({ search: event.target.value })}
      />
      <Choice
        label={trans.__('State')}
        all={trans.__('All states')}
        value={query.state}
        options={STATE_FILTERS.map(state => [state, nameState(state, trans)])}
        onChoose={state => change({ state: state as StateFilter | null })}
      />
      <ValueChoice
        label={trans.__('Queue')}
        all={trans.__('All queues')}
        value={query.queue}
        of={jobs.map(job => job.queue)}
        onChoose={queue => change({ queue })}
      />
      <ValueChoice
        label={trans.__('Notebook')}
        isLong
        all={trans.__('All notebooks')}
        value={query.notebook}
        of={jobs.map(job => job.notebook_path)}
        onChoose={notebook => change({ notebook })}
      />
      <ValueChoice
        label={trans.__('Sweep')}
        all={trans.__('All sweeps')}
        value={query.group}
        of={jobs.map(job => job.group)}
        nameValue={group => stripControls(sweeps.get(group) ?? group)}
        onChoose={group => change({ group })}
      />
      <Order query={query} onChange={change} trans={trans} />
    </div>
  );
}

interface IValueChoiceProps extends Omit<IChoiceProps, 'options'> {
  of: readonly string[];
  /** Returns the words of a value; without it, each value is its own word. */
  nameValue?: (value: string) => string;
}

/** A choice between the values that the jobs have; nothing while they all have the same, for it restricts nothing. */
function ValueChoice({
  of,
  nameValue = value => value,
  ...choice
}: IValueChoiceProps): React.JSX.Element | null {
  const values = listValues(of);
  return new Set(of).size > 1 || choice.value !== null ? (
    <Choice {...choice} options={values.map(value => [value, nameValue(value)])} />
  ) : null;
}

interface IChoiceProps {
  label: string;
  /** Whether its words need a line of their own in a narrow panel. */
  isLong?: boolean;
  /** The words of the option that restricts nothing. */
  all: string;
  value: string | null;
  /** Values with their words. A chosen value that is gone stays an option. */
  options: readonly (readonly [string, string])[];
  onChoose: (value: string | null) => void;
}

function Choice({ label, isLong, all, value, options, onChoose }: IChoiceProps): React.JSX.Element {
  const isGone = value !== null && !options.some(([known]) => known === value);
  const nameOption = (chosen: string): string => options.find(([known]) => known === chosen)?.[1] ?? chosen;
  return (
    <select
      className={`jp-gq-choice${isLong ? ' jp-gq-mod-long' : ''}`}
      aria-label={label}
      title={value === null ? label : `${label}: ${nameOption(value)}`}
      value={value ?? ''}
      onChange={event => onChoose(event.target.value === '' ? null : event.target.value)}
    >
      <option value="">{all}</option>
      {(isGone ? [...options, [value, value] as const] : options).map(([option, words]) => (
        <option key={option} value={option}>
          {words}
        </option>
      ))}
    </select>
  );
}

/** The order of the list: by which property, and in which direction. */
function Order({
  query,
  onChange,
  trans
}: {
  query: IJobQuery;
  onChange: (part: Partial<IJobQuery>) => void;
  trans: TranslationBundle;
}): React.JSX.Element {
  return (
    <span className="jp-gq-order">
      <select
        className="jp-gq-choice"
        aria-label={trans.__('Sort by')}
        title={trans.__('Sort by')}
        value={query.sort}
        onChange={event => onChange({ sort: event.target.value as SortKey })}
      >
        <option value="state">{trans.__('Running first')}</option>
        <option value="newest">{trans.__('Newest first')}</option>
        <option value="name">{trans.__('By name')}</option>
        <option value="notebook">{trans.__('By notebook')}</option>
        <option value="queue">{trans.__('By queue')}</option>
        <option value="gpus">{trans.__('Most GPUs first')}</option>
      </select>
      <button
        type="button"
        className="jp-gq-icon-button jp-gq-turn"
        aria-label={trans.__('Turn the order around')}
        title={trans.__('Turn the order around')}
        aria-pressed={query.reversed}
        onClick={() => onChange({ reversed: !query.reversed })}
      >
        {query.reversed ? '↑' : '↓'}
      </button>
    </span>
  );
}

/** Return the words of a state filter. */
function nameState(state: StateFilter, trans: TranslationBundle): string {
  const words: Record<StateFilter, string> = {
    active: trans.__('Not ended'),
    running: trans.__('Running'),
    waiting: trans.__('Waiting'),
    held: trans.__('Held'),
    done: trans.__('Done'),
    failed: trans.__('Failed'),
    cancelled: trans.__('Cancelled')
  };
  return words[state];
}
