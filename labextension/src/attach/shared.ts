/**
 * The outputs of a cell in a shared document, which other pages show too.
 *
 * JupyterLab's cell model shows a change that another page made correctly only if the change is at the end: what is
 * inserted is appended, and text is changed in the last output.
 */

import type { ICodeCellModel } from '@jupyterlab/cells';
import type { CellChange, ISharedCodeCell } from '@jupyter/ydoc';
import type { IOutput } from '@jupyterlab/nbformat';
import { JSONExt } from '@lumino/coreutils';
import type { Signal } from '@lumino/signaling';

import type { Step } from '../outputs';
import { planSteps } from '../outputs';

/** Return the changes that turn `present` into `wanted`, each of which other pages show correctly. */
export function planSharedSteps(present: readonly IOutput[], wanted: readonly IOutput[]): Step[] {
  const plan = planSteps(present, wanted);
  const isShown = (step: Step): boolean =>
    step.kind === 'add' || step.kind === 'rewrite' || step.index === present.length - 1;
  return plan.every(isShown) ? plan : [{ kind: 'rewrite', outputs: wanted }];
}

/** Let the model of a cell show the outputs of the shared document, where it shows others. Changes no document. */
export function showSharedOutputs(model: ICodeCellModel): void {
  const shared = model.sharedModel;
  const outputs = shared.getOutputs();
  const { length } = model.outputs;
  if (!JSONExt.deepEqual(model.outputs.toJSON(), outputs)) {
    // The model takes up what it is told as the change of another page.
    const change = { outputsChange: [{ delete: length }, { insert: outputs }] };
    (shared.changed as unknown as Signal<ISharedCodeCell, CellChange>).emit(change as CellChange);
  }
}

/** Run `change` on the outputs of a cell, so that other pages see all of it at once. */
export function changeAtOnce(model: ICodeCellModel, change: () => void): void {
  // The model has the change already: with this origin, the document does not tell it again.
  const { sharedModel } = model;
  (sharedModel.notebook ?? sharedModel).transact(change, false, 'silent-change');
}
