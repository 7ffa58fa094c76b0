import type { ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { IPrefix, ICodeCell } from '../bundle/prefix';
import { proposeFromDocument, proposeFromRuns, proposeFromServer } from '../bundle/prefix';
import type { Client } from '../client';
import type { IRunHistory } from '../tokens';

/** The cells that can be sent, or the reason why none can, as title and message for the user. */
export type Targets =
  | { readonly models: readonly ICodeCellModel[]; readonly kernelId: string }
  | { readonly title: string; readonly message: string };

/** Return the selected code cells that are not empty, with their kernel, or why none can be sent. */
export function findTargets(panel: NotebookPanel): Targets {
  const selected = panel.content.widgets.filter(cell => panel.content.isSelectedOrActive(cell));
  const code = selected
    .map(cell => cell.model)
    .filter((model): model is ICodeCellModel => model.type === 'code');
  if (code.length === 0) {
    return {
      title: 'This is not a code cell',
      message: 'Only code cells can be sent to training. Select a code cell, then send it.'
    };
  }
  const models = code.filter(model => model.sharedModel.getSource().trim() !== '');
  if (models.length === 0) {
    return {
      title: 'The cell is empty',
      message: 'There is nothing to run. Write the code that should train, then send it.'
    };
  }
  const kernelId = panel.sessionContext.session?.kernel?.id;
  if (kernelId === undefined) {
    return {
      title: 'The notebook has no kernel',
      message:
        'A job runs in a kernel of the same kind. Choose a kernel with Kernel > Change Kernel…, then send the cell.'
    };
  }
  if (panel.context.path === '' || panel.context.contentsModel === null) {
    return {
      title: 'The notebook has not been saved yet',
      message:
        'A job belongs to a file, so that its output finds its cell again. Save the notebook, then send the cell.'
    };
  }
  return { models, kernelId };
}

/** Return all code cells of a notebook, in document order. */
export function listCodeCells(panel: NotebookPanel): ICodeCell[] {
  const cells: ICodeCell[] = [];
  for (const model of panel.model?.cells ?? []) {
    if (model.type === 'code') {
      const tags: unknown = model.getMetadata('tags');
      cells.push({
        id: model.id,
        source: model.sharedModel.getSource(),
        tags: Array.isArray(tags) ? tags.map(String) : []
      });
    }
  }
  return cells;
}

/** Propose the cells to run before the targets, from the best source that is known for the kernel. */
export async function proposePrefix(
  panel: NotebookPanel,
  kernelId: string,
  targets: ReadonlySet<string>,
  known: { history: IRunHistory; client: Client }
): Promise<IPrefix> {
  const cells = listCodeCells(panel);
  if (known.history.isComplete(kernelId)) {
    return proposeFromRuns(known.history.listRuns(kernelId), cells, targets);
  }
  try {
    const executions = await known.client.listKernelRuns(kernelId);
    if (executions.length > 0) {
      return proposeFromServer(executions, cells, targets);
    }
  } catch {
    // The server does not know the kernel's history. The order of the document is the next best source.
  }
  return proposeFromDocument(cells, targets);
}
