import type { ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { IPrefix, ICodeCell } from '../bundle/prefix';
import { fromDocument, fromRuns, fromServer } from '../bundle/prefix';
import type { Client } from '../client';
import type { IRunHistory } from '../tokens';

/** What can be sent, or why it cannot: said before any dialog is opened. */
export type Targets =
  | { readonly models: readonly ICodeCellModel[]; readonly kernelId: string }
  | { readonly title: string; readonly message: string };

/** The selected code cells of a notebook. */
export function targetsOf(panel: NotebookPanel): Targets {
  const selected = panel.content.widgets.filter(cell => panel.content.isSelectedOrActive(cell));
  const code = selected
    .map(cell => cell.model)
    .filter((model): model is ICodeCellModel => model.type === 'code');
  if (code.length === 0) {
    return {
      title: 'Only code can be trained',
      message: 'The selected cell holds no code. Select a code cell, then send it.'
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
        'A job runs in a kernel of the same kind. Choose one with Kernel > Change Kernel…, then send the cell.'
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

/** All code cells, in document order. */
export function codeCells(panel: NotebookPanel): ICodeCell[] {
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

/** What is proposed to run first: the best that is known of the kernel. */
export async function prefixOf(
  panel: NotebookPanel,
  kernelId: string,
  targets: ReadonlySet<string>,
  known: { history: IRunHistory; client: Client }
): Promise<IPrefix> {
  const cells = codeCells(panel);
  if (known.history.isComplete(kernelId)) {
    return fromRuns(known.history.runs(kernelId), cells, targets);
  }
  try {
    const executions = await known.client.kernelHistory(kernelId);
    if (executions.length > 0) {
      return fromServer(executions, cells, targets);
    }
  } catch {
    // The server does not know that kernel's history: the document is the next best.
  }
  return fromDocument(cells, targets);
}
