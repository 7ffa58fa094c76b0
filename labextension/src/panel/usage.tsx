/** The GPU use of a job as a small chart, read again while the panel is visible. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { parseMilli } from '../amounts';
import type { Client } from '../client';
import type { JobSummary, JobUsage } from '../wire';
import {
  describeChart,
  describeMemory,
  describeMissing,
  describeUse,
  HEIGHT,
  makePaths,
  WIDTH
} from '../usage';

/** Seconds between two requests for the use of a running job. The panel has a new `now` only while it is visible. */
const EVERY = 20;

export interface IUsageProps {
  job: JobSummary;
  /** Seconds since the epoch. */
  now: number;
  client: Client;
  trans: TranslationBundle;
}

/** Return the GPU use of a job; null while it is not known, and for a job without a GPU or a run. */
function useUsage({ job, now, client }: IUsageProps): JobUsage | null {
  const [usage, setUsage] = React.useState<JobUsage | null>(null);
  const wanted = job.run > 0 && parseMilli(job.gpus) !== 0;
  const turn = job.phase === 'running' ? Math.floor(now / EVERY) : 0;
  React.useEffect(() => {
    let current = true;
    if (wanted) {
      client.getUsage(job.id).then(
        found => current && setUsage(found),
        () => undefined // The last known chart stays. An earlier release of the service has none.
      );
    }
    return () => {
      current = false;
    };
  }, [client, job.id, job.run, wanted, turn]);
  return usage;
}

/** The chart with its figures. No live region: the figures change every few seconds, and nobody wants to hear each. */
export function UsageChart(props: IUsageProps): React.JSX.Element | null {
  const { job, now, trans } = props;
  const usage = useUsage(props);
  // Of a job that ended at once there is nothing to see.
  const least = job.phase === 'running' ? 1 : 2;
  if (usage === null || usage.points.length < least) {
    return null;
  }
  const { use, memory } = makePaths(usage);
  return (
    <figure className="jp-gq-usage">
      <svg
        role="img"
        aria-label={describeChart(usage, trans)}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
      >
        {memory !== '' && (
          <path className="jp-gq-usage-memory" d={memory} vectorEffect="non-scaling-stroke" />
        )}
        {use !== '' && <path className="jp-gq-usage-use" d={use} vectorEffect="non-scaling-stroke" />}
      </svg>
      <figcaption>
        <Key line="use" words={describeUse(usage, trans)} />
        <Key line="memory" words={describeMemory(usage, trans)} />
        <span>{describeMissing(job, usage, now, trans)}</span>
      </figcaption>
    </figure>
  );
}

/** A figure in words beside a piece of its line; nothing without words. */
function Key({ line, words }: { line: 'use' | 'memory'; words: string }): React.JSX.Element | null {
  return words === '' ? null : (
    <span>
      <svg className="jp-gq-usage-key" viewBox="0 0 16 4" aria-hidden="true">
        <path className={`jp-gq-usage-${line}`} d="M0 2H16" />
      </svg>{' '}
      {words}
    </span>
  );
}
