import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';

import { trainIcon } from '../icons';
import { PanelWidget } from '../panel/widget';
import { CommandIDs, ITraining, JOB_ARGS, jobOf, PANEL_ID } from '../tokens';

/** The side panel with the user's notebooks and jobs. */
export const panel: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gq:panel',
  description: 'Lists the notebooks and jobs of the user.',
  autoStart: true,
  requires: [ITraining],
  optional: [ILayoutRestorer],
  activate: (app: JupyterFrontEnd, training: ITraining, restorer: ILayoutRestorer | null): void => {
    const widget = new PanelWidget(training, app.commands);
    app.shell.add(widget, 'right', { rank: 600, type: 'Training' });
    restorer?.add(widget, PANEL_ID);
    app.commands.addCommand(CommandIDs.openPanel, {
      label: 'Show Training Panel',
      caption: 'Your notebooks and jobs',
      icon: trainIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => app.shell.activateById(PANEL_ID)
    });
    app.commands.addCommand(CommandIDs.showJob, {
      label: 'Show Job',
      describedBy: { args: JOB_ARGS },
      execute: async args => {
        const job = await training.job(jobOf(args));
        if (job !== null) {
          training.learn(job);
        }
        app.shell.activateById(PANEL_ID);
        widget.reveal(jobOf(args));
      }
    });
    app.commands.addCommand(CommandIDs.refresh, {
      label: 'Refresh Jobs and Notebooks',
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => training.refresh()
    });
  }
};
