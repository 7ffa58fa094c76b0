import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import { describeUnused } from '../jobs';
import { connect, definePlugin } from '../lifetime';
import { StandingNotice } from '../notice';
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
    const notices = new UnusedNotices(app.commands, training, trans);
    owned.add(notices.shown);
    owned.add(connect(training.stateChanged, () => notices.update()));
    notices.update();
  }
});

/** The key in the storage of the browser under which the jobs are that have been told. */
const TOLD = 'jupyter-gq:unused-told';
/** Most jobs that the browser remembers: more do not hold unused GPUs at one time. */
const MOST_TOLD = 500;

/**
 * A single notification about all such jobs, so that a large sweep does not fill the screen. Each job is told once in a
 * browser, also if the page is loaded again, tomorrow or in another tab.
 */
class UnusedNotices {
  constructor(
    private readonly _commands: CommandRegistry,
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {}

  readonly shown = new StandingNotice();

  /** Tell of jobs that have not been told yet; withdraw the notification once all use their GPUs. */
  update(): void {
    const now = this._training.client.now;
    const jobs = this._training.state.jobs.filter(job => describeUnused(job, now, this._trans) !== '');
    if (jobs.length === 0) {
      this.shown.withdraw();
      return;
    }
    readTold().forEach(id => this._told.add(id)); // another tab may have told more
    const fresh = jobs.filter(job => !this._told.has(job.id));
    if (fresh.length > 0) {
      fresh.forEach(job => this._told.add(job.id));
      storeTold(this._told);
      this._tell(jobs, now);
    }
  }

  private _tell(jobs: readonly JobSummary[], now: number): void {
    const [first] = jobs;
    const trans = this._trans;
    const message =
      jobs.length === 1
        ? `${quoteName(first.name)}: ${describeUnused(first, now, trans)}`
        : trans.__('%1 running jobs have used no GPU for a while, although they hold some.', jobs.length);
    const show = (): void => void this._commands.execute(CommandIDs.showJob, { job: first.id });
    this.shown.show(fitToast(message), 'warning', [{ label: trans.__('Details'), callback: show }]);
  }

  private readonly _told = new Set<string>();
}

function readTold(): string[] {
  try {
    const stored: unknown = JSON.parse(window.localStorage.getItem(TOLD) ?? '[]');
    return Array.isArray(stored) ? stored.filter(id => typeof id === 'string') : [];
  } catch {
    return []; // the browser keeps nothing, or another program wrote there
  }
}

function storeTold(told: ReadonlySet<string>): void {
  try {
    window.localStorage.setItem(TOLD, JSON.stringify([...told].slice(-MOST_TOLD)));
  } catch {
    // The browser keeps nothing for this page: the next load tells the jobs again.
  }
}
