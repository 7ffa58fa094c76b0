/**
 * The jobs of the panel: search, filters, order, and acts on many of them. Props in, no requests.
 *
 * See docs/decisions/0129-draw-long-lists-in-parts.md.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { isCancellable, listUnbegun } from '../jobs';
import type { ILiveState } from '../live/state';
import { listOtherQueues } from '../queues';
import type { JobSummary } from '../wire';
import { Filters } from './filters';
import type { IJobQuery } from './listing';
import { ALL_JOBS, isRestricting, nameNotebooks, selectJobs } from './listing';
import { Action } from './parts';
import type { IJobActions } from './row';
import { JobRow } from './row';
import type { IManyActions } from './selection';
import { SelectionBar } from './selection';

/** Rows that are drawn at one time, so that no drawing keeps the page from answering. */
const CHUNK = 40;
/** Jobs that are seen at a glance, without filters. */
const FEW = 5;

export interface IJobsProps {
  state: ILiveState;
  /** Seconds since the epoch. */
  now: number;
  /** Ids of the jobs that are unfolded. */
  open: ReadonlySet<string>;
  loadingMore: boolean;
  actions: IJobActions;
  many: IManyActions;
  trans: TranslationBundle;
  onToggle: (job: JobSummary) => void;
  onMore: () => void;
  onCancelWaiting: () => void;
}

/** The space that the jobs of the user take, as far as it is measured. */
function Space({ state, trans }: Pick<IJobsProps, 'state' | 'trans'>): React.JSX.Element {
  return (
    <>
      {state.disk && <p className="jp-gq-disk">{trans.__('Files on disk: %1', state.disk)}</p>}
      {state.database && <p className="jp-gq-disk">{trans.__('In the database: %1', state.database)}</p>}
    </>
  );
}

export function Jobs(props: IJobsProps): React.JSX.Element {
  const { state, open, trans } = props;
  const [query, setQuery] = React.useState<IJobQuery>(ALL_JOBS);
  const [chosen, setChosen] = React.useState<ReadonlySet<string>>(new Set());
  const found = React.useMemo(() => selectJobs(state.jobs, query), [state.jobs, query]);
  const notebooks = React.useMemo(() => nameNotebooks(state.jobs), [state.jobs]);
  const choose = React.useCallback((job: JobSummary) => setChosen(before => toggle(before, job.id)), []);
  const [shown, showMore] = useShown(query, lastOpen(found, open));
  if (state.jobs.length === 0) {
    return <NoJobs trans={trans} />;
  }
  const shared = { now: props.now, onToggle: props.onToggle, actions: props.actions, trans };
  return (
    <>
      <Space state={state} trans={trans} />
      {(state.jobs.length > FEW || isRestricting(query)) && (
        <Filters jobs={state.jobs} query={query} onChange={setQuery} trans={trans} />
      )}
      <SelectionBar
        chosen={found.filter(job => chosen.has(job.id) && isCancellable(job))}
        choosable={found.filter(isCancellable)}
        queues={state.queues}
        many={props.many}
        onChoose={jobs => setChosen(new Set(jobs.map(job => job.id)))}
        trans={trans}
      />
      {!isRestricting(query) && chosen.size === 0 && <CancelWaiting {...props} />}
      {found.length === 0 && <NoMatch onShowAll={() => setQuery(ALL_JOBS)} trans={trans} />}
      <ul className="jp-gq-list" aria-label={trans.__('Jobs')}>
        {found.slice(0, shown).map(job => (
          <JobRow
            {...shared}
            key={job.id}
            job={job}
            notebook={notebooks.get(job.notebook_path) ?? ''}
            open={open.has(job.id)}
            chosen={chosen.has(job.id)}
            movable={listOtherQueues(state.queues, [job]).length > 0}
            onChoose={choose}
          />
        ))}
      </ul>
      {found.length > shown && <MoreRows left={found.length - shown} onShow={showMore} trans={trans} />}
      {found.length <= shown && state.next !== null && <OlderJobs {...props} />}
    </>
  );
}

/** The button that cancels all jobs that have not begun; nothing if there are not several. */
function CancelWaiting({ state, onCancelWaiting, trans }: IJobsProps): React.JSX.Element | null {
  const waiting = listUnbegun(state.jobs).length;
  return waiting > 1 ? (
    <div className="jp-gq-more">
      <Action label={trans.__('Cancel the %1 jobs that wait', waiting)} onClick={onCancelWaiting} />
    </div>
  ) : null;
}

/** Return the number of rows to draw, and a function that draws more; another query starts over. */
function useShown(query: IJobQuery, least: number): [number, () => void] {
  const [shown, setShown] = React.useState(CHUNK);
  React.useEffect(() => setShown(CHUNK), [query]);
  const showMore = React.useCallback(() => setShown(before => before + CHUNK), []);
  return [Math.max(shown, least), showMore];
}

/** Return how many rows reach to the last unfolded one. */
function lastOpen(found: readonly JobSummary[], open: ReadonlySet<string>): number {
  let rows = found.length;
  while (rows > 0 && !open.has(found[rows - 1].id)) {
    rows--;
  }
  return rows;
}

function toggle(ids: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const changed = new Set(ids);
  if (!changed.delete(id)) {
    changed.add(id);
  }
  return changed;
}

function NoMatch({
  onShowAll,
  trans
}: {
  onShowAll: () => void;
  trans: TranslationBundle;
}): React.JSX.Element {
  return (
    <p className="jp-gq-empty" role="status">
      {trans.__('No job matches.')} <Action label={trans.__('Show all jobs')} onClick={onShowAll} />
    </p>
  );
}

function NoJobs({ trans }: { trans: TranslationBundle }): React.JSX.Element {
  return (
    <p className="jp-gq-empty">
      {trans.__(
        'You have no jobs. Select a cell that takes long and choose “Send to training” in its toolbar. The cell runs in a queue, and its output comes back under the cell.'
      )}
    </p>
  );
}

/** The button below the rows that are drawn, which is pressed by itself when the user scrolls to it. */
function MoreRows({
  left,
  onShow,
  trans
}: {
  left: number;
  onShow: () => void;
  trans: TranslationBundle;
}): React.JSX.Element {
  const place = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    if (place.current === null || typeof IntersectionObserver === 'undefined') {
      return;
    }
    const observer = new IntersectionObserver(entries => {
      if (entries.some(entry => entry.isIntersecting)) {
        onShow();
      }
    });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [left, onShow]);
  return (
    <div className="jp-gq-more" ref={place}>
      <Action label={trans.__('Show %1 more jobs', Math.min(left, CHUNK))} onClick={onShow} />
    </div>
  );
}

function OlderJobs({ loadingMore, onMore, trans }: IJobsProps): React.JSX.Element {
  return (
    <div className="jp-gq-more">
      <Action
        label={loadingMore ? trans.__('Loading…') : trans.__('Show older jobs')}
        disabled={loadingMore}
        onClick={onMore}
      />
    </div>
  );
}
