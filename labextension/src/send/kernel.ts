/** The wait for the kernel of a notebook that was just opened. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import { PromiseDelegate } from '@lumino/coreutils';

/** Milliseconds that a kernel is waited for which is on its way: JupyterLab does not tell one that never comes. */
const PATIENCE = 10_000;

/**
 * Wait until the kernel of a notebook is there, if one is on its way.
 *
 * Returns without one if the notebook has none: it was opened without a kernel, its kernel is not installed and the user
 * has chosen no other one, it does not start, or the notebook is closed meanwhile.
 */
export async function waitForKernel(panel: NotebookPanel): Promise<void> {
  const { sessionContext, disposed } = panel;
  const over = new PromiseDelegate<void>();
  const end = (): void => over.resolve();
  const timer = window.setTimeout(end, PATIENCE);
  disposed.connect(end);
  // JupyterLab has begun this already; what it asks for is a choice of the user, for which nothing waits here.
  const begun = sessionContext.initialize().then(
    needsChoice => (needsChoice && sessionContext.hasNoKernel ? undefined : sessionContext.ready),
    () => over.promise
  );
  await Promise.race([sessionContext.ready, begun, over.promise]);
  window.clearTimeout(timer);
  disposed.disconnect(end);
}
