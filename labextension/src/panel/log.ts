import type { IRenderMime } from '@jupyterlab/rendermime';
import { MimeModel } from '@jupyterlab/rendermime';
import { Debouncer } from '@lumino/polling';
import type { Message } from '@lumino/messaging';
import { PanelLayout, Widget } from '@lumino/widgets';

import { messageOf } from '../client';
import { isFinal } from '../jobs';
import type { ITraining } from '../tokens';
import type { JobView } from '../wire';

const STDOUT = 'application/vnd.jupyter.stdout';
/** Milliseconds: news of a job within that time make one request. */
const PACE = 700;
/** Milliseconds between requests while a job runs that sends no news (a quiet log of a busy job). */
const QUIET = 5_000;

/** The end of a job's log, renewed while the job goes on and the log is seen. It follows the end unless scrolled up. */
export class LogView extends Widget {
  constructor(
    readonly job: string,
    private readonly _training: ITraining,
    private readonly _text: IRenderMime.IRenderer
  ) {
    super();
    this.addClass('jp-gq-log');
    this.node.tabIndex = 0;
    const layout = (this.layout = new PanelLayout());
    this._notice.addClass('jp-gq-log-notice');
    layout.addWidget(_text);
    layout.addWidget(this._notice);
    this._renewal = new Debouncer(() => this.renew(), PACE);
    _training.jobChanged.connect(this._onJob, this);
    _training.outputArrived.connect(this._onOutput, this);
    _training.resumed.connect(this._later, this);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    window.clearInterval(this._ticker);
    this._training.jobChanged.disconnect(this._onJob, this);
    this._training.outputArrived.disconnect(this._onOutput, this);
    this._training.resumed.disconnect(this._later, this);
    this._renewal.dispose();
    super.dispose();
  }

  /** Asks for the log again. */
  async renew(): Promise<void> {
    try {
      const text = await this._training.client.log(this.job);
      await this._show(text);
      this._say(text === '' ? 'The log is empty so far.' : '');
    } catch (reason) {
      this._say(`The log could not be read. ${messageOf(reason)}`);
    }
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._begin();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._begin();
  }

  protected onAfterHide(msg: Message): void {
    super.onAfterHide(msg);
    window.clearInterval(this._ticker);
  }

  private _begin(): void {
    void this.renew();
    window.clearInterval(this._ticker);
    this._ticker = window.setInterval(() => {
      const job = this._training.state.jobs.find(known => known.id === this.job);
      if (job !== undefined && !isFinal(job.phase)) {
        this._later();
      }
    }, QUIET);
  }

  private async _show(text: string): Promise<void> {
    if (this.isDisposed) {
      return;
    }
    const { node } = this;
    const follows = node.scrollHeight - node.scrollTop - node.clientHeight < 40;
    await this._text.renderModel(new MimeModel({ data: { [STDOUT]: text } }));
    if (follows) {
      node.scrollTop = node.scrollHeight;
    }
  }

  private _say(text: string): void {
    this._notice.node.textContent = text;
  }

  private _onJob(_: unknown, job: JobView): void {
    if (job.id === this.job) {
      this._later();
    }
  }

  private _onOutput(_: unknown, news: { job: string }): void {
    if (news.job === this.job) {
      this._later();
    }
  }

  private _later(): void {
    if (this.isVisible && document.visibilityState === 'visible') {
      void this._renewal.invoke();
    }
  }

  private readonly _notice = new Widget({ node: document.createElement('p') });
  private readonly _renewal: Debouncer;
  private _ticker: number | undefined;
}

/** Renders text with terminal colours. */
export const LOG_MIME = STDOUT;
