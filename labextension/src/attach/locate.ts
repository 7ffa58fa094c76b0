/** The notebook and the cells of a job. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import { stripControls } from '../plain';
import type { JobSummary, JobView } from '../wire';
import { METADATA_KEY, readBinding } from './metadata';

/**
 * Open the notebook and select the first target cell; return the notebook, or null if it was not opened.
 *
 * Raises an error if either no longer exists.
 */
export async function goToCell(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  job: JobView,
  trans: TranslationBundle
): Promise<NotebookPanel | null> {
  const panel = await openNotebook(app, tracker, job, trans);
  if (panel === null) {
    return null;
  }
  const index = panel.content.widgets.findIndex(cell => isTarget(cell.model, job));
  if (index < 0) {
    throw new Error(
      trans.__(
        'The cell is no longer in %1. “Open result” shows what the job made.',
        stripControls(job.notebook_path)
      )
    );
  }
  await selectCell(panel, index);
  return panel;
}

/**
 * Open the notebook of a job and return it, or null if it was not opened here. Raises an error if it no longer exists.
 *
 * Notebook 7 shows one notebook in each tab of the browser and opens all others in new tabs.
 */
export async function openNotebook(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  job: JobView,
  trans: TranslationBundle
): Promise<NotebookPanel | null> {
  const path = await findNotebook(app, tracker, job, trans);
  let panel = tracker?.find(known => known.context.path === path);
  if (panel === undefined) {
    // A text that is opened as a notebook, as by Jupytext, would be opened in an editor.
    const factory = path.endsWith('.ipynb') ? {} : { factory: 'Notebook' };
    const opened: unknown = await app.commands.execute('docmanager:open', { path, ...factory });
    panel = opened as NotebookPanel | undefined;
  } else {
    // Notebook 7 closes a notebook that is opened once more.
    app.shell.activateById(panel.id);
  }
  if (panel === undefined || panel.isDisposed) {
    return null;
  }
  await panel.context.ready;
  return panel;
}

/** Return the place of the target cell that shows an error, or of the first one; -1 if none is in the notebook. */
export function findFailedCell(panel: NotebookPanel, job: JobView): number {
  const { widgets } = panel.content;
  const failed = widgets.findIndex(({ model }) => isTarget(model, job) && showsError(model));
  return failed < 0 ? widgets.findIndex(({ model }) => isTarget(model, job)) : failed;
}

/** Make one cell the only selected one, and scroll to it. */
export async function selectCell(panel: NotebookPanel, index: number): Promise<void> {
  panel.content.deselectAll();
  panel.content.activeCellIndex = index;
  await panel.content.scrollToItem(index, 'smart');
}

/** Return whether a code cell shows an error as its output. */
export function showsError(model: ICellModel): boolean {
  if (model.type !== 'code') {
    return false;
  }
  const { outputs } = model as ICodeCellModel;
  return Array.from({ length: outputs.length }, (_, index) => outputs.get(index).type).includes('error');
}

function isTarget(model: ICellModel, job: JobView): boolean {
  return job.targets.some(target => target.cell_id === model.id);
}

/** Return the path of the job's notebook, also if it is open and was renamed. Raises an error if there is none. */
async function findNotebook(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  job: JobView,
  trans: TranslationBundle
): Promise<string> {
  try {
    await app.serviceManager.contents.get(job.notebook_path, { content: false });
    return job.notebook_path;
  } catch {
    const renamed = tracker?.find(panel => showsJob(panel, job));
    if (renamed !== undefined) {
      return renamed.context.path;
    }
    throw new Error(
      trans.__(
        '%1 no longer exists. “Open result” shows what the job made.',
        stripControls(job.notebook_path)
      )
    );
  }
}

/** Return whether a cell of this notebook is bound to the job. */
export function showsJob(panel: NotebookPanel, job: JobSummary): boolean {
  return Array.from(panel.model?.cells ?? []).some(
    cell => readBinding(cell.getMetadata(METADATA_KEY) as unknown)?.job === job.id
  );
}
