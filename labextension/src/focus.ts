/** The way of the keyboard focus back to the notebook. */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

/** The place of the button to which a closed dialog gives the focus back: the next Enter there would send once more. */
const TOOLBAR = '.jp-Toolbar';
/** The line under a cell, whose buttons go away with the cancel of the job, and the keys of the notebook with them. */
const LINE = '.jp-gq-status-host';

/** Return whether a button of the notebook has the focus that stands in one of these places. */
function hasFocus(panel: NotebookPanel, places: string): boolean {
  const focused = document.activeElement;
  return panel.node.contains(focused) && (focused?.closest(places) ?? null) !== null;
}

/** Give the focus to the notebook's active cell. */
function focusNotebook(panel: NotebookPanel): void {
  if (document.activeElement instanceof HTMLElement) {
    // A button in the active cell counts as the cell's focus, which would stay there.
    document.activeElement.blur();
  }
  panel.content.activate();
}

/** Give the focus to the notebook's active cell if a button of the notebook's toolbar has it. */
export function leaveToolbar(panel: NotebookPanel): void {
  if (hasFocus(panel, TOOLBAR)) {
    focusNotebook(panel);
  }
}

/**
 * Ask the user for a confirmation and return it. If a button in the line under a cell asks, the notebook has the focus
 * afterwards, except if the user refuses and the button is still there.
 */
export async function confirmFromLine(
  tracker: INotebookTracker | null,
  confirm: () => Promise<boolean>
): Promise<boolean> {
  const panel = tracker?.currentWidget ?? null;
  const asksFromLine = panel !== null && hasFocus(panel, LINE);
  const isConfirmed = await confirm();
  // The line may have been drawn anew meanwhile: then the dialog had no button to give the focus back to.
  if (asksFromLine && (isConfirmed || !hasFocus(panel, LINE))) {
    focusNotebook(panel);
  }
  return isConfirmed;
}
