/** The runs of cells in the kernel of their own notebook, while a job runs the same cells elsewhere. */

import { CodeCell } from '@jupyterlab/cells';
import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { KernelMessage } from '@jupyterlab/services';
import { DisposableSet } from '@lumino/disposable';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { connect, NotebookAttachments } from '../lifetime';

/**
 * Show no further output of a run of this cell in the kernel of the notebook, as the outputs of a job take their place.
 * JupyterLab would write both into one text. Outputs may arrive even after the answer that ends the run.
 * The next run of the cell shows its outputs again. Does nothing for a cell that was not run by this page.
 */
export function muteLocalRun(cell: Cell | undefined): void {
  const future = cell instanceof CodeCell ? findFuture(cell) : null;
  if (future) {
    future.onIOPub = () => undefined;
    future.onReply = () => undefined; // It would add the text of a pager.
  }
}

/** The runs here of the cells that are sent: one of them runs now, or they only wait for the kernel. */
export type LocalRunState = 'running' | 'waiting';

/** The runs here of the cells of one dialog. */
export interface ILocalRun {
  /** Null if none of the cells runs or waits here. */
  readonly state: LocalRunState | null;
  readonly changed: ISignal<unknown, void>;
}

/**
 * The cells that run in the kernels of the open notebooks.
 *
 * JupyterLab says of a cell that waits for the kernel, too, that it is running. The kernel announces each request that it
 * begins, whoever made it, such as a console with the same kernel.
 *
 * See docs/decisions/0490-interrupt-only-what-the-kernel-has-begun.md.
 */
export class LocalRuns implements IDisposable {
  constructor(tracker: INotebookTracker) {
    const begun = new NotebookAttachments(tracker, panel =>
      connect(panel.sessionContext.iopubMessage, (_, message) => this._onMessage(panel, message))
    );
    const ended = connect(NotebookActions.executed as ISignal<unknown, unknown>, () => this._changed.emit());
    this._owned = DisposableSet.from([begun, ended]);
  }

  get isDisposed(): boolean {
    return this._owned.isDisposed;
  }

  dispose(): void {
    this._owned.dispose();
  }

  /**
   * Return the state of the runs here of the cells with these ids, which is computed at each read.
   * `changed` is emitted when a run of any cell begins or ends in an open notebook; read `state` again then.
   */
  watch(panel: NotebookPanel, ids: readonly string[]): ILocalRun {
    const findState = (): LocalRunState | null => this._findState(panel, ids);
    return {
      get state() {
        return findState();
      },
      changed: this._changed
    };
  }

  private _findState(panel: NotebookPanel, ids: readonly string[]): LocalRunState | null {
    const cells = panel.content.widgets.filter(
      (cell): cell is CodeCell =>
        cell instanceof CodeCell && ids.includes(cell.model.id) && cell.model.executionState === 'running'
    );
    const present = this._requests.get(panel) ?? '';
    if (cells.some(cell => findFuture(cell)?.msg.header.msg_id === present)) {
      return 'running';
    }
    return cells.length === 0 ? null : 'waiting';
  }

  private _onMessage(panel: NotebookPanel, message: KernelMessage.IMessage): void {
    if (message.header.msg_type === 'execute_input' && 'msg_id' in message.parent_header) {
      this._requests.set(panel, message.parent_header.msg_id);
      this._changed.emit();
    }
  }

  /** The request that the kernel of each notebook has begun last. */
  private readonly _requests = new WeakMap<NotebookPanel, string>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _owned: DisposableSet;
}

/**
 * Return the last run of a cell by this page; null or undefined if there was none, as after a reload. In a shared notebook,
 * a cell also counts as running if another page, or the server, runs it.
 */
function findFuture(cell: CodeCell): CodeCell['outputArea']['future'] | null | undefined {
  return cell.outputArea.future;
}
