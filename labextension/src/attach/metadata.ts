/** What a notebook file says about a job: the metadata of the cell, and the placeholder above the job's outputs. Pure. */

import type { IDisplayData, IOutput } from '@jupyterlab/nbformat';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { gpuWords } from '../amounts';
import type { JobPhase } from '../jobs';
import { JOB_LOOKS, isFinal, summary } from '../jobs';
import { clock } from '../times';
import type { JobView } from '../wire';

export const JOB_MIME = 'application/vnd.jupyter-gq.job+json';

/** Key of our cell metadata. */
export const METADATA_KEY = 'jupyter_gq';

/** A cell is bound to a job. */
export interface IBinding {
  readonly job: string;
  /** Hash of the source that was sent. */
  readonly source_hash: string;
  /** Last piece of output that is in the file. */
  readonly seq: number;
}

/** The binding in a cell's metadata; null when there is none, or it is not ours to read. */
export function bindingOf(value: unknown): IBinding | null {
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const { job, source_hash, seq } = value as Partial<IBinding>;
  if (typeof job !== 'string' || typeof source_hash !== 'string') {
    return null;
  }
  return { job, source_hash, seq: typeof seq === 'number' ? seq : 0 };
}

/** What the placeholder keeps in the file, so that it can be shown without the service. */
export interface IPlaceholder {
  readonly job: string;
  readonly name: string;
  readonly queue: string;
  readonly gpus: string;
  readonly phase: JobPhase;
  readonly sentence: string;
  readonly submitted_at: number;
  readonly finished_at: number | null;
}

/** The placeholder output. It changes with the phase only, so that a running job does not touch the file all the time. */
export function placeholder(job: JobView): IDisplayData {
  const sentence = isFinal(job.phase) ? summary(job, job.finished_at ?? job.submitted_at) : '';
  const data: IPlaceholder = {
    job: job.id,
    name: job.name,
    queue: job.queue,
    gpus: job.gpus,
    phase: job.phase,
    sentence,
    submitted_at: job.submitted_at,
    finished_at: job.finished_at
  };
  const text = fallback(data);
  return {
    output_type: 'display_data',
    data: {
      [JOB_MIME]: { ...data },
      'text/plain': text,
      'text/html': `<p><em>${escaped(text)}</em></p>`
    },
    metadata: {}
  };
}

/** What is read where our renderer is missing. */
function fallback(data: IPlaceholder): string {
  const what = `Training job ${data.name || data.job} (${data.queue}, ${gpuWords(data.gpus)})`;
  const state = JOB_LOOKS[data.phase].word.toLowerCase();
  const at = data.finished_at ?? data.submitted_at;
  const when = clock(at, 0);
  return data.finished_at === null
    ? `${what}: ${state}, sent ${when}`
    : `${what}: ${state} ${when}. ${data.sentence}`;
}

function escaped(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
}

/** The placeholder in a mime bundle; null when it is not one. */
export function placeholderIn(data: ReadonlyPartialJSONObject): IPlaceholder | null {
  const value = data[JOB_MIME] as unknown;
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const found = value as Readonly<Record<string, unknown>>;
  const text = (key: string): string => (typeof found[key] === 'string' ? found[key] : '');
  const instant = (key: string): number | null => (typeof found[key] === 'number' ? found[key] : null);
  const phase = text('phase');
  if (text('job') === '' || !(phase in JOB_LOOKS)) {
    return null;
  }
  return {
    job: text('job'),
    name: text('name'),
    queue: text('queue'),
    gpus: text('gpus'),
    phase: phase as JobPhase,
    sentence: text('sentence'),
    submitted_at: instant('submitted_at') ?? 0,
    finished_at: instant('finished_at')
  };
}

/** The first output of a cell, when it is a placeholder. */
export function placeholderOf(outputs: readonly IOutput[]): IPlaceholder | null {
  const first = outputs.length > 0 ? outputs[0] : null;
  return first === null ? null : placeholderIn((first.data ?? {}) as ReadonlyPartialJSONObject);
}
