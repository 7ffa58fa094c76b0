import { Notification } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { describeError } from '../client';
import { panelIcon } from '../icons';
import { fitToast } from '../toasts';
import type { ILoadedVariables, ITraining } from '../tokens';
import { CommandIDs, commandOfAgain, PANEL_ID } from '../tokens';
import type { JobSummary } from '../wire';
import { TrainingPanel } from './panel';
import type { IJobActions } from './row';
import type { IManyActions } from './selection';

/** Milliseconds between two redraws of the ages. */
const TICK = 10_000;
/** Milliseconds during which changes are drawn together: events come in bursts. */
const BURST = 50;

/** The side panel, which is drawn only while it is visible. */
export class PanelWidget extends ReactWidget {
  constructor(
    private readonly _training: ITraining,
    loaded: ILoadedVariables,
    private readonly _commands: CommandRegistry,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.id = PANEL_ID;
    this.addClass('jp-gq-panel-host');
    this.title.icon = panelIcon;
    this.title.caption = _trans.__('Training');
    _training.stateChanged.connect(this._onState, this);
    this._actions = {
      cancel: job => this._run(CommandIDs.cancelJob, job),
      remove: job => void this._remove(job),
      hold: job => this._run(CommandIDs.holdJob, job),
      release: job => this._run(CommandIDs.releaseJob, job),
      openLog: job => this._run(CommandIDs.openLog, job),
      openResult: job => this._run(CommandIDs.openResult, job),
      goToCell: job => this._run(CommandIDs.goToCell, job),
      loadVariables: job => this._run(CommandIDs.loadResults, job),
      copyFiles: (job, path) => this._runOnFile(CommandIDs.copyFiles, job, path),
      openFile: (job, path) => this._runOnFile(CommandIDs.openFile, job, path),
      resend: job => this._run(commandOfAgain(job.phase), job),
      move: job => this._runOnMany(CommandIDs.moveJobs, [job]),
      change: job => this._run(CommandIDs.changeGpus, job),
      client: _training.client,
      loaded
    };
    this._many = {
      cancel: jobs => this._runOnMany(CommandIDs.cancelJobs, jobs),
      hold: jobs => this._runOnMany(CommandIDs.holdJobs, jobs),
      release: jobs => this._runOnMany(CommandIDs.releaseJobs, jobs),
      move: jobs => this._runOnMany(CommandIDs.moveJobs, jobs)
    };
  }

  dispose(): void {
    this._training.stateChanged.disconnect(this._onState, this);
    window.clearInterval(this._ticker);
    window.clearTimeout(this._burst);
    super.dispose();
  }

  /** Unfold one job, scroll it into view and focus it. */
  reveal(id: string): void {
    this._open = new Set([...this._open, id]);
    this.update();
    void this.renderPromise?.then(() => {
      const row = this.node.querySelector<HTMLElement>(`[data-job="${CSS.escape(id)}"]`);
      row?.scrollIntoView({ block: 'nearest' });
      row?.querySelector('button')?.focus();
    });
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._startTicking();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._startTicking();
  }

  private _startTicking(): void {
    window.clearInterval(this._ticker);
    this._ticker = window.setInterval(() => {
      if (document.visibilityState === 'visible') {
        this.update();
      }
    }, TICK);
    this._fill();
    this.update();
  }

  /** Fetch all jobs once they are looked at: what runs may be old, and a search should find everything. */
  private _fill(): void {
    const { loaded, next } = this._training.state;
    if (this._isFilling || !loaded || next === null) {
      return;
    }
    this._isFilling = true;
    // A failure leaves the button for older jobs, and the next look at the panel tries again.
    this._training.loadAll().then(
      () => (this._isFilling = false),
      () => undefined
    );
  }

  protected onAfterHide(msg: Message): void {
    super.onAfterHide(msg);
    window.clearInterval(this._ticker);
    this._isFilling = false;
  }

  protected render(): React.JSX.Element {
    return (
      <TrainingPanel
        state={this._training.state}
        now={Math.floor((this._training.client.now * 1000) / TICK) * (TICK / 1000)}
        open={this._open}
        loadingMore={this._loadingMore}
        actions={this._actions}
        many={this._many}
        trans={this._trans}
        onToggle={this._onToggle}
        onRefresh={() => void this._commands.execute(CommandIDs.refresh)}
        onCancelWaiting={() => void this._commands.execute(CommandIDs.cancelWaiting)}
        onMore={() => void this._loadMore()}
      />
    );
  }

  private _onState(): void {
    if (this.isVisible && this._burst === undefined) {
      this._burst = window.setTimeout(() => {
        this._burst = undefined;
        this._fill();
        this.update();
      }, BURST);
    }
  }

  private readonly _onToggle = (job: JobSummary): void => {
    const open = new Set(this._open);
    if (!open.delete(job.id)) {
      open.add(job.id);
    }
    this._open = open;
    this.update();
  };

  private async _loadMore(): Promise<void> {
    this._loadingMore = true;
    this.update();
    try {
      await this._training.loadMore();
    } catch (reason) {
      const problem = describeError(reason);
      const message = this._trans.__('Older jobs could not be fetched. %1', problem);
      Notification.error(fitToast(message), { autoClose: 5000 });
    } finally {
      this._loadingMore = false;
      this.update();
    }
  }

  private _run(command: string, job: JobSummary): void {
    void this._commands.execute(command, { job: job.id });
  }

  /**
   * Delete a job, after a question; its button goes away with the focus, which the row in its place then gets, unless the
   * user works elsewhere by then.
   */
  private async _remove(job: JobSummary): Promise<void> {
    const place = this._listRows().findIndex(row => row.dataset.job === job.id);
    await this._commands.execute(CommandIDs.deleteJob, { job: job.id });
    window.clearTimeout(this._burst);
    this._burst = undefined;
    MessageLoop.sendMessage(this, Widget.Msg.UpdateRequest);
    await this.renderPromise;
    const rows = this._listRows();
    if (this._mayTakeFocus() && rows.every(row => row.dataset.job !== job.id)) {
      const following = rows[Math.min(place, rows.length - 1)] as HTMLElement | undefined;
      (following ?? this.node).querySelector<HTMLElement>('.jp-gq-row-line, .jp-gq-icon-button')?.focus();
    }
  }

  /** Return whether nothing else on the page has the focus. */
  private _mayTakeFocus(): boolean {
    const focused = document.activeElement;
    return focused === null || focused === document.body || this.node.contains(focused);
  }

  private _listRows(): HTMLElement[] {
    return Array.from(this.node.querySelectorAll<HTMLElement>('[data-job]'));
  }

  private _runOnFile(command: string, job: JobSummary, path?: string): void {
    void this._commands.execute(command, path === undefined ? { job: job.id } : { job: job.id, path });
  }

  private _runOnMany(command: string, jobs: readonly JobSummary[]): void {
    void this._commands.execute(command, { jobs: jobs.map(job => job.id) });
  }

  private readonly _actions: IJobActions;
  private readonly _many: IManyActions;
  private _open: ReadonlySet<string> = new Set();
  private _loadingMore = false;
  private _isFilling = false;
  private _ticker: number | undefined;
  private _burst: number | undefined;
}
