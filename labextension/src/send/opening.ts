/** The cells that a dialog sends and what it opens with: for the selected cells, or for those of an earlier job. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { IPrefixEntry } from '../bundle/prefix';
import type { JobRequest, Me } from '../wire';
import type { IEarlierJob } from './continuing';
import type { IEnvironmentChoice } from './environment';
import { AS_PROPOSED } from './environment';
import type { ITargetCell, Targets } from './targets';
import { checkTargets } from './targets';
import type { IFormValues } from './values';

/** The settings of a job that have no field in the dialog. */
export type UnshownSettings = Pick<JobRequest, 'preferred_gpu_models' | 'within'>;

/** The start of a dialog, beside the values of its fields. */
export interface IStart {
  /** Names to bring back; null = those that the server proposes. */
  readonly returns: string | null;
  readonly environment: IEnvironmentChoice;
  readonly unshown: UnshownSettings;
  /** The cells that may run first; null = as they are proposed for a new job. */
  readonly entries: readonly IPrefixEntry[] | null;
  /** The ended job whose checkpoints the dialog offers; null = none. */
  readonly earlier: IEarlierJob | null;
}

/** The whole opening of a dialog: the values of its fields, and the rest of its start. */
export interface IOpening {
  readonly values: IFormValues;
  readonly start: IStart;
  /** Sentences for the user about the opening. */
  readonly notes: readonly string[];
}

/** The proposal for a new job: the values of the last job, and the cells that run first. */
export interface IProposed {
  readonly values: IFormValues;
  readonly entries: readonly IPrefixEntry[];
}

/** A source of the cells and the settings of a new job. */
export interface ISendOrigin {
  findTargets(panel: NotebookPanel): Targets;
  /** Return what the dialog opens with for these cells. */
  open(targets: readonly ITargetCell[], proposed: IProposed, me: Me): IOpening;
}

/** The start of a dialog for a new job. */
export const NEW_JOB: IStart = {
  returns: null,
  environment: AS_PROPOSED,
  unshown: {},
  entries: null,
  earlier: null
};

/**
 * Return the cells that are selected in a notebook now as an origin, with the settings of the last job. A later selection
 * changes nothing.
 */
export function selectedCells({ content }: NotebookPanel, trans: TranslationBundle): ISendOrigin {
  const selected = content.widgets.filter(cell => content.isSelectedOrActive(cell)).map(cell => cell.model);
  return {
    findTargets: panel =>
      checkTargets(
        panel,
        selected.filter(model => !model.isDisposed),
        trans
      ),
    open: (_, { values }) => ({ values, start: NEW_JOB, notes: [] })
  };
}
