import type { IRenderMime } from '@jupyterlab/rendermime';
import { MimeModel } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Debouncer } from '@lumino/polling';
import type { Message } from '@lumino/messaging';
import { PanelLayout, Widget } from '@lumino/widgets';

import { describeError } from '../client';
import { describeUnknown, isFinal } from '../jobs';
import { describeFound, describeShown, LogSearch } from '../logs';
import type { ITraining } from '../tokens';
import type { JobLog, JobSummary } from '../wire';

/** Media type of text with terminal colours. */
export const LOG_MIME = 'application/vnd.jupyter.stdout';
/** Milliseconds during which events of a job lead to one request only. */
const PACE = 700;
/** Milliseconds between requests while a job runs without events: its log may grow all the same. */
const QUIET = 5_000;

/**
 * The end of a job's log, refreshed while the job runs and the log is visible; or the lines with a text.
 *
 * The view follows the end of the log unless the user has scrolled up. Lines that were found stay as they are.
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
    this._more.hide();
    this._more.node.textContent = _trans.__('Search on');
    this._more.addClass('jp-gq-log-more');
    this._more.addClass('jp-mod-styled');
    this._more.node.onclick = () => void this.searchOn();
    layout.addWidget(this._more);
    this._debouncer = new Debouncer(() => this.refresh(), PACE);
    _training.stateChanged.connect(this._onState, this);
    _training.jobChanged.connect(this._onJob, this);
    _training.outputArrived.connect(this._onOutput, this);
    _training.resumed.connect(this._scheduleRefresh, this);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    window.clearInterval(this._ticker);
    this._training.stateChanged.disconnect(this._onState, this);
    this._training.jobChanged.disconnect(this._onJob, this);
    this._training.outputArrived.disconnect(this._onOutput, this);
    this._training.resumed.disconnect(this._scheduleRefresh, this);
    this._debouncer.dispose();
    super.dispose();
  }

  /** The task whose log is shown; null = all tasks. */
  get task(): number | null {
    return this._task;
  }

  /** Show the log of one task, or with null the logs of all tasks; a search begins again. */
  showTask(task: number | null): Promise<void> {
    this._task = task;
    return this._search === null ? this.refresh() : this.search(this._search.text);
  }

  /** Show the lines of the whole log with this text; with "", show the end of the log again. */
  async search(text: string): Promise<void> {
    this._search = null;
    this._more.hide();
    if (text === '') {
      return this.refresh();
    }
    const search = (this._search = new LogSearch(this._training.client, this.job, text, this._task));
    await this._showFound(search);
  }

  /** Look for more lines with the text. */
  async searchOn(): Promise<void> {
    if (this._search !== null) {
      await this._showFound(this._search);
    }
  }

  /** Fetch and show the end of the log, unless lines with a text are shown. A failure is shown in place of the notice. */
  async refresh(): Promise<void> {
    const task = this._task;
    const { client } = this._training;
    if (this._search !== null) {
      return;
    }
    try {
      const asked = client.getLogSize(this.job).catch(() => null); // an older service: the log is shown all the same
      const [text, size] = [await client.getLog(this.job, task), await asked];
      if (task !== this._task || this._search !== null) {
        return; // the user has chosen something else meanwhile
      }
      await this._show(text, this._describe(text, size));
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
      const { available, jobs } = this._training.state;
      const job = jobs.find(known => known.id === this.job);
      // During an outage there is nothing to ask; its end leads to a refresh.
      if (available !== false && job !== undefined && !isFinal(job.phase)) {
        this._scheduleRefresh();
      }
    }, QUIET);
  }

  /** Search on, and show all lines that were found so far. */
  private async _showFound(search: LogSearch): Promise<void> {
    this._more.hide();
    this._setNotice(this._trans.__('Searching the whole log…'));
    try {
      await search.searchOn();
      if (search === this._search) {
        await this._show(search.lines.join('\n'), describeFound(search, this._trans));
      }
    } catch (reason) {
      if (search === this._search) {
        this._setNotice(this._trans.__('The log could not be searched. %1', describeError(reason)));
      }
    }
    this._more.setHidden(search !== this._search || search.isOver || this._isUnknown());
  }

  private _describe(text: string, size: JobLog | null): string {
    if (text === '') {
      return this._trans.__('The log is empty so far.');
    }
    return size === null ? '' : describeShown(text, size, this._task, this._trans);
  }

  /** Show a text and the notice below it; a view that follows the end has the notice in sight. */
  private async _show(text: string, notice: string): Promise<void> {
    if (this.isDisposed) {
      return;
    }
    const follows = this._isAtEnd();
    await this._text.renderModel(new MimeModel({ data: { [LOG_MIME]: text } }));
    this._setNotice(notice);
    this._follow(follows);
  }

  /** Show a notice below the text; if the job was deleted, that it was: the text stays, and cannot be read again. */
  private _setNotice(text: string): void {
    const follows = this._isAtEnd();
    const isUnknown = this._isUnknown();
    // What a search finds is spoken, and not how long a running job's log is by now.
    this._notice.node.setAttribute('aria-live', this._search === null && !isUnknown ? 'off' : 'polite');
    const notice = isUnknown
      ? this._trans.__('%1 Its log cannot be read any more.', describeUnknown(this._trans))
      : text;
    if (this._notice.node.textContent !== notice) {
      this._notice.node.textContent = notice;
    }
    this._follow(follows);
  }

  private _isAtEnd(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = this.node;
    return scrollHeight - scrollTop - clientHeight < 40;
  }

  private _follow(follows: boolean): void {
    if (follows) {
      this.node.scrollTop = this.node.scrollHeight;
    }
  }

  private _onState(): void {
    if (this._isUnknown()) {
      this._setNotice('');
    }
  }

  private _isUnknown(): boolean {
    return this._training.state.unknown.has(this.job);
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
  /** The search whose lines are shown; null = the end of the log is shown. */
  private _search: LogSearch | null = null;
  private readonly _more = new Widget({ node: document.createElement('button') });
  private readonly _notice = new Widget({ node: document.createElement('p') });
  private readonly _debouncer: Debouncer;
  private _ticker: number | undefined;
}
