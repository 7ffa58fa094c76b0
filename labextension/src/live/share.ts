/** The share of this notebook server in words. Pure. */

import { gpuWords, milli } from '../amounts';
import { memory } from '../jobs';
import { clock, countdown, minutes } from '../times';
import type { NotebookView } from '../wire';

/** "GPU 0.5 · 6.1 / 10 GB · idle 12 min". What is not known is left out, never shown as 0. */
export function shareText(notebook: NotebookView, now: number): string {
  if (milli(notebook.gpus) === 0) {
    return 'CPU only';
  }
  const parts = [`GPU ${notebook.gpus}`];
  if (notebook.memory_used_mib !== null) {
    parts.push(memory(notebook));
  }
  if (notebook.idle_since !== null && now - notebook.idle_since >= 60) {
    parts.push(`idle ${minutes(now - notebook.idle_since)}`);
  }
  return parts.join(' · ');
}

export function shareTitle(notebook: NotebookView): string {
  const parts = [
    `This notebook server holds ${gpuWords(notebook.gpus)}.`,
    notebook.model === null ? '' : `On ${notebook.model}.`,
    notebook.memory_quota_mib === null ? '' : `Memory: ${memory(notebook)}.`,
    notebook.utilisation === null ? '' : `In use: ${notebook.utilisation} %.`,
    'Click for your notebooks and jobs.'
  ];
  return parts.filter(part => part !== '').join(' ');
}

/** What the toast of an idle warning says, anew each second. Toasts show 140 characters: the time comes first. */
export function warningText(notebook: NotebookView, now: number): string {
  const { warning } = notebook;
  if (warning === null) {
    return '';
  }
  const left = warning.expire_at - now;
  const when =
    left <= 0
      ? 'Your GPU share is being taken now.'
      : `Your GPU share is taken at ${clock(warning.expire_at, now)}, in ${countdown(left)}.`;
  return `${when} ${warning.sentence}`;
}

/** Null when the bound is reached: then nothing can be kept. */
export function keepLabel(notebook: NotebookView): string | null {
  const seconds = notebook.warning?.keep_seconds ?? 0;
  return seconds <= 0 ? null : 'Keep it';
}
