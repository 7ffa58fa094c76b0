import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import type { JobPhase } from '../jobs';
import { isFinal, summary } from '../jobs';
import { readSettings } from '../settings';
import { CommandIDs, ITraining } from '../tokens';
import type { JobView } from '../wire';

/** Tells when a job that this page knew under way is over, or was paused. */
export const notify: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gq:notify',
  description: 'Tells when a job is over or paused.',
  autoStart: true,
  requires: [ITraining],
  optional: [ISettingRegistry],
  activate: (app: JupyterFrontEnd, training: ITraining, registry: ISettingRegistry | null): void => {
    const phases = new Map<string, JobPhase>();
    training.jobChanged.connect((_, job) => {
      const before = phases.get(job.id);
      phases.set(job.id, job.phase);
      if (before !== undefined && before !== job.phase && !isFinal(before)) {
        void tell(app, registry, job);
      }
    });
  }
};

async function tell(app: JupyterFrontEnd, registry: ISettingRegistry | null, job: JobView): Promise<void> {
  const told = job.phase === 'done' || job.phase === 'failed' || job.phase === 'paused';
  if (!told || !(await readSettings(registry)).notifyWhenDone) {
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
  const text = job.phase === 'paused' ? job.sentence : summary(job, job.finished_at ?? job.submitted_at);
  const message = `“${job.name}”: ${text}`;
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
