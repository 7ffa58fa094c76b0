/** The way of the keyboard focus back from the dialog to the notebook. */

import type { NotebookPanel } from '@jupyterlab/notebook';

/**
 * Give the focus to the notebook's active cell if a closed dialog has given it back to a button of a toolbar: the next
 * Enter there would send once more.
 */
export function focusNotebook(panel: NotebookPanel): void {
  const focused = document.activeElement;
  if (
    focused instanceof HTMLElement &&
    panel.node.contains(focused) &&
    focused.closest('.jp-Toolbar') !== null
  ) {
    // A button in the active cell counts as the cell's focus, which would stay there.
    focused.blur();
    panel.content.activate();
  }
}
