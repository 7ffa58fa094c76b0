import { Dialog } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Debouncer } from '@lumino/polling';
import * as React from 'react';

import type { IPrefix, IPrefixEntry } from '../bundle/prefix';
import { chosen } from '../bundle/prefix';
import { messageOf, RequestError } from '../client';
import type { JobView, JobRequest, PoolView, PrefixCell, Preview, Problem, QueueView } from '../wire';
import type { IAsked } from './asked';
import { poolOf, requestOf } from './asked';
import { SendForm } from './form';

/** Milliseconds between the last change and the question what would happen. */
const PREVIEW_DELAY = 200;

export interface ISendOptions {
  readonly asked: IAsked;
  readonly queues: readonly QueueView[];
  readonly pools: readonly PoolView[];
  readonly largest: string;
  /** Sources of the target cells. */
  readonly targets: readonly string[];
  readonly prefix: IPrefix;
  readonly notes: readonly string[];
  /** Further notes; refused where sending would be. */
  check(): Promise<string[]>;
  preview(request: JobRequest): Promise<Preview>;
  send(request: JobRequest, prefix: PrefixCell[]): Promise<JobView>;
}

interface IFormState {
  readonly asked: IAsked;
  readonly entries: readonly IPrefixEntry[];
  readonly preview: Preview | null;
  readonly problem: Problem | null;
  readonly notes: readonly string[];
  readonly sending: boolean;
}

/** Keeps what was entered until the job is accepted: a refusal is shown in place, and nothing is lost. */
class SendBody extends ReactWidget {
  constructor(private readonly _options: ISendOptions) {
    super();
    this.addClass('jp-gq-send-body');
    const { asked, prefix, notes } = _options;
    this._state = { asked, entries: prefix.entries, preview: null, problem: null, notes, sending: false };
    this._asking = new Debouncer(() => this._ask(), PREVIEW_DELAY);
    void this._ask();
    void this._check();
  }

  /** The accepted job; null before. */
  get job(): JobView | null {
    return this._job;
  }

  get asked(): IAsked {
    return this._state.asked;
  }

  dispose(): void {
    this._asking.dispose();
    super.dispose();
  }

  /** True when the job was accepted. */
  async submit(): Promise<boolean> {
    if (this._state.sending) {
      return false;
    }
    void this._asking.stop();
    const request = this._request();
    if (isProblem(request)) {
      this._set({ preview: null, problem: request });
      return false;
    }
    this._set({ sending: true, problem: null });
    try {
      this._job = await this._options.send(request, chosen(this._state.entries));
      return true;
    } catch (reason) {
      this._set({ sending: false, problem: problemOf(reason) });
      return false;
    }
  }

  protected render(): React.JSX.Element {
    const { queues, pools, largest, targets, prefix } = this._options;
    return (
      <SendForm
        {...this._state}
        queues={queues}
        pools={pools}
        largest={largest}
        targets={targets}
        prefix={prefix}
        onAsked={asked => {
          if (this._state.sending) {
            return;
          }
          this._set({ asked, problem: null });
          void this._asking.invoke();
        }}
        onEntries={entries => this._set({ entries })}
      />
    );
  }

  private async _ask(): Promise<void> {
    const { asked } = this._state;
    const request = this._request();
    if (isProblem(request)) {
      this._set({ preview: null, problem: request });
      return;
    }
    let news: Partial<IFormState>;
    try {
      news = { preview: await this._options.preview(request) };
    } catch (reason) {
      news = { preview: null, problem: problemOf(reason) };
    }
    // Only the answer to what is entered now counts.
    if (!this.isDisposed && asked === this._state.asked && !this._state.sending) {
      this._set(news);
    }
  }

  private async _check(): Promise<void> {
    try {
      const notes = await this._options.check();
      if (!this.isDisposed) {
        this._set({ notes: [...this._state.notes, ...notes] });
      }
    } catch (reason) {
      if (!this.isDisposed && reason instanceof RequestError && reason.status === 422) {
        this._set({ problem: reason.problem });
      }
    }
  }

  /** What is asked for now, or what is wrong with it. */
  private _request(): JobRequest | Problem {
    const { asked } = this._state;
    const queue = this._options.queues.find(known => known.name === asked.queue);
    return requestOf(asked, poolOf(queue, this._options.pools)?.models ?? []);
  }

  private _set(news: Partial<IFormState>): void {
    this._state = { ...this._state, ...news };
    this.update();
  }

  private _state: IFormState;
  private _job: JobView | null = null;
  private readonly _asking: Debouncer;
}

function isProblem(request: JobRequest | Problem): request is Problem {
  return 'code' in request;
}

function problemOf(reason: unknown): Problem {
  return reason instanceof RequestError
    ? reason.problem
    : { code: 'unexpected', message: messageOf(reason), field: null };
}

/** A dialog that closes when the job was accepted, or by Cancel. */
export class SendDialog extends Dialog<unknown> {
  constructor(options: ISendOptions) {
    const body = new SendBody(options);
    super({
      title: 'Send to training',
      body,
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Send to training' })],
      focusNodeSelector: '#jp-gq-send-name'
    });
    this._form = body;
    this.addClass('jp-gq-send-dialog');
    this.node.setAttribute('aria-label', 'Send to training');
  }

  /** The accepted job and what was asked for; null when the user gave up. */
  async ask(): Promise<{ job: JobView; asked: IAsked } | null> {
    await this.launch();
    const { job, asked } = this._form;
    return job === null ? null : { job, asked };
  }

  /** A button inside the form is pressed by Enter, as every button; elsewhere Enter sends. */
  handleEvent(event: Event): void {
    const enter = event instanceof KeyboardEvent && event.type === 'keydown' && event.key === 'Enter';
    if (enter && event.target instanceof HTMLButtonElement && this._form.node.contains(event.target)) {
      return;
    }
    super.handleEvent(event);
  }

  resolve(index = SEND): void {
    if (index !== SEND) {
      super.resolve(index);
      return;
    }
    this._busy(true);
    void this._form.submit().then(accepted => {
      this._busy(false);
      if (accepted) {
        super.resolve(index);
      }
    });
  }

  private _busy(busy: boolean): void {
    const button = this.node.querySelector<HTMLButtonElement>('.jp-Dialog-footer .jp-mod-accept');
    if (button !== null) {
      // Not `disabled`: that would take the focus out of the dialog, and Escape with it.
      button.setAttribute('aria-disabled', String(busy));
      button.classList.toggle('jp-gq-mod-busy', busy);
    }
  }

  private readonly _form: SendBody;
}

/** Index of the primary button. */
const SEND = 1;
