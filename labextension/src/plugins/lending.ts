import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { connect, definePlugin } from '../lifetime';
import { formatSuspension } from '../live/share';
import { StandingNotice } from '../notice';
import { ITraining } from '../tokens';
import type { NotebookView } from '../wire';

/** The notifications that the share of an idle notebook was lent, and that the share is back. */
export const lending = definePlugin({
  id: 'jupyter-gq:lending',
  description: 'Notifies the user when the share of an idle notebook is lent, and when the share is back.',
  autoStart: true,
  requires: [ITraining],
  activate: ({ owned, trans }, training: ITraining): void => {
    const notices = new LendingNotices(training, trans);
    owned.add(notices.shown);
    owned.add(connect(training.stateChanged, () => notices.update()));
  }
});

class LendingNotices {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {}

  readonly shown = new StandingNotice();

  /** Tell that the share was lent until it is back, and then that it is back. */
  update(): void {
    const notebook = this._training.notebookHere;
    const known = this._known;
    this._known = notebook;
    if (notebook === null || notebook.id !== known?.id) {
      this.shown.withdraw();
      return;
    }
    if (isLent(notebook) && !isLent(known)) {
      this.shown.show(formatSuspension(notebook, this._trans), 'info');
    } else if (isLent(known) && !isLent(notebook)) {
      this.shown.withdraw();
      if (notebook.phase === 'running') {
        Notification.success(this._trans.__('Your GPU is back.'), { autoClose: 6000 });
      }
    }
  }

  private _known: NotebookView | null = null;
}

/** Return whether the share of a notebook is lent or on its way back. */
function isLent(notebook: NotebookView): boolean {
  return notebook.phase === 'suspended' || notebook.phase === 'resuming';
}
