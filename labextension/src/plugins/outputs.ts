import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import type { Refusal } from '../attach/cell';
import { JOB_MIME } from '../attach/metadata';
import type { ISurroundings } from '../attach/notebook';
import { NotebookBindings } from '../attach/notebook';
import { JobRenderer } from '../attach/renderer';
import { JobStream } from '../attach/stream';
import { readSettings } from '../settings';
import { CommandIDs, ICellOutputs, ITraining } from '../tokens';
import type { JobView } from '../wire';

/** Puts the output of jobs under their cells, and finds them again when a notebook is opened. */
export const outputs: JupyterFrontEndPlugin<ICellOutputs> = {
  id: 'jupyter-gq:outputs',
  description: 'Puts the output of jobs under their cells.',
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry, ITraining],
  optional: [ISettingRegistry],
  provides: ICellOutputs,
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    training: ITraining,
    registry: ISettingRegistry | null
  ): ICellOutputs => {
    rendermime.addFactory(
      { safe: true, mimeTypes: [JOB_MIME], createRenderer: () => new JobRenderer(training, app.commands) },
      0
    );
    const bindings = bindAll(tracker, surroundings(app, training));
    return {
      begin: async (panel: NotebookPanel, job: JobView): Promise<void> => {
        const settings = await readSettings(registry);
        await bindings.get(panel)?.begin(job, settings.saveOnSend);
      }
    };
  }
};

function surroundings(app: JupyterFrontEnd, training: ITraining): ISurroundings {
  const streams = new Map<string, JobStream>();
  return {
    training,
    contents: app.serviceManager.contents,
    stream: (job: string): JobStream => {
      const known = streams.get(job) ?? new JobStream(after => training.client.outputs(job, after));
      streams.set(job, known);
      return known;
    },
    detached: (job, why) => {
      Notification.info(`${REASONS[why]} The output of “${job.name}” is kept with the job.`, {
        autoClose: 8000,
        actions: [
          {
            label: 'Show job',
            callback: () => void app.commands.execute(CommandIDs.showJob, { job: job.id })
          }
        ]
      });
    }
  };
}

const REASONS: Readonly<Record<Refusal | 'deleted', string>> = {
  edited: 'The cell was edited after it was sent, so its output is left as it is.',
  replaced: 'The cell now has output of its own.',
  deleted: 'The cell was deleted.',
  foreign: 'The cell does not belong to the job.'
};

function bindAll(tracker: INotebookTracker, around: ISurroundings): Map<NotebookPanel, NotebookBindings> {
  const bindings = new Map<NotebookPanel, NotebookBindings>();
  const bind = (panel: NotebookPanel): void => {
    if (!bindings.has(panel)) {
      bindings.set(panel, new NotebookBindings(panel, around));
      panel.disposed.connect(() => bindings.delete(panel));
    }
  };
  tracker.forEach(bind);
  tracker.widgetAdded.connect((_: unknown, panel: NotebookPanel) => bind(panel));
  NotebookActions.executionScheduled.connect((_: unknown, args: { notebook: Notebook; cell: Cell }) => {
    const panel = tracker.find(candidate => candidate.content === args.notebook);
    if (panel !== undefined) {
      bindings.get(panel)?.runsHere(args.cell.model.id);
    }
  });
  return bindings;
}
