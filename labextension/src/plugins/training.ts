import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { Client } from '../client';
import { Training } from '../live/training';
import { ITraining } from '../tokens';

/** The live view that all other plugins read. */
export const training: JupyterFrontEndPlugin<ITraining> = {
  id: 'jupyter-gq:training',
  description: 'Keeps a live view of the jobs, notebooks and queues of the user.',
  autoStart: true,
  provides: ITraining,
  activate: (app: JupyterFrontEnd): ITraining =>
    new Training(new Client(app.serviceManager.serverSettings), app.serviceManager.events)
};
