/** The share of this notebook server as text. Pure. */

import { formatGpus, parseMilli } from '../amounts';
import { formatGigabytes, formatMemory } from '../jobs';
import { formatClock, formatCountdown, formatMinutes } from '../times';
import { fitToast } from '../toasts';
import type { MemoryExcessView, NotebookView } from '../wire';

/** Return the share in brief, such as "GPU 0.5 · 6.1 / 10 GB · idle 12 min". Unknown values are left out. */
export function formatShare(notebook: NotebookView, now: number): string {
  if (parseMilli(notebook.gpus) === 0) {
    return 'CPU only';
  }
  const parts = [`GPU ${notebook.gpus}`];
  if (notebook.phase === 'suspended') {
    return [...parts, 'lent, comes back with the next cell'].join(' · ');
  }
  if (notebook.phase === 'resuming') {
    return [...parts, 'coming back'].join(' · ');
  }
  if (notebook.memory_used_mib !== null) {
    parts.push(formatMemory(notebook));
  }
  // An earlier release of the service does not send the field.
  if (notebook.over_limit?.next) {
    parts.push('too much memory');
  }
  if (notebook.idle_since !== null && now - notebook.idle_since >= 60) {
    parts.push(`idle ${formatMinutes(now - notebook.idle_since)}`);
  }
  if (notebook.kept_until !== null && notebook.kept_until > now) {
    parts.push(`kept until ${formatClock(notebook.kept_until, now)}`);
  }
  return parts.join(' · ');
}

/** Return the share in full sentences, for a tooltip. */
export function describeShare(notebook: NotebookView): string {
  if (notebook.phase === 'suspended' || notebook.phase === 'resuming') {
    return `${notebook.sentence} Click for your notebooks and jobs.`;
  }
  const parts = [
    `This notebook server holds ${formatGpus(notebook.gpus)}.`,
    notebook.model === null ? '' : `On ${notebook.model}.`,
    notebook.memory_quota_mib === null ? '' : `Memory: ${formatMemory(notebook)}.`,
    formatLevel(notebook),
    notebook.over_limit ? notebook.over_limit.sentence : '',
    notebook.utilisation === null ? '' : `In use: ${notebook.utilisation} %.`,
    // An earlier release of the service does not send the field.
    notebook.unsuspendable ? `It was not suspended while it was idle: ${notebook.unsuspendable}` : '',
    'Click for your notebooks and jobs.'
  ];
  return parts.filter(part => part !== '').join(' ');
}

/** Return how the memory limit of a share is enforced, and what that means; "" if the service does not say it. */
export function formatLevel(notebook: NotebookView): string {
  // An earlier release of the service does not send the sentence.
  return notebook.enforcement_sentence
    ? `Memory limit: ${notebook.enforcement}. ${notebook.enforcement_sentence}`
    : '';
}

/** Return the last step against a share that holds too much memory and the next one, as a notification shows it. */
export function formatExcess(excess: MemoryExcessView, now: number): string {
  const amounts = `${formatGigabytes(excess.used_mib)} of ${formatGigabytes(excess.limit_mib)} GB`;
  const at = excess.next_at === null ? '' : ` at ${formatClock(excess.next_at, now)}`;
  switch (excess.done) {
    case 'warn':
      return `Too much GPU memory: ${amounts}. Free some, or the largest program is interrupted${at}.`;
    case 'interrupt':
      return excess.next === null
        ? `A program was interrupted: the share held too much GPU memory, ${amounts}.`
        : `Too much GPU memory: ${amounts}. The largest program was interrupted, and is ended${at}.`;
    default:
      return `A program was ended: the share held too much GPU memory, ${amounts}. Its variables are lost.`;
  }
}

/** Return the text of the idle warning, time first, as notifications show 140 characters; "" without a warning. */
export function formatWarning(notebook: NotebookView, now: number): string {
  const { warning } = notebook;
  if (warning === null) {
    return '';
  }
  const left = warning.expire_at - now;
  const when =
    left <= 0
      ? 'Your GPU share is being taken now.'
      : `Your GPU share is taken at ${formatClock(warning.expire_at, now)}, in ${formatCountdown(left)}.`;
  return `${when} ${warning.sentence}`;
}

/** Return the text of the notification that a share was lent: for whom and why, and what brings the share back. */
export function formatSuspension(notebook: NotebookView): string {
  const why = notebook.suspension?.sentence || notebook.sentence;
  const [first] = why.split(/(?<=[.!?]) (?=\p{Lu})/u);
  return fitToast(`${first} The next cell brings it back.`);
}

/** Return the text of the notification after "Keep it", from the answer of the server. */
export function formatKept(notebook: NotebookView, now: number): string {
  return notebook.kept_until === null
    ? 'Your share is kept.'
    : `Your share is kept until ${formatClock(notebook.kept_until, now)}.`;
}

/** Return whether an idle warning is shown and the user may still keep the share for longer. */
export function canKeep(notebook: NotebookView): boolean {
  return (notebook.warning?.keep_seconds ?? 0) > 0;
}
