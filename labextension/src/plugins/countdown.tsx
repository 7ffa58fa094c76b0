import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { messageOf } from '../client';
import { keepLabel, warningText } from '../live/share';
import { clock, countdown, span } from '../times';
import { CommandIDs, ITraining } from '../tokens';
import type { NotebookView } from '../wire';

/** Warns before an idle notebook loses its share: a toast and a status item that count down to an absolute time. */
export const countdownPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gq:countdown',
  description: 'Warns before an idle notebook loses its share, and keeps it.',
  autoStart: true,
  requires: [ITraining],
  optional: [IStatusBar],
  activate: (app: JupyterFrontEnd, training: ITraining, bar: IStatusBar | null): void => {
    app.commands.addCommand(CommandIDs.keepShare, {
      label: 'Keep GPU Share',
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => (training.here?.warning ?? null) !== null,
      execute: () => keep(training)
    });
    const warner = new Warner(app, training);
    if (bar !== null) {
      const item = new CountdownItem(training, () => void app.commands.execute(CommandIDs.openPanel));
      const changed = new Signal<CountdownItem, void>(item);
      warner.ticked.connect(() => {
        item.update();
        changed.emit();
      });
      bar.registerStatusItem('jupyter-gq:countdown', {
        item,
        align: 'left',
        rank: 5,
        priority: 10,
        isActive: () => (training.here?.warning ?? null) !== null,
        activeStateChanged: changed
      });
    }
  }
};

async function keep(training: ITraining): Promise<void> {
  try {
    const notebook = await training.client.keep();
    training.learnNotebook(notebook);
    const seconds = notebook.warning === null ? null : notebook.warning.expire_at - Date.now() / 1000;
    Notification.success(
      seconds === null ? 'Your share is kept.' : `Your share is kept for ${span(seconds)} more.`,
      { autoClose: 4000 }
    );
  } catch (reason) {
    Notification.error(messageOf(reason), { autoClose: 8000 });
  }
}

/** Shows, renews and withdraws the toast. */
class Warner {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _training: ITraining
  ) {
    _training.stateChanged.connect(this._onState, this);
  }

  /** Each second while there is a warning, and once when it is withdrawn. */
  readonly ticked = new Signal<Warner, void>(this);

  private _onState(): void {
    const warning = this._training.here?.warning ?? null;
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
      if (isNew) {
        this._saveAll();
      }
      this._show();
      this._ticker = window.setInterval(() => this._show(), 1000);
    }
    this.ticked.emit();
  }

  private _show(): void {
    const notebook = this._training.here;
    if (notebook === null || notebook.warning === null) {
      return;
    }
    const message = warningText(notebook, Date.now() / 1000);
    const actions = this._actions(notebook);
    if (this._toast !== null && Notification.manager.has(this._toast)) {
      Notification.update({ id: this._toast, message, actions, autoClose: false });
    } else if (this._toast === null) {
      this._toast = Notification.warning(message, { autoClose: false, actions });
    }
    this.ticked.emit();
  }

  private _actions(notebook: NotebookView): Notification.IAction[] {
    const label = keepLabel(notebook);
    if (label === null) {
      return [];
    }
    const caption = `Keeps your share ${span(notebook.warning?.keep_seconds ?? 0)} longer.`;
    return [
      {
        label,
        caption,
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
      Notification.dismiss(this._toast);
      this._toast = null;
    }
  }

  /** What is on the screen must not be lost with the server. */
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
}

class CountdownItem extends ReactWidget {
  constructor(
    private readonly _training: ITraining,
    private readonly _onClick: () => void
  ) {
    super();
    this.addClass('jp-mod-highlighted');
  }

  protected render(): React.JSX.Element | null {
    const warning = this._training.here?.warning ?? null;
    if (warning === null) {
      return null;
    }
    const now = Date.now() / 1000;
    return (
      <button
        type="button"
        className="jp-gq-status-item jp-gq-mod-warning"
        aria-label="Idle warning"
        title={`Your GPU share is taken at ${clock(warning.expire_at, now)}. Run a cell, or choose "Keep it".`}
        onClick={this._onClick}
      >
        Share taken in {countdown(warning.expire_at - now)}
      </button>
    );
  }
}
