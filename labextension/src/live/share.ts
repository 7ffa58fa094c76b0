/** The share of this notebook server as text. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatGpus, parseMilli } from '../amounts';
import { formatGibibytes, formatMemory, formatOrdinal } from '../jobs';
import { formatClock, formatCountdown, formatMinutes } from '../times';
import { fitToast } from '../toasts';
import type { MemoryExcessView, NotebookView } from '../wire';

/** Return the share in brief, such as "GPU 0.5 · 6.1 / 10 GiB · idle 12 min". Unknown values are left out. */
export function formatShare(notebook: NotebookView, now: number, trans: TranslationBundle): string {
  if (parseMilli(notebook.gpus) === 0) {
    return trans.__('CPU only');
  }
  const parts = [trans.__('GPU %1', notebook.gpus)];
  if (notebook.phase === 'suspended') {
    return [...parts, formatWait(notebook, trans)].join(' · ');
  }
  if (notebook.phase === 'resuming') {
    return [...parts, trans.__('coming back')].join(' · ');
  }
  if (notebook.memory_used_mib !== null) {
    parts.push(formatMemory(notebook));
  }
  // An earlier release of the service does not send the field.
  if (notebook.over_limit?.next) {
    parts.push(trans.__('too much memory'));
  }
  if (notebook.idle_since !== null && now - notebook.idle_since >= 60) {
    parts.push(trans.__('idle %1', formatMinutes(now - notebook.idle_since)));
  }
  if (notebook.kept_until !== null && notebook.kept_until > now) {
    parts.push(trans.__('kept until %1', formatClock(notebook.kept_until, now)));
  }
  return parts.join(' · ');
}

/** Return what a cell waits for while the share is lent, its place in line first; or that no cell waits. */
function formatWait(notebook: NotebookView, trans: TranslationBundle): string {
  // An earlier release of the service does not send these fields.
  const { wanted, position, leaving } = notebook.suspension ?? {};
  if (!wanted) {
    return trans.__('lent, comes back with the next cell');
  }
  if (position && position > 1) {
    return trans.__('a cell waits, %1 in line', formatOrdinal(position, trans));
  }
  return leaving
    ? trans._n('a cell waits, %1 job makes room', 'a cell waits, %1 jobs make room', leaving)
    : trans.__('a cell waits');
}

/** Return the share in full sentences, for a tooltip. */
export function describeShare(notebook: NotebookView, trans: TranslationBundle): string {
  const hint = trans.__('Click for your notebooks and jobs.');
  if (notebook.phase === 'suspended' || notebook.phase === 'resuming') {
    return `${notebook.sentence} ${hint}`;
  }
  const parts = [
    trans.__('This notebook server holds %1.', formatGpus(notebook.gpus, trans)),
    notebook.model === null ? '' : trans.__('On %1.', notebook.model),
    notebook.memory_quota_mib === null ? '' : trans.__('Memory: %1.', formatMemory(notebook)),
    formatLevel(notebook, trans),
    notebook.over_limit ? notebook.over_limit.sentence : '',
    notebook.utilisation === null ? '' : trans.__('In use: %1.', `${notebook.utilisation} %`),
    // An earlier release of the service does not send the field.
    notebook.suspension_refusal
      ? trans.__('It was not suspended while it was idle: %1', notebook.suspension_refusal)
      : '',
    hint
  ];
  return parts.filter(part => part !== '').join(' ');
}

/** Return how the memory limit of a share is enforced, and what that means; "" if the service does not say it. */
export function formatLevel(notebook: NotebookView, trans: TranslationBundle): string {
  // An earlier release of the service does not send the sentence.
  return notebook.enforcement_sentence
    ? trans.__('Memory limit: %1. %2', notebook.enforcement, notebook.enforcement_sentence)
    : '';
}

/** Return the last step against a share that holds too much memory and the next one, as a notification shows it. */
export function formatExcess(excess: MemoryExcessView, now: number, trans: TranslationBundle): string {
  const [used, limit] = [formatGibibytes(excess.used_mib), formatGibibytes(excess.limit_mib)];
  const amounts = trans.__('%1 of %2 GiB', used, limit);
  const at = excess.next_at === null ? '' : trans.__(' at %1', formatClock(excess.next_at, now));
  switch (excess.done) {
    case 'warn':
      return trans.__(
        'Too much GPU memory: %1. Free some, or the largest program is interrupted%2.',
        amounts,
        at
      );
    case 'interrupt':
      return excess.next === null
        ? trans.__('A program was interrupted: the share held too much GPU memory, %1.', amounts)
        : trans.__(
            'Too much GPU memory: %1. The largest program was interrupted, and is ended%2.',
            amounts,
            at
          );
    default:
      return trans.__(
        'A program was ended: the share held too much GPU memory, %1. Its variables are lost.',
        amounts
      );
  }
}

/** Return the text of the idle warning, time first, in the sentences that fit; "" without a warning. */
export function formatWarning(notebook: NotebookView, now: number, trans: TranslationBundle): string {
  const { warning } = notebook;
  if (warning === null) {
    return '';
  }
  const left = warning.expire_at - now;
  const when =
    left <= 0
      ? trans.__('Your share is being taken now.')
      : trans.__(
          'Your share is taken at %1, in %2.',
          formatClock(warning.expire_at, now),
          formatCountdown(left)
        );
  return fitToast(`${when} ${warning.sentence}`);
}

/** Return the text of the notification that a share was lent: for whom and why, and what brings the share back. */
export function formatSuspension(notebook: NotebookView, trans: TranslationBundle): string {
  const why = notebook.suspension?.sentence || notebook.sentence;
  const [first] = why.split(/(?<=[.!?]) (?=\p{Lu})/u);
  return fitToast(`${first} ${trans.__('The next cell brings it back.')}`);
}

/** Return the text of the notification after "Keep it", from the answer of the server. */
export function formatKept(notebook: NotebookView, now: number, trans: TranslationBundle): string {
  return notebook.kept_until === null
    ? trans.__('Your share is kept.')
    : trans.__('Your share is kept until %1.', formatClock(notebook.kept_until, now));
}

/** Return whether an idle warning is shown and the user may still keep the share for longer. */
export function canKeep(notebook: NotebookView): boolean {
  return (notebook.warning?.keep_seconds ?? 0) > 0;
}
