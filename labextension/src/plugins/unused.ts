import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';

import { describeUnused } from '../jobs';
import { definePlugin } from '../lifetime';
import { fitToast, quoteName } from '../toasts';
import { CommandIDs, ITraining } from '../tokens';
import type { JobSummary } from '../wire';

/** The notification of running jobs that have used no GPU for a while. */
export const unused = definePlugin({
  id: 'jupyter-gq:unused',
  description: 'Notifies the user when a job has used none of its GPUs for a while.',
  autoStart: true,
  requires: [ITraining],
  activate: ({ app, owned, trans }, training: ITraining): void => {
    owned.add(new UnusedNotices(app.commands, training, trans));
  }
});

/** One notification about all such jobs, so that a large sweep does not fill the screen. Each job is told once. */
class UnusedNotices implements IDisposable {
  constructor(
    private readonly _commands: CommandRegistry,
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {
    _training.stateChanged.connect(this._onState, this);
    this._onState();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._training.stateChanged.disconnect(this._onState, this);
    this._withdraw();
  }

  private _onState(): void {
    const now = Date.now() / 1000;
    const jobs = this._training.state.jobs.filter(job => describeUnused(job, now, this._trans) !== '');
    const keys = jobs.map(job => `${job.id} ${job.unused_gpu?.since}`);
    const isNew = keys.some(key => !this._told.has(key));
    this._told = new Set(keys);
    if (isNew) {
      this._withdraw();
      this._toast = this._tell(jobs, now);
    } else if (jobs.length === 0) {
      this._withdraw();
    }
  }

  /** Show the notification; it stays until the user closes it or the jobs use their GPUs: the user may be away. */
  private _tell(jobs: readonly JobSummary[], now: number): string {
    const [first] = jobs;
    const trans = this._trans;
    const message =
      jobs.length === 1
        ? `${quoteName(first.name)}: ${describeUnused(first, now, trans)}`
        : trans.__('%1 running jobs have used no GPU for a while, although they hold some.', jobs.length);
    const show = (): void => void this._commands.execute(CommandIDs.showJob, { job: first.id });
    return Notification.warning(fitToast(message), {
      autoClose: false,
      actions: [{ label: trans.__('Show job'), callback: show }]
    });
  }

  private _withdraw(): void {
    if (this._toast !== null) {
      Notification.dismiss(this._toast);
      this._toast = null;
    }
  }

  private _told: ReadonlySet<string> = new Set();
  private _toast: string | null = null;
  private _isDisposed = false;
}
