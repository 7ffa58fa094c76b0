import { ILayoutRestorer } from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { panelIcon } from '../icons';
import { definePlugin } from '../lifetime';
import { PanelWidget } from '../panel/widget';
import { CommandIDs, ITraining, JOB_ARGS, NO_ARGS, PANEL_ID, readJobId } from '../tokens';

/** The side panel with the user's notebooks and jobs. */
export const panel = definePlugin({
  id: 'jupyter-gq:panel',
  description: 'Lists the notebooks and jobs of the user.',
  autoStart: true,
  requires: [ITraining],
  optional: [ILayoutRestorer, ITranslator],
  activate: (
    { app, owned },
    training: ITraining,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ): void => {
    const { commands, shell } = app;
    const widget = new PanelWidget(training, commands, translator ?? nullTranslator);
    owned.add(widget);
    shell.add(widget, 'right', { rank: 600, type: 'Training' });
    restorer?.add(widget, PANEL_ID);
    owned.add(
      commands.addCommand(CommandIDs.openPanel, {
        label: 'Show Training Panel',
        caption: 'Your notebooks and jobs',
        icon: panelIcon,
        describedBy: { args: NO_ARGS },
        execute: () => shell.activateById(PANEL_ID)
      })
    );
    owned.add(
      commands.addCommand(CommandIDs.showJob, {
        label: 'Show Job',
        describedBy: { args: JOB_ARGS },
        execute: async args => {
          const job = await training.findJob(readJobId(args));
          if (job !== null) {
            training.recordJob(job);
          }
          shell.activateById(PANEL_ID);
          widget.reveal(readJobId(args));
        }
      })
    );
    owned.add(
      commands.addCommand(CommandIDs.refresh, {
        label: 'Refresh Jobs and Notebooks',
        describedBy: { args: NO_ARGS },
        execute: () => training.refresh()
      })
    );
  }
});
