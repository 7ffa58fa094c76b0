/** The way of the keyboard focus back to the notebook. */

import type { NotebookPanel } from '@jupyterlab/notebook';

/** Where a button stands that a closed dialog gives the focus back to: the next Enter there would send once more. */
export const TOOLBAR = '.jp-Toolbar';
/** The line under a cell, whose buttons go away with the cancel of the job, and the keys of the notebook with them. */
export const LINE = '.jp-gq-status-host';

/** Give the focus to the notebook's active cell if a button of the notebook has it that stands in one of these places. */
export function focusNotebook(panel: NotebookPanel, places: string): void {
  const focused = document.activeElement;
  if (focused instanceof HTMLElement && panel.node.contains(focused) && focused.closest(places) !== null) {
    // A button in the active cell counts as the cell's focus, which would stay there.
    focused.blur();
    panel.content.activate();
  }
}
