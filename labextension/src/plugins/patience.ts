import { Notification } from '@jupyterlab/apputils';
import { DisposableDelegate } from '@lumino/disposable';

import { connect, definePlugin } from '../lifetime';
import { dismissDrawn } from '../notice';
import { ITraining } from '../tokens';

/** The notification while the scheduler keeps this page waiting. */
export const patience = definePlugin({
  id: 'jupyter-gq:patience',
  description: 'Tells the user when the GPU scheduler takes seconds to answer.',
  autoStart: true,
  requires: [ITraining],
  activate: ({ owned, trans }, training: ITraining): void => {
    let shown: string | null = null;
    const remove = (by: (id: string) => void): void => {
      if (shown !== null) {
        by(shown);
        shown = null;
      }
    };
    owned.add(
      connect(training.client.slowChanged, (_, slow) => {
        remove(dismissDrawn);
        if (slow) {
          const message = trans.__(
            'The GPU scheduler has not answered for some seconds. This page is still waiting; running jobs continue.'
          );
          shown = Notification.emit(message, 'in-progress', { autoClose: false });
        }
      })
    );
    owned.add(new DisposableDelegate(() => remove(id => Notification.dismiss(id))));
  }
});
