import { ICommandPalette } from '@jupyterlab/apputils';

import { definePlugin } from '../lifetime';
import { CommandIDs } from '../tokens';

/** The commands that need no job as an argument, in the command palette. */
export const palette = definePlugin({
  id: 'jupyter-gq:palette',
  description: 'Shows the commands about training in the command palette.',
  autoStart: true,
  optional: [ICommandPalette],
  activate: ({ owned, trans }, shown: ICommandPalette | null): void => {
    const category = trans.__('Training');
    for (const command of [CommandIDs.sendCell, CommandIDs.openPanel, CommandIDs.refresh]) {
      const item = shown?.addItem({ command, category });
      if (item !== undefined) {
        owned.add(item);
      }
    }
  }
});
