/** The share of this notebook server as text. Pure. */

import { formatGpus, parseMilli } from '../amounts';
import { NOTEBOOK_LOOKS, formatMemory } from '../jobs';
import { formatClock, formatCountdown, formatMinutes } from '../times';
import type { NotebookView } from '../wire';

/** Return the share in brief, such as "GPU 0.5 · 6.1 / 10 GB · idle 12 min". Unknown values are left out. */
export function formatShare(notebook: NotebookView, now: number): string {
  if (parseMilli(notebook.gpus) === 0) {
    return 'CPU only';
  }
  const parts = [`GPU ${notebook.gpus}`];
  if (notebook.phase === 'suspended' || notebook.phase === 'resuming') {
    return [...parts, NOTEBOOK_LOOKS[notebook.phase].word.toLowerCase()].join(' · ');
  }
  if (notebook.memory_used_mib !== null) {
    parts.push(formatMemory(notebook));
  }
  if (notebook.idle_since !== null && now - notebook.idle_since >= 60) {
    parts.push(`idle ${formatMinutes(now - notebook.idle_since)}`);
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
    notebook.utilisation === null ? '' : `In use: ${notebook.utilisation} %.`,
    'Click for your notebooks and jobs.'
  ];
  return parts.filter(part => part !== '').join(' ');
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

/** Return whether an idle warning is shown and the user may still keep the share for longer. */
export function canKeep(notebook: NotebookView): boolean {
  return (notebook.warning?.keep_seconds ?? 0) > 0;
}
