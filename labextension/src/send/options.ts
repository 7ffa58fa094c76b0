/** Contents of the send dialog, and the requests that it makes. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';

import type { ILocalRun } from '../attach/localrun';
import type { IPrefix } from '../bundle/prefix';
import type {
  Captured,
  JobRequest,
  JobView,
  Me,
  Plan,
  PoolView,
  PrefixCell,
  Preview,
  QueueView,
  SentSweep
} from '../wire';
import type { IChosenCells, VariableChoice } from './carry';
import type { IEnvironmentNames } from './environment';
import type { IFileChoice } from './files';
import type { IStart } from './opening';
import type { ISecrets } from './secrets';
import type { IArrival } from './strays';
import type { SweepFields } from './sweep';
import type { ITargetCell } from './targets';
import type { IFormValues } from './values';

/** The contents of the dialog and the requests that it makes. */
export interface ISendOptions {
  readonly values: IFormValues;
  /** The queues to which the user can send, as they were when the dialog was opened. */
  readonly queues: readonly QueueView[];
  /** The news of all queues, such as that work has begun; without it the dialog keeps those of its beginning. */
  readonly queuesChanged?: ISignal<unknown, { readonly queues: readonly QueueView[] }>;
  readonly pools: readonly PoolView[];
  readonly largest: string;
  readonly secrets: ISecrets;
  /** Names of the images that the service offers. */
  readonly images?: Me['images'];
  readonly targets: readonly ITargetCell[];
  readonly prefix: IPrefix;
  /** What the dialog starts with beside `values`. */
  readonly start: IStart;
  readonly notes: readonly string[];
  /** The runs here of the targets; without it none runs here. */
  readonly localRun?: ILocalRun;
  readonly trans: TranslationBundle;
  /** Return what would run, with warnings. Raises `RequestError` if sending the cells would be refused. */
  check(cells: IChosenCells, files: IFileChoice): Promise<Plan>;
  /**
   * Capture the variables of the kernel, as the user has chosen them, for a job with this software. Raises
   * `RequestError` if that is refused.
   */
  capture(prefix: PrefixCell[], choice: VariableChoice, software: string): Promise<Captured>;
  preview(request: JobRequest): Promise<Preview>;
  /** The way to send several jobs at once; without it the dialog sends one. */
  readonly sweep?: {
    readonly trans: TranslationBundle;
    /** Send the jobs, which bring back the variables of the names `returns`. */
    send(
      request: JobRequest & SweepFields,
      cells: IChosenCells,
      returns: string[],
      environment: IEnvironmentNames,
      files: IFileChoice
    ): Promise<SentSweep>;
  };
  /** The news of the jobs of this dialog, if the answer to a request was lost; without it nothing is known of them. */
  readonly arrival?: IArrival;
  /** What the requests say beside their answers. */
  readonly client: {
    /** Emits true while an answer is slow to come. */
    readonly slowChanged: ISignal<unknown, boolean>;
    /** Seconds since the epoch by the clock of the server. */
    readonly now: number;
  };
  /** Send the job, which brings back the variables of the names `returns`. */
  send(
    request: JobRequest,
    cells: IChosenCells,
    returns: string[],
    environment: IEnvironmentNames,
    files: IFileChoice
  ): Promise<JobView>;
}
