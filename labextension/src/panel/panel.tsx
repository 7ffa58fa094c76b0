/** The side panel: state in, actions out, no requests of its own. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { refreshIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { ILiveState } from '../live/state';
import { findNotebookHere } from '../live/state';
import type { IJobsProps } from './jobs';
import { Jobs } from './jobs';
import { Notebooks } from './notebooks';
import { Action } from './parts';
import { Queues } from './queues';

export interface IPanelProps extends IJobsProps {
  onRefresh: () => void;
}

export function TrainingPanel(props: IPanelProps): React.JSX.Element {
  const { state, now, onRefresh, trans } = props;
  return (
    <div
      className={`jp-gq-panel${state.available === false ? ' jp-gq-mod-outdated' : ''}`}
      role="region"
      aria-label={trans.__('Training')}
    >
      <div className="jp-gq-panel-header">
        <h2>{trans.__('Training')}</h2>
        <button
          type="button"
          className="jp-gq-icon-button"
          aria-label={trans.__('Refresh')}
          title={trans.__('Ask the GPU scheduler again')}
          onClick={onRefresh}
        >
          <refreshIcon.react tag="span" width="16px" height="16px" />
        </button>
      </div>
      <Banner state={state} onRetry={onRefresh} trans={trans} />
      <div className="jp-gq-scroll">
        <Queues queues={state.queues} trans={trans} />
        {state.loaded ? (
          <>
            <Section title={trans.__('Notebooks')} count={state.notebooks.length}>
              <Notebooks
                notebooks={state.notebooks}
                here={findNotebookHere(state)?.id ?? null}
                now={now}
                trans={trans}
              />
            </Section>
            <Section title={trans.__('Jobs')} count={state.jobs.length} more={state.next !== null}>
              <Jobs {...props} />
            </Section>
          </>
        ) : (
          state.available === null && <Loading trans={trans} />
        )}
      </div>
    </div>
  );
}

/** A line that is shown while the service is down. The lists below stay as they were. */
function Banner({
  state,
  onRetry,
  trans
}: {
  state: ILiveState;
  onRetry: () => void;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  if (state.available !== false) {
    return null;
  }
  return (
    <div className="jp-gq-banner" role="status" aria-label={trans.__('Connection')}>
      <p>
        {state.message}
        {/* A sentence of the service may say already that jobs continue. */}
        {state.loaded && !/jobs continue/i.test(state.message) && ` ${trans.__('Jobs continue.')}`}
        {state.loaded && ` ${trans.__('The lists below may be out of date.')}`}
      </p>
      <Action label={trans.__('Try now')} onClick={onRetry} />
    </div>
  );
}

function Loading({ trans }: { trans: TranslationBundle }): React.JSX.Element {
  return (
    <div className="jp-gq-loading" role="status" aria-label={trans.__('Loading')}>
      {[0, 1, 2].map(index => (
        <span key={index} className="jp-gq-skeleton" />
      ))}
    </div>
  );
}

interface ISectionProps {
  title: string;
  count: number;
  /** Whether there are more than `count`. */
  more?: boolean;
  children: React.ReactNode;
}

function Section({ title, count, more, children }: ISectionProps): React.JSX.Element {
  return (
    <section className="jp-gq-section" aria-label={title}>
      <h3>
        {title}
        {count > 0 && (
          <span className="jp-gq-count">
            {count}
            {more === true && '+'}
          </span>
        )}
      </h3>
      {children}
    </section>
  );
}
