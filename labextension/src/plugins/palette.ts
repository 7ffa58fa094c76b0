import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';

import { CommandIDs } from '../tokens';

/** What can be done without pointing at a job, in the palette, where there is one. */
export const palette: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gq:palette',
  description: 'Commands about training in the command palette.',
  autoStart: true,
  optional: [ICommandPalette],
  activate: (_app: JupyterFrontEnd, shown: ICommandPalette | null): void => {
    for (const command of [CommandIDs.sendCell, CommandIDs.openPanel, CommandIDs.refresh]) {
      shown?.addItem({ command, category: 'Training' });
    }
  }
};
