/** Quota and use of the queues: props in, no requests. */

import * as React from 'react';

import { milli, portion } from '../amounts';
import { memberQueues, queueTotals, restTotals } from '../jobs';
import type { QueueView } from '../wire';

export function Queues({ queues }: { queues: readonly QueueView[] }): React.JSX.Element | null {
  const mine = memberQueues(queues);
  if (mine.length === 0) {
    return null;
  }
  return (
    <ul className="jp-gq-queues" aria-label="Queues">
      {mine.map(queue => (
        <QueueBar key={queue.name} queue={queue} />
      ))}
    </ul>
  );
}

/** The bar is as long as the quota, or as the use where that is more; what is over quota has a colour of its own. */
function QueueBar({ queue }: { queue: QueueView }): React.JSX.Element {
  const whole = (milli(queue.used) ?? 0) > (milli(queue.quota) ?? 0) ? queue.used : queue.quota;
  const over = portion(queue.over_quota, whole);
  const within = Math.max(0, portion(queue.used, whole) - over);
  const rest = restTotals(queue);
  const totals = [queueTotals(queue), rest].filter(part => part !== '').join('; ');
  return (
    <li className="jp-gq-queue" title={totals} aria-label={`Queue ${queue.name}: ${totals}`}>
      <span className="jp-gq-queue-name">{queue.name}</span>
      <span className="jp-gq-queue-bar" aria-hidden="true">
        <span className="jp-gq-mod-within" style={{ width: `${within * 100}%` }} />
        <span className="jp-gq-mod-over" style={{ width: `${over * 100}%` }} />
      </span>
      <span className="jp-gq-queue-numbers">
        {queue.used} / {queue.quota} GPU
      </span>
      {rest !== '' && <span className="jp-gq-queue-rest">{rest}</span>}
    </li>
  );
}
