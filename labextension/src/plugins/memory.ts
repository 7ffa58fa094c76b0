import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import { definePlugin } from '../lifetime';
import { formatExcess } from '../live/share';
import { ITraining } from '../tokens';

/** The notifications of each step against a share that holds more GPU memory than its limit. */
export const memory = definePlugin({
  id: 'jupyter-gq:memory',
  description: 'Notifies the user when the programs of this server hold more GPU memory than its share.',
  autoStart: true,
  requires: [ITraining],
  activate: ({ owned, trans }, training: ITraining): void => {
    owned.add(new MemoryNotices(training, trans));
  }
});

class MemoryNotices implements IDisposable {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {
    _training.stateChanged.connect(this._onState, this);
    this._onState();
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
    // An earlier release of the service does not send the field.
    const excess = notebook?.over_limit ?? null;
    const step = excess === null ? '' : excess.done;
    if (step === this._step) {
      return;
    }
    this._step = step;
    this._withdraw();
    if (excess !== null) {
      const message = formatExcess(excess, Date.now() / 1000, this._trans);
      // Stays until the next step, or until enough memory is free: the user may be away.
      this._toast = Notification.warning(message, { autoClose: false });
    }
  }

  private _withdraw(): void {
    if (this._toast !== null) {
      Notification.dismiss(this._toast);
      this._toast = null;
    }
  }

  private _step = '';
  private _toast: string | null = null;
  private _isDisposed = false;
}
