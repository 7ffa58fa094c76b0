import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { Failure, IPrefix, ICodeCell } from '../bundle/prefix';
import { proposeFromDocument, proposeFromRuns } from '../bundle/prefix';
import type { Client } from '../client';
import { stripControls } from '../plain';
import type { IRunHistory } from '../tokens';
import type { JobView, RanCell } from '../wire';
import { findFailures, type FindJob } from './failures';

/** The cells that can be sent, or the reason why none can, as title and message for the user. */
export type Targets =
  | { readonly models: readonly ICodeCellModel[]; readonly kernelId: string }
  | { readonly title: string; readonly message: string };

/** A cell that is sent, as the dialog shows it. */
export interface ITargetCell {
  readonly id: string;
  readonly source: string;
}

/** Return the code cells of a job that are still in the notebook, with their kernel, or why none can be sent. */
export function findTargetsOfJob(panel: NotebookPanel, job: JobView, trans: TranslationBundle): Targets {
  const ids = new Set(job.targets.map(target => target.cell_id));
  const there = Array.from(panel.model?.cells ?? []).filter(model => ids.has(model.id));
  if (there.length === 0) {
    const path = stripControls(panel.context.path);
    return {
      title: trans.__('There is nothing to send again'),
      message: trans.__('The cells of “%1” are no longer in %2.', stripControls(job.name), path)
    };
  }
  return checkTargets(panel, there, trans);
}

/** Return the code cells among these that are not empty, with the kernel, or why none can be sent. */
export function checkTargets(
  panel: NotebookPanel,
  cells: readonly ICellModel[],
  trans: TranslationBundle
): Targets {
  const code = cells.filter(isCode);
  if (code.length === 0) {
    return {
      title: trans.__('This is not a code cell'),
      message: trans.__('Only code cells can be sent to training. Select a code cell, then send it.')
    };
  }
  const models = code.filter(model => model.sharedModel.getSource().trim() !== '');
  if (models.length === 0) {
    return {
      title: trans.__('The cell is empty'),
      message: trans.__('There is nothing to run. Write the code that should train, then send it.')
    };
  }
  const kernelId = panel.sessionContext.session?.kernel?.id;
  if (kernelId === undefined) {
    return {
      title: trans.__('The notebook has no kernel'),
      message: trans.__(
        'A job runs in a kernel of the same kind. Choose a kernel with Kernel > Change Kernel…, wait until it is idle, then send the cell.'
      )
    };
  }
  if (panel.context.path === '' || panel.context.contentsModel === null) {
    return {
      title: trans.__('The notebook has not been saved yet'),
      message: trans.__(
        'A job belongs to a file, so that its output finds its cell again. Save the notebook, then send the cell.'
      )
    };
  }
  return { models, kernelId };
}

/** Return the code cells of a notebook as a proposal needs them, with what is known of their failures. */
function describeCells(
  models: readonly ICodeCellModel[],
  failures: ReadonlyMap<string, Failure> = new Map()
): ICodeCell[] {
  return models.map(model => {
    const tags: unknown = model.getMetadata('tags');
    return {
      id: model.id,
      source: model.sharedModel.getSource(),
      tags: Array.isArray(tags) ? tags.map(String) : [],
      failure: failures.get(model.id) ?? null
    };
  });
}

/** Propose the cells to run before the targets, from the best source that is known for the kernel. */
export async function proposePrefix(
  panel: NotebookPanel,
  kernelId: string,
  targets: ReadonlySet<string>,
  known: { history: IRunHistory; client: Client; findJob: FindJob }
): Promise<IPrefix> {
  const models = Array.from(panel.model?.cells ?? []).filter(isCode);
  const cells = describeCells(models);
  // Without an answer the page's own record is used, and then the order of the document.
  const told = await known.client.getKernelHistory(kernelId).catch(() => null);
  const seen = known.history.listRuns(kernelId);
  if (known.history.isComplete(kernelId) && (told?.complete !== true || agree(seen, told.cells))) {
    return proposeFromRuns(seen, cells, targets);
  }
  if (told !== null && told.cells.length > 0) {
    return proposeFromRuns(told.cells, cells, targets, told.complete ? 'history' : 'part');
  }
  const failures = await findFailures(models, known.findJob);
  const from = told?.complete === true ? 'nothing-ran' : 'document';
  return proposeFromDocument(describeCells(models, failures), targets, from);
}

function isCode(model: ICellModel): model is ICodeCellModel {
  return model.type === 'code';
}

/** Return whether what the page saw run is what the server saw first: the kernel may have restarted unseen. */
function agree(seen: readonly RanCell[], told: readonly RanCell[]): boolean {
  return seen.filter(run => run.seconds !== null).every((run, index) => told[index]?.code === run.code);
}
