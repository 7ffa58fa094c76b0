import { Dialog } from '@jupyterlab/apputils';

import type { JobView, SentSweep } from '../wire';
import { TAKES_ENTER } from './field';
import type { IFormValues } from './values';
import type { ISendOptions } from './options';
import { SendFormWidget } from './widget';

/** The job or sweep that was sent, and the values of the fields with which it was sent. */
export interface IAnswer {
  readonly sent: JobView | SentSweep;
  readonly values: IFormValues;
  /** Whether the run here is to be interrupted. */
  readonly interrupts: boolean;
  /** Whether the user had cancelled before it was accepted. */
  readonly withdrawn: boolean;
}

/** A dialog that closes when the job is accepted or the user cancels. */
export class SendDialog extends Dialog<unknown> {
  constructor(options: ISendOptions) {
    const body = new SendFormWidget(options);
    const { trans } = options;
    const title = trans.__('Send to training');
    super({
      title,
      body,
      buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.okButton({ label: title })],
      focusNodeSelector: FIRST_FIELD
    });
    this._form = body;
    this.addClass('jp-gq-send-dialog');
    this.node.setAttribute('aria-label', title);
    body.arrived.connect(() => super.resolve(SEND));
    body.sendingChanged.connect((_, sending) => this._setBusy(sending));
  }

  /**
   * Open the dialog; return the accepted job or sweep with the values of the fields, or null if none was accepted.
   *
   * What was accepted after the user had cancelled is `withdrawn`: the caller has to cancel it.
   */
  async ask(): Promise<IAnswer | null> {
    await this.launch();
    const { delivery, values, interrupts, isWithdrawn } = this._form;
    const sent = delivery.job ?? delivery.sweep;
    return sent === null ? null : { sent, values, interrupts, withdrawn: isWithdrawn };
  }

  /** Whether no answer came to a request, so that jobs may have been accepted other than those that `ask` returns. */
  get hasLostAnswer(): boolean {
    return this._form.delivery.hasLostAnswer;
  }

  /** Let Enter press a button inside the form, or end the change of a field that takes it. Elsewhere, Enter sends. */
  handleEvent(event: Event): void {
    const enter = event instanceof KeyboardEvent && event.type === 'keydown' && event.key === 'Enter';
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (enter && target?.matches(`.jp-gq-send-body button, .${TAKES_ENTER}`) === true) {
      return;
    }
    if (isTab(event) && target !== null && target === this._lastButton) {
      // The lab would go on at the first button: when it looked for the first field, the form was not drawn yet.
      event.preventDefault();
      event.stopPropagation();
      this.node.querySelector<HTMLElement>(FIRST_FIELD)?.focus();
      return;
    }
    super.handleEvent(event);
  }

  resolve(index = SEND): void {
    if (index !== SEND) {
      this.reject();
    } else if (!this._form.isSending) {
      void this._form.submit().then(accepted => {
        // If it is disposed, the user has cancelled before anything was on its way.
        if (!this.isDisposed && (accepted || this._form.isWithdrawn)) {
          super.resolve(index);
        }
      });
    }
  }

  /** Close the dialog without a job. While one is on its way, wait for the answer, which decides what to cancel. */
  reject(): void {
    if (!this._form.withdraw()) {
      super.reject();
    }
  }

  private get _lastButton(): HTMLElement | null {
    return this.node.querySelector('.jp-Dialog-footer .jp-mod-accept');
  }

  /** Show in the button whether a job is being sent. */
  private _setBusy(busy: boolean): void {
    const button = this._lastButton;
    if (button !== null) {
      // A disabled button would lose the focus, and Escape would no longer reach the dialog.
      button.setAttribute('aria-disabled', String(busy));
      button.classList.toggle('jp-gq-mod-busy', busy);
    }
  }

  private readonly _form: SendFormWidget;
}

/** Return whether an event is the key that goes on to the next field. */
function isTab(event: Event): boolean {
  return event instanceof KeyboardEvent && event.type === 'keydown' && event.key === 'Tab' && !event.shiftKey;
}

const FIRST_FIELD = '#jp-gq-send-name';
/** Index of the primary button. */
const SEND = 1;
