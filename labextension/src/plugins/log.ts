import type { JupyterFrontEnd } from '@jupyterlab/application';
import { ILabShell, ILayoutRestorer } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { refreshIcon, ToolbarButton } from '@jupyterlab/ui-components';
import { DisposableDelegate } from '@lumino/disposable';

import { actOnJob } from '../acts';
import { panelIcon } from '../icons';
import { definePlugin } from '../lifetime';
import { LOG_MIME, LogView } from '../panel/log';
import { makeLogDownload, makeLogSearch, makeTaskChoice } from '../panel/logtools';
import { CommandIDs, ITraining, JOB_ARGS } from '../tokens';
import type { JobView } from '../wire';

/** The logs of jobs, each in a widget of its own, which JupyterLab restores. */
export const log = definePlugin({
  id: 'jupyter-gq:log',
  description: 'Shows the logs of jobs.',
  autoStart: true,
  requires: [ITraining, IRenderMimeRegistry],
  optional: [ILayoutRestorer, ILabShell],
  activate: (
    { app, owned, trans, translator },
    training: ITraining,
    rendermime: IRenderMimeRegistry,
    restorer: ILayoutRestorer | null,
    lab: ILabShell | null
  ): void => {
    const logs = new WidgetTracker<MainAreaWidget<LogView>>({ namespace: 'jupyter-gq-log' });
    owned.add(new DisposableDelegate(() => logs.forEach(widget => widget.dispose())));
    owned.add(logs);
    // Notebook 7 shows one document in its main area, and nothing beside it.
    // See docs/decisions/0179-promise-notebook-7-and-click-in-it.md.
    const area = lab === null ? 'down' : 'main';
    const makeLog = (job: JobView): MainAreaWidget<LogView> => {
      const text = rendermime.createRenderer(LOG_MIME);
      const content = new LogView(job.id, training, text, trans);
      return addTools(new MainAreaWidget({ content, translator }), job, training, trans);
    };
    owned.add(
      app.commands.addCommand(CommandIDs.openLog, {
        label: trans.__('Open Log of Job'),
        describedBy: { args: JOB_ARGS },
        execute: args => actOnJob(training, args, trans, job => openLog(app, area, logs, job, makeLog))
      })
    );
    void restorer?.restore(logs, {
      command: CommandIDs.openLog,
      args: widget => ({ job: widget.content.job }),
      name: widget => widget.content.job
    });
  }
});

/** Show the log of a job: an open one, or a new one that `makeLog` makes, in that area of the page. */
async function openLog(
  app: JupyterFrontEnd,
  area: 'main' | 'down',
  logs: WidgetTracker<MainAreaWidget<LogView>>,
  job: JobView,
  makeLog: (job: JobView) => MainAreaWidget<LogView>
): Promise<void> {
  let widget = logs.find(known => known.content.job === job.id);
  if (widget === undefined) {
    widget = makeLog(job);
    await logs.add(widget);
  }
  if (!widget.isAttached) {
    app.shell.add(widget, area, { mode: 'split-bottom' });
  }
  app.shell.activateById(widget.id);
}

/** Give a widget with the log of a job its title, and its tools above the log; return the widget. */
function addTools(
  widget: MainAreaWidget<LogView>,
  job: JobView,
  training: ITraining,
  trans: TranslationBundle
): MainAreaWidget<LogView> {
  const view = widget.content;
  widget.id = `jupyter-gq-log-${job.id}`;
  widget.title.label = trans.__('Log: %1', job.name || job.id);
  widget.title.icon = panelIcon;
  widget.title.closable = true;
  view.node.setAttribute('role', 'log');
  view.node.setAttribute('aria-live', 'off'); // it is read anew every few seconds, and would be spoken as a whole
  view.node.setAttribute('aria-label', trans.__('Log of %1', job.name));
  widget.toolbar.addItem(
    'refresh',
    new ToolbarButton({
      icon: refreshIcon,
      tooltip: trans.__('Read the log again'),
      onClick: () => void view.refresh()
    })
  );
  if (job.tasks > 1) {
    widget.toolbar.addItem('task', makeTaskChoice(view, job.tasks, trans));
  }
  widget.toolbar.addItem('search', makeLogSearch(view, trans));
  widget.toolbar.addItem('download', makeLogDownload(view, training.client, trans));
  return widget;
}
