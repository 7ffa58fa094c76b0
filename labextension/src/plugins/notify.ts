import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import type { JobPhase } from '../jobs';
import { isFinal, summarizeJob } from '../jobs';
import { connect, definePlugin } from '../lifetime';
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
  activate: ({ app, owned }, training: ITraining, registry: ISettingRegistry | null): void => {
    const phases = new Map<string, JobPhase>();
    owned.add(
      connect(training.jobChanged, (_, job) => {
        const before = phases.get(job.id);
        phases.set(job.id, job.phase);
        if (before !== undefined && before !== job.phase && !isFinal(before)) {
          void notifyUser(app, registry, job);
        }
      })
    );
  }
});

/** Notify the user of the job's new phase, if the settings and the phase ask for it. */
async function notifyUser(
  app: JupyterFrontEnd,
  registry: ISettingRegistry | null,
  job: JobSummary
): Promise<void> {
  const isOfInterest = job.phase === 'done' || job.phase === 'failed' || job.phase === 'paused';
  if (!isOfInterest || !(await readSettings(registry)).notifyWhenDone) {
    return;
  }
  const actions = [
    {
      label: 'Go to cell',
      callback: (): void => void app.commands.execute(CommandIDs.goToCell, { job: job.id })
    },
    {
      label: 'Show job',
      callback: (): void => void app.commands.execute(CommandIDs.showJob, { job: job.id })
    }
  ];
  const text = job.phase === 'paused' ? job.sentence : summarizeJob(job, job.finished_at ?? job.submitted_at);
  const message = fitToast(`${quoteName(job.name)}: ${text}`);
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
