import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { describeError } from '../client';
import { definePlugin } from '../lifetime';
import { canKeep, formatKept, formatWarning } from '../live/share';
import { dismissDrawn } from '../notice';
import { formatClock, formatCountdown, formatSpan } from '../times';
import { fitToast } from '../toasts';
import { CommandIDs, ITraining, NO_ARGS } from '../tokens';
import type { NotebookView } from '../wire';

/** The warning before an idle notebook loses its share: a notification and a status item that count down. */
export const countdown = definePlugin({
  id: 'jupyter-gq:countdown',
  description: 'Warns before an idle notebook loses its share, and keeps the share on request.',
  autoStart: true,
  requires: [ITraining],
  optional: [IStatusBar],
  activate: ({ app, owned, trans }, training: ITraining, bar: IStatusBar | null): void => {
    const isWarned = (): boolean => (training.notebookHere?.warning ?? null) !== null;
    owned.add(
      app.commands.addCommand(CommandIDs.keepShare, {
        label: trans.__('Keep GPU Share'),
        describedBy: { args: NO_ARGS },
        isEnabled: isWarned,
        execute: () => keepShare(training, trans)
      })
    );
    let redraw = (): void => undefined;
    if (bar !== null) {
      const item = new CountdownItem(training, trans, () => void app.commands.execute(CommandIDs.openPanel));
      const changed = new Signal<CountdownItem, void>(item);
      redraw = (): void => {
        item.update();
        changed.emit();
      };
      // The status bar disposes the item with its registration.
      owned.add(
        bar.registerStatusItem('jupyter-gq:countdown', {
          item,
          align: 'left',
          rank: 5,
          priority: 10,
          isActive: isWarned,
          activeStateChanged: changed
        })
      );
    }
    owned.add(new Warner(app, training, trans, redraw));
  }
});

/** Keep the share of this server for longer, and tell the user until when. */
async function keepShare(training: ITraining, trans: TranslationBundle): Promise<void> {
  try {
    const notebook = await training.client.keepShare();
    training.recordNotebook(notebook);
    Notification.success(formatKept(notebook, training.client.now, trans), { autoClose: 4000 });
  } catch (reason) {
    Notification.error(fitToast(describeError(reason)), { autoClose: 8000 });
  }
}

/** The notification of the idle warning, from the first warning until it is withdrawn. */
class Warner implements IDisposable {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle,
    /** Called each second while there is a warning, and once when it is withdrawn. */
    private readonly _onTick: () => void
  ) {
    _training.stateChanged.connect(this._onState, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._training.stateChanged.disconnect(this._onState, this);
    window.clearInterval(this._ticker);
    if (this._toast !== null) {
      Notification.dismiss(this._toast);
    }
  }

  private _onState(): void {
    const warning = this._training.notebookHere?.warning ?? null;
    const expires = warning?.expire_at ?? null;
    if (expires === this._expires) {
      return;
    }
    const isNew = this._expires === null && expires !== null;
    this._expires = expires;
    window.clearInterval(this._ticker);
    if (expires === null) {
      this._withdraw();
    } else {
      if (this._toast !== null && !Notification.manager.has(this._toast)) {
        // The user closed the warning of another time: the new one may tell of a greater loss.
        this._toast = null;
      }
      if (isNew) {
        this._saveAll();
      }
      this._show();
      this._ticker = window.setInterval(() => this._show(), 1000);
    }
    this._onTick();
  }

  private _show(): void {
    const notebook = this._training.notebookHere;
    if (notebook === null || notebook.warning === null) {
      return;
    }
    const message = formatWarning(notebook, this._training.client.now, this._trans);
    const actions = this._makeActions(notebook);
    if (this._toast !== null && Notification.manager.has(this._toast)) {
      Notification.update({ id: this._toast, message, actions, autoClose: false });
    } else if (this._toast === null) {
      this._toast = Notification.warning(message, { autoClose: false, actions });
    }
    this._onTick();
  }

  private _makeActions(notebook: NotebookView): Notification.IAction[] {
    if (!canKeep(notebook)) {
      return [];
    }
    return [
      {
        label: this._trans.__('Keep it'),
        caption: this._trans.__(
          'Keeps your share for %1 longer.',
          formatSpan(notebook.warning?.keep_seconds ?? 0)
        ),
        displayType: 'accent',
        callback: event => {
          event.preventDefault();
          void this._app.commands.execute(CommandIDs.keepShare);
        }
      }
    ];
  }

  private _withdraw(): void {
    if (this._toast !== null) {
      dismissDrawn(this._toast);
      this._toast = null;
    }
  }

  /** Save all documents: unsaved edits must not be lost with the server. */
  private _saveAll(): void {
    const { commands } = this._app;
    if (commands.hasCommand('docmanager:save-all')) {
      commands
        .execute('docmanager:save-all')
        .catch((reason: unknown) => console.warn('jupyter-gq: saving failed', reason));
    }
  }

  private _expires: number | null = null;
  private _toast: string | null = null;
  private _ticker: number | undefined;
  private _isDisposed = false;
}

/** The status item that counts down to the end of the share. */
class CountdownItem extends ReactWidget {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle,
    private readonly _onClick: () => void
  ) {
    super();
    this.addClass('jp-mod-highlighted');
  }

  protected render(): React.JSX.Element | null {
    const warning = this._training.notebookHere?.warning ?? null;
    if (warning === null) {
      return null;
    }
    const now = this._training.client.now;
    return (
      <button
        type="button"
        className="jp-gq-status-item jp-gq-mod-warning"
        aria-label={this._trans.__('Idle warning')}
        title={`${this._trans.__('Your share is taken at %1.', formatClock(warning.expire_at, now))} ${warning.sentence}`}
        onClick={this._onClick}
      >
        {this._trans.__('Share taken in %1', formatCountdown(warning.expire_at - now))}
      </button>
    );
  }
}
