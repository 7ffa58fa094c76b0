/** What travels between this extension and the server: the same shapes as the service's own models. Times are seconds since the epoch; unknown is null. */

import type { INotebookContent, IOutput } from '@jupyterlab/nbformat';

export type JobPhase =
  'waiting' | 'starting' | 'running' | 'pausing' | 'paused' | 'cancelling' | 'done' | 'failed' | 'cancelled';

export type NotebookPhase = 'waiting' | 'starting' | 'running' | 'stopping' | 'stopped';

/** The one form of every error. */
export interface IProblem {
  /** Stable word for programs, such as `unknown_queue`. */
  code: string;
  /** What was wrong, what was expected and what to do. */
  message: string;
  /** Part of the request that it is about, such as `gpus`. */
  field?: string | null;
}

export interface ICellRef {
  cell_id: string;
  /** SHA-256 of the source, hex. */
  source_hash: string;
  seconds: number | null;
}

export interface IEviction {
  reason: string;
  sentence: string;
  by: string | null;
  at: number;
}

export interface IProgress {
  /** 0 to 1. */
  fraction: number | null;
  text: string;
}

/** When a waiting job will probably start: half of such jobs do before `p50`, nine of ten before `p90`. */
export interface IExpectedStart {
  p50: number;
  p90: number;
}

export interface IJob {
  id: string;
  name: string;
  owner: string;
  queue: string;
  gpus: string;
  /** CPU cores of each task; null: not said. */
  cpus: string | null;
  /** Memory of each task, such as "16 GiB"; null: not said. */
  memory: string | null;
  /** The only model of GPU that it takes; null: any. */
  gpu_model: string | null;
  tasks: number;
  priority: number;
  expected_seconds: number | null;
  phase: JobPhase;
  sentence: string;
  position: number | null;
  expected_start: IExpectedStart | null;
  over_quota: string | null;
  submitted_at: number;
  started_at: number | null;
  finished_at: number | null;
  run: number;
  devices: string[];
  node: string | null;
  server: string;
  notebook_path: string;
  targets: ICellRef[];
  prefix: ICellRef[];
  progress: IProgress | null;
  last_seq: number;
  eviction: IEviction | null;
  error: { ename: string; evalue: string } | null;
}

/** Jobs, newest first. */
export interface IJobPage {
  jobs: IJob[];
  /** Pass it as `before` for the next page; null at the end. */
  next: string | null;
}

export interface IIdleWarning {
  expire_at: number;
  sentence: string;
  /** What "Keep it" would add now; 0 when the bound is reached. */
  keep_seconds: number;
}

/** A notebook server and its share. */
export interface INotebook {
  id: string;
  server: string;
  owner: string;
  gpus: string;
  phase: NotebookPhase;
  sentence: string;
  position: number | null;
  submitted_at: number;
  started_at: number | null;
  finished_at: number | null;
  devices: string[];
  model: string | null;
  memory_quota_mib: number | null;
  memory_used_mib: number | null;
  utilisation: number | null;
  enforcement: string;
  /** null: in use, or unknown. */
  idle_since: number | null;
  warning: IIdleWarning | null;
  /** What is wrong with it while it runs; '' = nothing. A service of an earlier release says nothing of that. */
  trouble?: string;
  eviction: IEviction | null;
}

/** What is said of CPU cores or memory in a queue; null: nothing. */
export interface IBounds {
  quota: string | null;
  limit: string | null;
  used: string;
  /** For each task of a job that names nothing. */
  default: string | null;
}

export interface IQueue {
  name: string;
  parent: string | null;
  pool: string;
  quota: string;
  limit: string | null;
  used: string;
  over_quota: string;
  cpus: IBounds;
  memory: IBounds;
  waiting: number;
  running: number;
  over_quota_weight: number;
  priority: number;
  member: boolean;
}

export interface IPool {
  name: string;
  /** Every model of GPU in it. */
  models: string[];
  /** Of its largest node; null: not counted. */
  largest_cpus: string | null;
  largest_memory: string | null;
}

export interface IMe {
  user: string;
  groups: string[];
  admin: boolean;
  quota: string;
  used: string;
  left: string;
  queues: IQueue[];
  pools: IPool[];
  largest_request: string;
  devices_sentence: string;
}

export interface IPreview {
  starts_now: boolean;
  sentence: string;
  position: number | null;
  over_quota: string | null;
  /** What each task would have; null: nothing is said. */
  cpus: string | null;
  memory: string | null;
}

/** A numbered piece of output; `outputs.ts` says how pieces fold into the outputs of a cell. */
export interface IOutputEvent {
  seq: number;
  run: number;
  at: number;
  op: string;
  cell?: string;
  role?: string;
  state?: string;
  execution_count?: number | null;
  output?: IOutput;
  index?: number;
  outputs?: IOutput[];
}

export interface IOutputPage {
  events: IOutputEvent[];
  last_seq: number;
  finished: boolean;
}

export interface IStatus {
  available: boolean;
  message: string;
  user: string | null;
  server: string;
  hub: boolean;
}

/** One execution that the server saw in a kernel. */
export interface IKernelExecution {
  code: string;
  execution_count: number | null;
  seconds: number | null;
  /** It ended with an error. */
  failed?: boolean;
}

export interface IPrefixCell {
  cell_id: string;
  /** As it was run, which may differ from what the cell says now. */
  source: string;
  seconds: number | null;
}

export interface IJobRequest {
  name: string;
  queue: string;
  gpus: string;
  /** null: as the queue says. */
  cpus: string | null;
  memory: string | null;
  /** null: any. */
  gpu_model: string | null;
  /** null: as jobs like it usually take. */
  expected_seconds: number | null;
}

/** What should run, and where. */
export interface ICellsRequest {
  notebook_path: string;
  kernel_id: string;
  mode: 'replay';
  /** The model, with unsaved edits. */
  notebook: INotebookContent;
  targets: string[];
  prefix: IPrefixCell[];
}

export interface ISendRequest extends ICellsRequest, IJobRequest {
  /** Idempotency key: sending it twice makes one job. */
  key: string;
}

/** Something that the user should know before he sends. */
export interface IWarned {
  code: string;
  message: string;
  cell_id: string | null;
}

/** Schema of the events that the server extension emits. */
export const EVENT_SCHEMA = 'https://schema.jupyter-gq.org/service/v1';

export type EventKind = 'job' | 'notebook' | 'output' | 'queues' | 'reset' | 'connection';
