import { IStatusBar } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { connect, definePlugin } from '../lifetime';
import { describeShare, formatShare } from '../live/share';
import { CommandIDs, ITraining } from '../tokens';

/** Milliseconds between two redraws: idle times are shown in minutes. */
const TICK = 15_000;

/** The status item with the share of this notebook server; a click on it shows the panel. */
export const status = definePlugin({
  id: 'jupyter-gq:status',
  description: 'Shows the share of this notebook server in the status bar.',
  autoStart: true,
  requires: [ITraining],
  optional: [IStatusBar],
  activate: ({ app, owned, trans }, training: ITraining, bar: IStatusBar | null): void => {
    if (bar === null) {
      return;
    }
    const item = new ShareItem(training, trans, () => {
      void app.commands.execute(CommandIDs.openPanel);
    });
    const changed = new Signal<ShareItem, void>(item);
    owned.add(connect(training.stateChanged, () => changed.emit()));
    // The status bar disposes the item with its registration.
    owned.add(
      bar.registerStatusItem('jupyter-gq:share', {
        item,
        align: 'left',
        rank: 4,
        isActive: () => training.notebookHere !== null,
        activeStateChanged: changed
      })
    );
  }
});

class ShareItem extends ReactWidget {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle,
    private readonly _onClick: () => void
  ) {
    super();
    this.addClass('jp-mod-highlighted');
    _training.stateChanged.connect(this._onState, this);
    this._ticker = window.setInterval(() => {
      if (document.visibilityState === 'visible') {
        this.update();
      }
    }, TICK);
  }

  dispose(): void {
    this._training.stateChanged.disconnect(this._onState, this);
    window.clearInterval(this._ticker);
    super.dispose();
  }

  protected render(): React.JSX.Element | null {
    const notebook = this._training.notebookHere;
    if (notebook === null) {
      return null;
    }
    const share = formatShare(notebook, this._training.client.now, this._trans);
    return (
      <button
        type="button"
        className="jp-gq-status-item"
        title={describeShare(notebook, this._trans)}
        aria-label={this._trans.__('GPU share: %1', share)}
        onClick={this._onClick}
      >
        {share}
      </button>
    );
  }

  private _onState(): void {
    this.update();
  }

  private readonly _ticker: number;
}
