import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { Dialog, MainAreaWidget, Notification, showDialog, WidgetTracker } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { refreshIcon, ToolbarButton } from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { messageOf } from '../client';
import { trainIcon } from '../icons';
import { isCancellable } from '../jobs';
import { LOG_MIME, LogView } from '../panel/log';
import { CommandIDs, ITraining, JOB_ARGS, jobOf } from '../tokens';
import type { JobView } from '../wire';

/** What can be done with a job: the commands behind the buttons of the panel and of the line under a cell. */
export const jobs: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gq:jobs',
  description: 'Commands about one job: cancel, log, result, its cell.',
  autoStart: true,
  requires: [ITraining, IRenderMimeRegistry],
  optional: [ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    training: ITraining,
    rendermime: IRenderMimeRegistry,
    restorer: ILayoutRestorer | null
  ): void => {
    const about = (id: string, label: string, act: (job: JobView) => Promise<void>): void => {
      app.commands.addCommand(id, {
        label,
        describedBy: { args: JOB_ARGS },
        execute: args => withJob(training, args, act)
      });
    };
    about(CommandIDs.cancelJob, 'Cancel Job', job => cancel(training, job));
    about(CommandIDs.openResult, 'Open Result of Job', job => openResult(app, training, job));
    about(CommandIDs.goToCell, 'Go to Cell of Job', job => goToCell(app, job));
    addLog(app, training, rendermime, restorer);
  }
};

/** Looks the job up and does it; what goes wrong is said once, in a toast. */
async function withJob(
  training: ITraining,
  args: ReadonlyPartialJSONObject,
  act: (job: JobView) => Promise<void>
): Promise<void> {
  try {
    const job = await training.job(jobOf(args));
    if (job === null) {
      throw new Error('The scheduler does not know this job any more.');
    }
    await act(job);
  } catch (reason) {
    Notification.error(messageOf(reason), { autoClose: 8000 });
  }
}

async function cancel(training: ITraining, job: JobView): Promise<void> {
  if (!isCancellable(job)) {
    return;
  }
  const answer = await showDialog({
    title: `Cancel “${job.name}”?`,
    body: 'Its run ends and its place in the queue is given up. What it has printed so far is kept.',
    buttons: [Dialog.cancelButton({ label: 'Keep it' }), Dialog.warnButton({ label: 'Cancel job' })]
  });
  if (answer.button.accept) {
    training.learn(await training.client.cancel(job.id));
  }
}

async function openResult(app: JupyterFrontEnd, training: ITraining, job: JobView): Promise<void> {
  const path = await training.client.openResult(job.id);
  await app.commands.execute('docmanager:open', { path });
}

/** Opens the notebook and selects the cell; says so when either is gone. */
async function goToCell(app: JupyterFrontEnd, job: JobView): Promise<void> {
  try {
    await app.serviceManager.contents.get(job.notebook_path, { content: false });
  } catch {
    throw new Error(`${job.notebook_path} is not there any more. “Open result” shows what the job made.`);
  }
  const panel = (await app.commands.execute('docmanager:open', { path: job.notebook_path })) as
    NotebookPanel | undefined;
  if (panel === undefined) {
    return;
  }
  await panel.context.ready;
  const ids = new Set(job.targets.map(target => target.cell_id));
  const index = panel.content.widgets.findIndex(cell => ids.has(cell.model.id));
  if (index < 0) {
    throw new Error(
      `The cell is not in ${job.notebook_path} any more. “Open result” shows what the job made.`
    );
  }
  panel.content.deselectAll();
  panel.content.activeCellIndex = index;
  await panel.content.scrollToItem(index, 'smart');
}

function addLog(
  app: JupyterFrontEnd,
  training: ITraining,
  rendermime: IRenderMimeRegistry,
  restorer: ILayoutRestorer | null
): void {
  const tracker = new WidgetTracker<MainAreaWidget<LogView>>({ namespace: 'jupyter-gq-log' });
  app.commands.addCommand(CommandIDs.openLog, {
    label: 'Open Log of Job',
    describedBy: { args: JOB_ARGS },
    execute: args =>
      withJob(training, args, async job => {
        let widget = tracker.find(known => known.content.job === job.id);
        if (widget === undefined) {
          widget = logWidget(job, new LogView(job.id, training, rendermime.createRenderer(LOG_MIME)));
          await tracker.add(widget);
        }
        if (!widget.isAttached) {
          app.shell.add(widget, 'main', { mode: 'split-bottom' });
        }
        app.shell.activateById(widget.id);
      })
  });
  if (restorer !== null) {
    void restorer.restore(tracker, {
      command: CommandIDs.openLog,
      args: widget => ({ job: widget.content.job }),
      name: widget => widget.content.job
    });
  }
}

function logWidget(job: JobView, view: LogView): MainAreaWidget<LogView> {
  const widget = new MainAreaWidget({ content: view });
  widget.id = `jupyter-gq-log-${job.id}`;
  widget.title.label = `Log: ${job.name || job.id}`;
  widget.title.icon = trainIcon;
  widget.title.closable = true;
  view.node.setAttribute('role', 'log');
  view.node.setAttribute('aria-label', `Log of ${job.name}`);
  widget.toolbar.addItem(
    'refresh',
    new ToolbarButton({ icon: refreshIcon, tooltip: 'Read the log again', onClick: () => void view.renew() })
  );
  return widget;
}
