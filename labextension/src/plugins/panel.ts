import { ILayoutRestorer } from '@jupyterlab/application';

import { actOnJob } from '../acts';
import { panelIcon } from '../icons';
import { definePlugin } from '../lifetime';
import { PanelWidget } from '../panel/widget';
import { CommandIDs, ILoadedVariables, ITraining, JOB_ARGS, NO_ARGS, PANEL_ID } from '../tokens';

/** The side panel with the user's notebooks and jobs. */
export const panel = definePlugin({
  id: 'jupyter-gq:panel',
  description: 'Lists the notebooks and jobs of the user.',
  autoStart: true,
  requires: [ITraining, ILoadedVariables],
  optional: [ILayoutRestorer],
  activate: (
    { app, owned, trans },
    training: ITraining,
    loaded: ILoadedVariables,
    restorer: ILayoutRestorer | null
  ): void => {
    const { commands, shell } = app;
    const widget = new PanelWidget(training, loaded, commands, trans);
    owned.add(widget);
    shell.add(widget, 'right', { rank: 600, type: 'Training' });
    restorer?.add(widget, PANEL_ID);
    owned.add(
      commands.addCommand(CommandIDs.openPanel, {
        label: trans.__('Show Training Panel'),
        caption: trans.__('Your notebooks and jobs'),
        icon: panelIcon,
        describedBy: { args: NO_ARGS },
        execute: () => shell.activateById(PANEL_ID)
      })
    );
    owned.add(
      commands.addCommand(CommandIDs.showJob, {
        label: trans.__('Show Details of Job'),
        describedBy: { args: JOB_ARGS },
        execute: async args => {
          shell.activateById(PANEL_ID);
          await actOnJob(training, args, trans, job => {
            if (training.state.jobs.every(({ id }) => id !== job.id)) {
              training.recordJob(job); // an old one that has ended
            }
            widget.reveal(job.id);
            return Promise.resolve();
          });
        }
      })
    );
    owned.add(
      commands.addCommand(CommandIDs.refresh, {
        label: trans.__('Refresh Jobs and Notebooks'),
        describedBy: { args: NO_ARGS },
        execute: () => training.refresh()
      })
    );
  }
});
