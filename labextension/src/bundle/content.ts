/** The content of a notebook as a job needs it: the cells and their metadata, without outputs. */

import type { INotebookModel } from '@jupyterlab/notebook';
import type { INotebookContent } from '@jupyterlab/nbformat';

/**
 * Return the notebook without the outputs of its cells.
 *
 * Outputs never go along with a job, and those of a long notebook would take seconds to copy and to send.
 */
export function readContent(model: INotebookModel): INotebookContent {
  return {
    cells: Array.from(model.cells, cell => {
      const content = {
        id: cell.id,
        cell_type: cell.type,
        metadata: cell.metadata,
        source: cell.sharedModel.getSource()
      };
      return cell.type === 'code' ? { ...content, execution_count: null, outputs: [] } : content;
    }),
    metadata: { ...model.metadata },
    nbformat: model.nbformat,
    nbformat_minor: model.nbformatMinor
  };
}
