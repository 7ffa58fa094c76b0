import { Notification } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';

/** Milliseconds after which a notification, or a change of it, is drawn. */
export const DRAWN = 100;

/** Remove a notification once it is drawn: JupyterLab would draw a later change of it anew, and it would stay. */
export function dismissDrawn(id: string): void {
  window.setTimeout(() => Notification.dismiss(id), DRAWN);
}

/** A notification that stays until it is replaced or withdrawn: the user may be away. */
export class StandingNotice implements IDisposable {
  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this.withdraw();
  }

  /** Show a message in place of the earlier one. */
  show(message: string, type: 'info' | 'warning', actions: Notification.IAction[] = []): void {
    this.withdraw();
    this._id = Notification.emit(message, type, { autoClose: false, actions });
  }

  /** Remove the notification, if one is shown. */
  withdraw(): void {
    if (this._id !== null) {
      Notification.dismiss(this._id);
      this._id = null;
    }
  }

  private _id: string | null = null;
  private _isDisposed = false;
}
