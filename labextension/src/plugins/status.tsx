import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { shareText, shareTitle } from '../live/share';
import { CommandIDs, ITraining } from '../tokens';

/** Milliseconds: idleness is shown in minutes. */
const TICK = 15_000;

/** "GPU 0.5 · idle 12 min" in the status bar; a click shows the panel. */
export const status: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gq:status',
  description: 'Shows the share of this notebook server in the status bar.',
  autoStart: true,
  requires: [ITraining],
  optional: [IStatusBar],
  activate: (app: JupyterFrontEnd, training: ITraining, bar: IStatusBar | null): void => {
    if (bar === null) {
      return;
    }
    const item = new ShareItem(training, () => void app.commands.execute(CommandIDs.openPanel));
    const changed = new Signal<ShareItem, void>(item);
    training.stateChanged.connect(() => changed.emit());
    bar.registerStatusItem('jupyter-gq:share', {
      item,
      align: 'left',
      rank: 4,
      isActive: () => training.here !== null,
      activeStateChanged: changed
    });
  }
};

class ShareItem extends ReactWidget {
  constructor(
    private readonly _training: ITraining,
    private readonly _onClick: () => void
  ) {
    super();
    this.addClass('jp-mod-highlighted');
    _training.stateChanged.connect(() => this.update());
    this._ticker = window.setInterval(() => {
      if (document.visibilityState === 'visible') {
        this.update();
      }
    }, TICK);
  }

  dispose(): void {
    window.clearInterval(this._ticker);
    super.dispose();
  }

  protected render(): React.JSX.Element | null {
    const notebook = this._training.here;
    if (notebook === null) {
      return null;
    }
    const now = Date.now() / 1000;
    return (
      <button
        type="button"
        className="jp-gq-status-item"
        title={shareTitle(notebook)}
        aria-label={`GPU share: ${shareText(notebook, now)}`}
        onClick={this._onClick}
      >
        {shareText(notebook, now)}
      </button>
    );
  }

  private readonly _ticker: number;
}
