/** The cells that a dialog sends and what it opens with: for the selected cells, or for those of an earlier job. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobRequest, Me } from '../wire';
import type { IEnvironmentChoice } from './environment';
import { AS_PROPOSED } from './environment';
import type { ITargetCell, Targets } from './targets';
import { findTargets } from './targets';
import type { IFormValues } from './values';

/** The settings of a job that have no field in the dialog. */
export type UnshownSettings = Pick<JobRequest, 'preferred_gpu_models' | 'within'>;

/** What the dialog starts with beside the values of its fields. */
export interface IStart {
  /** Names to bring back; null = those that the server proposes. */
  readonly returns: string | null;
  readonly environment: IEnvironmentChoice;
  readonly unshown: UnshownSettings;
}

/** All that the dialog opens with. */
export interface IOpening {
  readonly values: IFormValues;
  readonly start: IStart;
  /** Sentences for the user about it. */
  readonly notes: readonly string[];
}

/** Where the cells and the settings of a new job come from. */
export interface ISendOrigin {
  findTargets(panel: NotebookPanel): Targets;
  /** Return what the dialog opens with for these cells; `proposed` are the values of the last job. */
  open(targets: readonly ITargetCell[], proposed: IFormValues, me: Me): IOpening;
}

/** The start of a dialog for a new job. */
export const NEW_JOB: IStart = { returns: null, environment: AS_PROPOSED, unshown: {} };

/** Return the selected cells as an origin, with the settings of the last job. */
export function selectedCells(trans: TranslationBundle): ISendOrigin {
  return {
    findTargets: panel => findTargets(panel, trans),
    open: (_, values) => ({ values, start: NEW_JOB, notes: [] })
  };
}
