import { Client } from '../client';
import { definePlugin } from '../lifetime';
import { Training } from '../live/training';
import { ITraining } from '../tokens';

/** The live view that all other plugins read. */
export const training = definePlugin({
  id: 'jupyter-gq:training',
  description: 'Keeps a live view of the jobs, notebooks and queues of the user.',
  autoStart: true,
  provides: ITraining,
  activate: ({ app, owned }): ITraining => {
    const client = new Client(app.serviceManager.serverSettings);
    const live = new Training(client, app.serviceManager.events);
    owned.add(live);
    return live;
  }
});
