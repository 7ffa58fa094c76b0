/** The quota and the use of each queue: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { parseMilli, computePortion } from '../amounts';
import { listMemberQueues, describeGpuUsage, describeHostUsage } from '../queues';
import type { QueueView } from '../wire';

export function Queues({
  queues,
  trans
}: {
  queues: readonly QueueView[];
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const mine = listMemberQueues(queues);
  if (mine.length === 0) {
    return null;
  }
  return (
    <ul className="jp-gq-queues" aria-label={trans.__('Queues')}>
      {mine.map(queue => (
        <QueueBar key={queue.name} queue={queue} trans={trans} />
      ))}
    </ul>
  );
}

/** A queue as a bar. The whole bar is the quota, or the use if that is more; use over quota has its own colour. */
function QueueBar({ queue, trans }: { queue: QueueView; trans: TranslationBundle }): React.JSX.Element {
  const whole = (parseMilli(queue.used) ?? 0) > (parseMilli(queue.quota) ?? 0) ? queue.used : queue.quota;
  const over = computePortion(queue.over_quota, whole);
  const within = Math.max(0, computePortion(queue.used, whole) - over);
  const host = describeHostUsage(queue, trans);
  const totals = [describeGpuUsage(queue, trans), host].filter(part => part !== '').join('; ');
  return (
    <li className="jp-gq-queue" title={totals} aria-label={trans.__('Queue %1: %2', queue.name, totals)}>
      <span className="jp-gq-queue-name">{queue.name}</span>
      <span className="jp-gq-queue-bar" aria-hidden="true">
        <span className="jp-gq-mod-within" style={{ width: `${within * 100}%` }} />
        <span className="jp-gq-mod-over" style={{ width: `${over * 100}%` }} />
      </span>
      <span className="jp-gq-queue-numbers">{trans.__('%1 / %2 GPU', queue.used, queue.quota)}</span>
      {host !== '' && <span className="jp-gq-queue-rest">{host}</span>}
    </li>
  );
}
