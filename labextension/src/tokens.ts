/** Services that the plugins of this package offer to each other and to other extensions. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import type { Client } from './client';
import type { ILiveState } from './live/state';
import type { IListener } from './news';
import type { ISendOrigin } from './send/opening';
import type { JobSummary, JobView, NotebookView, OutputNotice, RanCell, SentSweep } from './wire';

/** A live view of the user's jobs, notebooks and queues. */
export interface ITraining {
  readonly client: Client;
  /** An immutable snapshot. A change replaces the whole snapshot. */
  readonly state: ILiveState;
  readonly stateChanged: ISignal<ITraining, ILiveState>;
  /** Emitted when a job changed or became known. */
  readonly jobChanged: ISignal<ITraining, JobSummary>;
  /** Emitted when a job has stored more output. */
  readonly outputArrived: ISignal<ITraining, OutputNotice>;
  /** Emitted when events may have been missed: a listener that keeps copies must fetch again. */
  readonly resumed: ISignal<ITraining, void>;
  /** Fetch every list again. A failure appears in the state. */
  refresh(): Promise<void>;
  /** Fetch the next page of older jobs into the state; do nothing if there is none. */
  loadMore(): Promise<void>;
  /** Fetch older jobs into the state until all are there, or a thousand. */
  loadAll(): Promise<void>;
  /** Return a job with its cells, from the state or from the server; null if the server does not know the job. */
  findJob(id: string): Promise<JobView | null>;
  /** Take a job out of the state that the server does not know any more. */
  forgetJob(id: string): void;
  /**
   * Note at which path the notebook of a job is, which may have been renamed since the job was sent.
   *
   * See docs/decisions/0430-let-the-page-tell-where-a-notebook-is.md.
   */
  recordPath(id: string, path: string): void;
  /** Put a job into the state, such as from an event. */
  recordJob(job: JobSummary): void;
  /**
   * Put the jobs of an answer into the state before their events arrive, and return the answer. The request must have
   * begun just now: a job of which an event has told since then stays, for the answer may be older.
   */
  recordAnswer<T>(answer: Promise<T>, listJobs: (found: T) => readonly JobSummary[]): Promise<T>;
  /** Put a job that was just sent into the state; what an event has told about the job already is newer. */
  recordSent(job: JobView): void;
  /** Put a notebook from an answer of the server into the state before its event arrives. */
  recordNotebook(notebook: NotebookView): void;
  /** The notebook server that this page belongs to; null if it holds no share. */
  readonly notebookHere: NotebookView | null;
}

export const ITraining = new Token<ITraining>(
  'jupyter-gq:ITraining',
  'A live view of the jobs, notebooks and queues of the user.'
);

/** A record of the cells that ran in each kernel. */
export interface IRunHistory {
  /** Return the runs of a kernel in run order; the one that still runs, without a duration, is the last. */
  listRuns(kernelId: string): readonly RanCell[];
  /** Return whether the record has every run of the kernel's present session. */
  isComplete(kernelId: string): boolean;
}

export const IRunHistory = new Token<IRunHistory>(
  'jupyter-gq:IRunHistory',
  'A record of the cells that ran in each kernel, in run order.'
);

/** The variables of jobs that were loaded into the kernels of their notebooks. */
export interface ILoadedVariables {
  /** Return whether all variables of a job with these names are in the kernel of its notebook, as far as this page knows. */
  hasAll(job: JobSummary, names: readonly string[]): boolean;
  /** Emitted when variables were loaded, or a kernel that had some was restarted or changed. */
  readonly changed: ISignal<ILoadedVariables, void>;
}

export const ILoadedVariables = new Token<ILoadedVariables>(
  'jupyter-gq:ILoadedVariables',
  'The variables of jobs that were loaded into the kernels of their notebooks.'
);

/** The news about jobs and sweeps that are worth a notification. */
export interface INewsFeed {
  /** Tell a listener the news that it wants, until the result is disposed. */
  listen(listener: IListener): IDisposable;
}

export const INewsFeed = new Token<INewsFeed>(
  'jupyter-gq:INewsFeed',
  'The news about jobs and sweeps that are worth a notification.'
);

/** The link between jobs and the cells that show their output. */
export interface ICellOutputs {
  /** Bind the target cells of a job that was just sent: placeholder, metadata, and output as it arrives. */
  bind(panel: NotebookPanel, job: JobView): Promise<void>;
  /** Show the jobs of a sweep that was just sent as a table under a cell. */
  showSweep(panel: NotebookPanel, cell: string, sweep: SentSweep): Promise<void>;
}

export const ICellOutputs = new Token<ICellOutputs>(
  'jupyter-gq:ICellOutputs',
  'Puts the output of jobs under their cells.'
);

/** The dialog that sends cells. */
export interface ISender {
  /** Send cells; return the id of the accepted job, or null if the user cancelled. */
  send(panel: NotebookPanel, origin: ISendOrigin): Promise<string | null>;
}

export const ISender = new Token<ISender>('jupyter-gq:ISender', 'The dialog that sends cells to training.');

/** Ids of the commands of this extension. */
export namespace CommandIDs {
  export const sendCell = 'jupyter-gq:send-cell';
  export const sendAgain = 'jupyter-gq:send-again';
  export const fixAndResend = 'jupyter-gq:fix-and-resend';
  export const openPanel = 'jupyter-gq:open-panel';
  export const refresh = 'jupyter-gq:refresh';
  export const cancelJob = 'jupyter-gq:cancel-job';
  export const deleteJob = 'jupyter-gq:delete-job';
  export const cancelWaiting = 'jupyter-gq:cancel-waiting-jobs';
  export const holdJob = 'jupyter-gq:hold-job';
  export const releaseJob = 'jupyter-gq:release-job';
  export const cancelJobs = 'jupyter-gq:cancel-jobs';
  export const holdJobs = 'jupyter-gq:hold-jobs';
  export const releaseJobs = 'jupyter-gq:release-jobs';
  export const moveJobs = 'jupyter-gq:move-jobs';
  export const changeGpus = 'jupyter-gq:change-gpus';
  export const openLog = 'jupyter-gq:open-log';
  export const openResult = 'jupyter-gq:open-result';
  export const loadResults = 'jupyter-gq:load-results';
  export const copyFiles = 'jupyter-gq:copy-files';
  export const openFile = 'jupyter-gq:open-file';
  export const goToCell = 'jupyter-gq:go-to-cell';
  export const showJob = 'jupyter-gq:show-job';
  export const keepShare = 'jupyter-gq:keep-share';
}

/** Return the command that sends a job which ended in this phase once more. */
export function commandOfAgain(phase: JobSummary['phase']): string {
  return phase === 'failed' ? CommandIDs.fixAndResend : CommandIDs.sendAgain;
}

/** JSON schema of the arguments of commands that have none. */
export const NO_ARGS = { type: 'object', properties: {} } as const;

/** JSON schema of the arguments of the commands about one job. */
export const JOB_ARGS = {
  type: 'object',
  properties: { job: { type: 'string', description: 'The id of the job.' } },
  required: ['job']
} as const;

/** JSON schema of the arguments of the command that copies files of a job. */
export const FILES_ARGS = {
  type: 'object',
  properties: {
    job: { type: 'string', description: 'The id of the job.' },
    path: { type: 'string', description: 'The path of one file of the job; without it, all files.' }
  },
  required: ['job']
} as const;

/** JSON schema of the arguments of the command that opens a file of a job. */
export const FILE_ARGS = {
  type: 'object',
  properties: {
    job: { type: 'string', description: 'The id of the job.' },
    path: { type: 'string', description: 'The path of a file of the job.' }
  },
  required: ['job', 'path']
} as const;

/** JSON schema of the arguments of the commands about several jobs. */
export const JOBS_ARGS = {
  type: 'object',
  properties: {
    jobs: { type: 'array', items: { type: 'string' }, description: 'The ids of the jobs.' }
  },
  required: ['jobs']
} as const;

/** Return the ids of the jobs that a command is about; empty if the arguments have none. */
export function readJobIds(args: ReadonlyPartialJSONObject): string[] {
  return Array.isArray(args.jobs) ? args.jobs.filter(id => typeof id === 'string') : [];
}

/** Return the id of the job that a command is about; empty if the arguments have none. */
export function readJobId(args: ReadonlyPartialJSONObject): string {
  return typeof args.job === 'string' ? args.job : '';
}

/** Return the path of the file that a command is about; empty if the arguments have none. */
export function readPath(args: ReadonlyPartialJSONObject): string {
  return typeof args.path === 'string' ? args.path : '';
}

/** Id of the side panel. */
export const PANEL_ID = 'jupyter-gq-panel';
