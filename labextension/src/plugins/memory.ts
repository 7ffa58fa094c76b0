import type { TranslationBundle } from '@jupyterlab/translation';

import { connect, definePlugin } from '../lifetime';
import { formatExcess } from '../live/share';
import { StandingNotice } from '../notice';
import { ITraining } from '../tokens';

/** The notifications of each step against a share that holds more GPU memory than its limit. */
export const memory = definePlugin({
  id: 'jupyter-gq:memory',
  description: 'Notifies the user when the programs of this server hold more GPU memory than its share.',
  autoStart: true,
  requires: [ITraining],
  activate: ({ owned, trans }, training: ITraining): void => {
    const notices = new MemoryNotices(training, trans);
    owned.add(notices.shown);
    owned.add(connect(training.stateChanged, () => notices.update()));
    notices.update();
  }
});

class MemoryNotices {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {}

  readonly shown = new StandingNotice();

  /** Show the present step against the share, or nothing once enough memory is free. */
  update(): void {
    const notebook = this._training.notebookHere;
    // An earlier release of the service does not send the field.
    const excess = notebook?.over_limit ?? null;
    const step = excess === null ? '' : excess.done;
    if (step === this._step) {
      return;
    }
    this._step = step;
    if (excess === null) {
      this.shown.withdraw();
    } else {
      this.shown.show(formatExcess(excess, this._training.client.now, this._trans), 'warning');
    }
  }

  private _step = '';
}
