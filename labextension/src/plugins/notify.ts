import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { definePlugin } from '../lifetime';
import { connectNews, describeNews } from '../news';
import { readSettings } from '../settings';
import { fitToast, quoteName } from '../toasts';
import { CommandIDs, ITraining } from '../tokens';
import type { JobSummary } from '../wire';

/** The notifications about jobs that this page has seen before they were done, failed or paused. */
export const notify = definePlugin({
  id: 'jupyter-gq:notify',
  description: 'Notifies the user when a job is done, failed or was paused.',
  autoStart: true,
  requires: [ITraining],
  optional: [ISettingRegistry],
  activate: ({ app, owned, trans }, training: ITraining, registry: ISettingRegistry | null): void => {
    owned.add(connectNews(training, job => void notifyUser(app, registry, job, trans)));
  }
});

/** Notify the user of the job's new phase, if the settings ask for it. */
async function notifyUser(
  app: JupyterFrontEnd,
  registry: ISettingRegistry | null,
  job: JobSummary,
  trans: TranslationBundle
): Promise<void> {
  if (!(await readSettings(registry)).notifyWhenDone) {
    return;
  }
  const actions = [
    {
      label: trans.__('Go to cell'),
      callback: (): void => void app.commands.execute(CommandIDs.goToCell, { job: job.id })
    },
    {
      label: trans.__('Show job'),
      callback: (): void => void app.commands.execute(CommandIDs.showJob, { job: job.id })
    }
  ];
  const message = fitToast(`${quoteName(job.name)}: ${describeNews(job, trans)}`);
  switch (job.phase) {
    case 'done':
      Notification.success(message, { autoClose: 6000, actions });
      return;
    case 'failed':
      Notification.error(message, { autoClose: 10000, actions });
      return;
    default:
      Notification.info(message, { autoClose: 8000, actions });
  }
}
