import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import { definePlugin } from '../lifetime';
import { formatSuspension } from '../live/share';
import { ITraining } from '../tokens';
import type { NotebookView } from '../wire';

/** The notifications that the share of an idle notebook was lent, and that the share is back. */
export const lending = definePlugin({
  id: 'jupyter-gq:lending',
  description: 'Notifies the user when the share of an idle notebook is lent, and when the share is back.',
  autoStart: true,
  requires: [ITraining],
  activate: ({ owned, trans }, training: ITraining): void => {
    owned.add(new LendingNotices(training, trans));
  }
});

class LendingNotices implements IDisposable {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {
    _training.stateChanged.connect(this._onState, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._training.stateChanged.disconnect(this._onState, this);
    this._withdraw();
  }

  private _onState(): void {
    const notebook = this._training.notebookHere;
    const known = this._known;
    this._known = notebook;
    if (notebook === null || notebook.id !== known?.id) {
      this._withdraw();
      return;
    }
    if (isLent(notebook) && !isLent(known)) {
      // Stays until the share is back: the user may be away for hours.
      this._toast = Notification.info(formatSuspension(notebook, this._trans), { autoClose: false });
    } else if (isLent(known) && !isLent(notebook)) {
      this._withdraw();
      if (notebook.phase === 'running') {
        Notification.success(this._trans.__('Your GPU is back.'), { autoClose: 6000 });
      }
    }
  }

  private _withdraw(): void {
    if (this._toast !== null) {
      Notification.dismiss(this._toast);
      this._toast = null;
    }
  }

  private _known: NotebookView | null = null;
  private _toast: string | null = null;
  private _isDisposed = false;
}

/** Return whether the share of a notebook is lent or on its way back. */
function isLent(notebook: NotebookView): boolean {
  return notebook.phase === 'suspended' || notebook.phase === 'resuming';
}
