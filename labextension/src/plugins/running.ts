import { IRunningSessionManagers } from '@jupyterlab/running';
import type { IRunningSessions } from '@jupyterlab/running';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { LabIcon } from '@jupyterlab/ui-components';
import { closeIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ISignal } from '@lumino/signaling';

import { cancelAll } from '../acts';
import { panelIcon } from '../icons';
import { describeAmount, describeJob, isFinal, lookOf } from '../jobs';
import { definePlugin } from '../lifetime';
import { nameNotebooks } from '../panel/listing';
import { CommandIDs, ITraining } from '../tokens';
import type { JobSummary } from '../wire';

/** The jobs that are not over, in JupyterLab's panel of what runs. */
export const running = definePlugin({
  id: 'jupyter-gq:running',
  description: 'Lists the jobs that wait or run beside the terminals and kernels of JupyterLab.',
  autoStart: true,
  requires: [ITraining],
  optional: [IRunningSessionManagers],
  activate: ({ app, owned, trans }, training: ITraining, managers: IRunningSessionManagers | null): void => {
    if (managers !== null) {
      owned.add(managers.add(new RunningJobs(app.commands, training, trans)));
    }
  }
});

/** A section of that panel. */
class RunningJobs implements IRunningSessions.IManager {
  constructor(
    private readonly _commands: CommandRegistry,
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {
    this.name = _trans.__('Training jobs');
    this.shutdownLabel = _trans.__('Cancel job');
    this.shutdownAllLabel = _trans.__('Cancel all jobs');
  }

  readonly name: string;
  readonly shutdownLabel: string;
  readonly shutdownAllLabel: string;
  readonly shutdownItemIcon: LabIcon = closeIcon;

  readonly shutdownAllConfirmationText = (): string =>
    this._trans._n(
      'The job stops and loses its place in the queue. The output so far is kept.',
      '%1 jobs stop and lose their places in the queue. The output so far is kept.',
      this._listJobs().length
    );

  get runningChanged(): ISignal<unknown, unknown> {
    return this._training.stateChanged;
  }

  running(): IRunningSessions.IRunningItem[] {
    const jobs = this._listJobs();
    const notebooks = nameNotebooks(jobs);
    return jobs.map(job => this._makeItem(job, notebooks.get(job.notebook_path) ?? ''));
  }

  /** Fetch the jobs again, also old ones that may still run. A failure appears in the state, or leaves the list as it is. */
  refreshRunning(): void {
    void this._training.refresh().then(() => this._training.loadAll().catch(() => undefined));
  }

  /** Cancel all listed jobs: the panel has asked the user. */
  shutdownAll(): void {
    const ids = this._listJobs().map(job => job.id);
    void cancelAll(this._training, ids, this._trans);
  }

  private _listJobs(): JobSummary[] {
    return this._training.state.jobs.filter(job => !isFinal(job.phase));
  }

  private _makeItem(job: JobSummary, notebook: string): IRunningSessions.IRunningItem {
    const trans = this._trans;
    const name = job.name || trans.__('Unnamed job');
    return {
      label: () => (notebook === '' ? name : `${name} · ${notebook}`),
      labelTitle: () =>
        [
          name,
          notebook,
          describeAmount(job, trans),
          lookOf(job, trans).word,
          describeJob(job, this._training.client.now, trans)
        ]
          .filter(part => part !== '')
          .join('\n'),
      // The panel is narrow: one word fits.
      detail: () => lookOf(job, trans).word,
      icon: () => panelIcon,
      open: () => void this._commands.execute(CommandIDs.showJob, { job: job.id }),
      // The command asks, and says what happens.
      shutdown: () => void this._commands.execute(CommandIDs.cancelJob, { job: job.id })
    };
  }
}
