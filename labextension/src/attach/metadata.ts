/** The traces of a job in a notebook file: the cell's metadata, and the placeholder above the job's outputs. Pure. */

import type { IDisplayData, IOutput } from '@jupyterlab/nbformat';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { formatGpus } from '../amounts';
import type { JobPhase } from '../jobs';
import { isFinal, isJobPhase, lookOfPhase, summarizeJob } from '../jobs';
import { omitState } from '../sentences';
import { formatClock } from '../times';
import { ENGLISH } from '../translation';
import type { JobSummary } from '../wire';

/** Media type of the placeholder. */
export const JOB_MIME = 'application/vnd.jupyter-gq.job+json';

/** Key of the cell metadata of this extension. */
export const METADATA_KEY = 'jupyter_gq';

/** The link from a cell to a job. */
export interface IBinding {
  readonly job: string;
  /** SHA-256 of the source that was sent, in hex. */
  readonly source_hash: string;
  /** Number of the last piece of output in the file. */
  readonly seq: number;
  /** Path of the notebook that shows the job, which a copy of the file keeps; "" if an earlier version wrote the binding. */
  readonly path: string;
  /** Whether the cell ran to its end in the last run of the job, as far as the file shows it. */
  readonly ended: boolean;
}

/** Return the binding in a cell's metadata; null if there is none, or none that this version can read. */
export function readBinding(value: unknown): IBinding | null {
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const { job, source_hash, seq, path, ended } = value as Partial<IBinding>;
  if (typeof job !== 'string' || typeof source_hash !== 'string') {
    return null;
  }
  return {
    job,
    source_hash,
    seq: typeof seq === 'number' ? seq : 0,
    path: typeof path === 'string' ? path : '',
    ended: ended === true
  };
}

/** The data of a placeholder in the file: enough to show the job without the service. */
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

/** Return the placeholder output. The output depends on the phase only, so that a running job seldom changes the file. */
export function makePlaceholder(job: JobSummary): IDisplayData {
  const sentence = isFinal(job.phase) ? summarizeJob(job, job.finished_at ?? job.submitted_at, ENGLISH) : '';
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
  const text = describePlaceholder(data);
  return {
    output_type: 'display_data',
    data: {
      [JOB_MIME]: { ...data },
      'text/plain': text,
      'text/html': `<p><em>${escapeHtml(text)}</em></p>`
    },
    metadata: {}
  };
}

/** Return the text for readers without this extension. */
function describePlaceholder(data: IPlaceholder): string {
  const what = `Training job ${data.name || data.job} (${data.queue}, ${formatGpus(data.gpus, ENGLISH)})`;
  const { word } = lookOfPhase(data.phase, ENGLISH);
  const state = word.toLowerCase();
  const at = data.finished_at ?? data.submitted_at;
  const when = formatClock(at, 0);
  return data.finished_at === null
    ? `${what}: ${state}, sent ${when}`
    : `${what}: ${state} ${when}. ${omitState(data.sentence, word)}`.trimEnd();
}

function escapeHtml(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
}

/** Return the placeholder in a MIME bundle; null if the bundle has none that this version can read. */
export function readPlaceholder(data: ReadonlyPartialJSONObject): IPlaceholder | null {
  const value = data[JOB_MIME] as unknown;
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const found = value as Readonly<Record<string, unknown>>;
  const text = (key: string): string => (typeof found[key] === 'string' ? found[key] : '');
  const instant = (key: string): number | null => (typeof found[key] === 'number' ? found[key] : null);
  const phase = text('phase');
  if (text('job') === '' || !isJobPhase(phase)) {
    return null;
  }
  return {
    job: text('job'),
    name: text('name'),
    queue: text('queue'),
    gpus: text('gpus'),
    phase,
    sentence: text('sentence'),
    submitted_at: instant('submitted_at') ?? 0,
    finished_at: instant('finished_at')
  };
}

/** Return the placeholder that is the first output of a cell; null if the first output is something else. */
export function findPlaceholder(outputs: readonly IOutput[]): IPlaceholder | null {
  const first = outputs.length > 0 ? outputs[0] : null;
  return first === null ? null : readPlaceholder((first.data ?? {}) as ReadonlyPartialJSONObject);
}
