/** What the plugins of this package offer to each other, and to other extensions. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

import type { IRun } from './bundle/history';
import type { Client } from './client';
import type { ILiveState } from './live/state';
import type { JobView, NotebookView, OutputNotice } from './wire';

/** Live view of the user's jobs, notebooks and queues. */
export interface ITraining {
  readonly client: Client;
  /** A snapshot; it is replaced, never changed. */
  readonly state: ILiveState;
  readonly stateChanged: ISignal<ITraining, ILiveState>;
  /** One job changed, or became known. */
  readonly jobChanged: ISignal<ITraining, JobView>;
  /** A job has more output than its last known number. */
  readonly outputArrived: ISignal<ITraining, OutputNotice>;
  /** News may have been missed: whoever keeps something must ask again. */
  readonly resumed: ISignal<ITraining, void>;
  /** Fetches every list anew. Failures are told through the state. */
  refresh(): Promise<void>;
  /** The next page of older jobs. */
  loadMore(): Promise<void>;
  /** A job by its id, from the state or from the server; null when it is not known (any more). */
  job(id: string): Promise<JobView | null>;
  /** What the server answered about a job, ahead of its event. */
  learn(job: JobView): void;
  learnNotebook(notebook: NotebookView): void;
  /** The notebook server that this page belongs to, if it holds a share. */
  readonly here: NotebookView | null;
}

export const ITraining = new Token<ITraining>(
  'jupyter-gq:ITraining',
  'Live view of the jobs, notebooks and queues of the user.'
);

/** Which cells ran in which kernel. */
export interface IRunHistory {
  runs(kernelId: string): readonly IRun[];
  isComplete(kernelId: string): boolean;
}

export const IRunHistory = new Token<IRunHistory>(
  'jupyter-gq:IRunHistory',
  'The cells that ran, in run order.'
);

/** Puts the output of jobs under their cells. */
export interface ICellOutputs {
  /** Binds the target cells of a job that was just sent: placeholder, metadata, and output as it comes. */
  begin(panel: NotebookPanel, job: JobView): Promise<void>;
}

export const ICellOutputs = new Token<ICellOutputs>(
  'jupyter-gq:ICellOutputs',
  'Puts the output of jobs under their cells.'
);

/** Ids of our commands. */
export namespace CommandIDs {
  export const sendCell = 'jupyter-gq:send-cell';
  export const openPanel = 'jupyter-gq:open-panel';
  export const refresh = 'jupyter-gq:refresh';
  export const cancelJob = 'jupyter-gq:cancel-job';
  export const openLog = 'jupyter-gq:open-log';
  export const openResult = 'jupyter-gq:open-result';
  export const goToCell = 'jupyter-gq:go-to-cell';
  export const showJob = 'jupyter-gq:show-job';
  export const keepShare = 'jupyter-gq:keep-share';
}

/** Arguments of the commands about one job, as a JSON schema. */
export const JOB_ARGS = {
  type: 'object',
  properties: { job: { type: 'string', description: 'The id of the job.' } },
  required: ['job']
} as const;

/** The job that a command is about; empty when its arguments do not say. */
export function jobOf(args: ReadonlyPartialJSONObject): string {
  return typeof args.job === 'string' ? args.job : '';
}

/** The id of the side panel. */
export const PANEL_ID = 'jupyter-gq-panel';
