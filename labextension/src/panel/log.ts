import type { IRenderMime } from '@jupyterlab/rendermime';
import { MimeModel } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Debouncer } from '@lumino/polling';
import type { Message } from '@lumino/messaging';
import { PanelLayout, Widget } from '@lumino/widgets';

import { describeError } from '../client';
import { isFinal } from '../jobs';
import type { ITraining } from '../tokens';
import type { JobSummary } from '../wire';

/** Media type of text with terminal colours. */
export const LOG_MIME = 'application/vnd.jupyter.stdout';
/** Milliseconds during which events of a job lead to one request only. */
const PACE = 700;
/** Milliseconds between requests while a job runs without events: its log may grow all the same. */
const QUIET = 5_000;

/** Return a widget that chooses the task whose log is shown, for a job of several tasks. */
export function makeTaskChoice(view: LogView, tasks: number, trans: TranslationBundle): Widget {
  const choice = document.createElement('select');
  choice.setAttribute('aria-label', trans.__('Task'));
  choice.append(new Option(trans.__('All tasks'), ''));
  for (let task = 0; task < tasks; task++) {
    choice.append(new Option(trans.__('Task %1', task), String(task)));
  }
  choice.onchange = () => void view.showTask(choice.value === '' ? null : Number(choice.value));
  const widget = new Widget();
  widget.addClass('jp-gq-log-task');
  widget.node.append(choice);
  return widget;
}

/**
 * The end of a job's log, refreshed while the job runs and the log is visible.
 *
 * The view follows the end of the log unless the user has scrolled up.
 */
export class LogView extends Widget {
  constructor(
    readonly job: string,
    private readonly _training: ITraining,
    private readonly _text: IRenderMime.IRenderer,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-gq-log');
    this.node.tabIndex = 0;
    const layout = (this.layout = new PanelLayout());
    this._notice.addClass('jp-gq-log-notice');
    layout.addWidget(_text);
    layout.addWidget(this._notice);
    this._debouncer = new Debouncer(() => this.refresh(), PACE);
    _training.jobChanged.connect(this._onJob, this);
    _training.outputArrived.connect(this._onOutput, this);
    _training.resumed.connect(this._scheduleRefresh, this);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    window.clearInterval(this._ticker);
    this._training.jobChanged.disconnect(this._onJob, this);
    this._training.outputArrived.disconnect(this._onOutput, this);
    this._training.resumed.disconnect(this._scheduleRefresh, this);
    this._debouncer.dispose();
    super.dispose();
  }

  /** Show the log of one task, or with null the logs of all tasks. */
  showTask(task: number | null): Promise<void> {
    this._task = task;
    return this.refresh();
  }

  /** Fetch and show the log. A failure is shown in place of the notice. */
  async refresh(): Promise<void> {
    const task = this._task;
    try {
      const text = await this._training.client.getLog(this.job, task);
      if (task !== this._task) {
        return; // the user has chosen another task meanwhile
      }
      await this._showText(text);
      this._setNotice(text === '' ? this._trans.__('The log is empty so far.') : '');
    } catch (reason) {
      this._setNotice(this._trans.__('The log could not be read. %1', describeError(reason)));
    }
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._startRefreshing();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._startRefreshing();
  }

  protected onAfterHide(msg: Message): void {
    super.onAfterHide(msg);
    window.clearInterval(this._ticker);
  }

  private _startRefreshing(): void {
    void this.refresh();
    window.clearInterval(this._ticker);
    this._ticker = window.setInterval(() => {
      const job = this._training.state.jobs.find(known => known.id === this.job);
      if (job !== undefined && !isFinal(job.phase)) {
        this._scheduleRefresh();
      }
    }, QUIET);
  }

  private async _showText(text: string): Promise<void> {
    if (this.isDisposed) {
      return;
    }
    const { node } = this;
    const follows = node.scrollHeight - node.scrollTop - node.clientHeight < 40;
    await this._text.renderModel(new MimeModel({ data: { [LOG_MIME]: text } }));
    if (follows) {
      node.scrollTop = node.scrollHeight;
    }
  }

  private _setNotice(text: string): void {
    this._notice.node.textContent = text;
  }

  private _onJob(_: unknown, job: JobSummary): void {
    if (job.id === this.job) {
      this._scheduleRefresh();
    }
  }

  private _onOutput(_: unknown, notice: { job: string }): void {
    if (notice.job === this.job) {
      this._scheduleRefresh();
    }
  }

  private _scheduleRefresh(): void {
    if (this.isVisible && document.visibilityState === 'visible') {
      void this._debouncer.invoke();
    }
  }

  /** Task whose log is shown; null = all tasks. */
  private _task: number | null = null;
  private readonly _notice = new Widget({ node: document.createElement('p') });
  private readonly _debouncer: Debouncer;
  private _ticker: number | undefined;
}
