import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import { actOnJob } from '../acts';
import { findFailedCell, openNotebook, selectCell } from '../attach/locate';
import { hashSource } from '../bundle/hash';
import { isOfCells } from '../jobs';
import { definePlugin } from '../lifetime';
import { stripControls } from '../plain';
import { repeatJob } from '../send/again';
import { quoteName } from '../toasts';
import { CommandIDs, ISender, ITraining, JOB_ARGS } from '../tokens';
import type { JobView } from '../wire';

/**
 * The commands that send a job once more.
 *
 * See docs/decisions/0143-send-again-through-the-dialog.md.
 */
export const again = definePlugin({
  id: 'jupyter-gq:again',
  description: 'Sends the cells of a job again, with the settings of the job.',
  autoStart: true,
  requires: [ITraining, ISender],
  optional: [INotebookTracker],
  activate: (
    { app, owned, trans },
    training: ITraining,
    sender: ISender,
    tracker: INotebookTracker | null
  ): void => {
    const resender = new Resender(app, sender, tracker, trans);
    owned.add(
      app.commands.addCommand(CommandIDs.sendAgain, {
        label: trans.__('Send Job Again…'),
        describedBy: { args: JOB_ARGS },
        execute: args => actOnJob(training, args, trans, job => resender.sendAgain(job))
      })
    );
    owned.add(
      app.commands.addCommand(CommandIDs.fixAndResend, {
        label: trans.__('Fix and Send Job Again…'),
        describedBy: { args: JOB_ARGS },
        execute: args => actOnJob(training, args, trans, job => resender.fixAndResend(job))
      })
    );
  }
});

/** The ways from a job that has ended to the dialog that sends its cells again. */
class Resender {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _sender: ISender,
    private readonly _tracker: INotebookTracker | null,
    private readonly _trans: TranslationBundle
  ) {}

  /** Open the notebook of the job and the dialog. */
  async sendAgain(job: JobView): Promise<void> {
    const panel = await this._open(job);
    if (panel !== null) {
      await this._send(panel, job);
    }
  }

  /** Go to the cell that failed. If no cell has changed since, let the user correct it first; else open the dialog. */
  async fixAndResend(job: JobView): Promise<void> {
    const panel = await this._open(job);
    if (panel === null) {
      return;
    }
    const failed = findFailedCell(panel, job);
    if (failed >= 0) {
      await selectCell(panel, failed);
    }
    if (failed < 0 || hasChanged(panel, job)) {
      await this._send(panel, job);
      return;
    }
    panel.content.mode = 'edit';
    this._offer(job);
  }

  private async _send(panel: NotebookPanel, job: JobView): Promise<void> {
    this._withdrawOffer(job);
    await this._sender.send(panel, repeatJob(job, this._trans));
  }

  /** Offer in a notification, which stays, to send the job once the cell is corrected. */
  private _offer(job: JobView): void {
    this._withdrawOffer(job);
    const message = this._trans.__('Correct the cell, then send %1 again.', quoteName(job.name));
    const action = {
      label: this._trans.__('Send again'),
      callback: (): void => void this._app.commands.execute(CommandIDs.sendAgain, { job: job.id })
    };
    this._offered.set(job.id, Notification.info(message, { autoClose: false, actions: [action] }));
  }

  private _withdrawOffer(job: JobView): void {
    const offer = this._offered.get(job.id);
    if (offer !== undefined) {
      Notification.dismiss(offer);
      this._offered.delete(job.id);
    }
  }

  /** Open the notebook of a job. Raises an error if the job did not come from a notebook that exists. */
  private async _open(job: JobView): Promise<NotebookPanel | null> {
    if (!isOfCells(job)) {
      throw new Error(
        this._trans.__(
          '%1 was not sent from cells of a notebook. Send it again from where it came.',
          quoteName(stripControls(job.name))
        )
      );
    }
    return openNotebook(this._app, this._tracker, job, this._trans);
  }

  /** Ids of the notifications that offer to send a job again. */
  private readonly _offered = new Map<string, string>();
}

/** Return whether a target cell of the job has another source than the one that was sent. */
function hasChanged(panel: NotebookPanel, job: JobView): boolean {
  const sent = new Map(job.targets.map(target => [target.cell_id, target.source_hash]));
  return Array.from(panel.model?.cells ?? []).some(
    model => sent.has(model.id) && sent.get(model.id) !== hashSource(model.sharedModel.getSource())
  );
}
