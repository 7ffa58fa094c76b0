/** The contents of the send dialog, which ask the server and the kernel what would be sent. */

import { ReactWidget } from '@jupyterlab/ui-components';
import { JSONExt } from '@lumino/coreutils';
import { Debouncer } from '@lumino/polling';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { listLeftOut, selectCells } from '../bundle/prefix';
import { isProblem } from '../client';
import { listMemberQueues } from '../queues';
import type { JobRequest, Problem, QueueView } from '../wire';
import type { ICarry, IChosenCells } from './carry';
import { REPLAYED, selectRunning } from './carry';
import type { Attempt } from './delivery';
import { Delivery } from './delivery';
import type { IFormState } from './formstate';
import { describeStart } from './formstate';
import type { ISendOptions } from './options';
import { takeSecrets } from './secrets';
import { listSoftware } from './software';
import { placeWarnings } from './notes';
import type { IFormValues } from './values';
import { describeOffer, isSameButName, makeRequest, parseNames } from './values';
import { describeUnchecked, findRefusal, isOutage, toProblem } from './problems';
import { Question } from './question';
import { SendForm } from './form';
import type { SweepFields } from './sweep';
import { makeSweep } from './sweep';

/** Milliseconds from the last change of a field to the request for a preview. */
const PREVIEW_DELAY = 200;
/** Milliseconds until the dialog asks again if nobody has answered. */
const RETRY_DELAY = 3000;

/** The form in the dialog, which keeps its values until the job is accepted and shows a refusal at the field. */
export class SendFormWidget extends ReactWidget {
  constructor(private readonly _options: ISendOptions) {
    super();
    this.addClass('jp-gq-send-body');
    this._queues = _options.queues;
    this._delivery = new Delivery(_options);
    this._state = describeStart(_options);
    _options.client.slowChanged.connect(this._onSlow, this);
    _options.localRun?.changed.connect(this.update, this);
    _options.queuesChanged?.connect(this._onQueues, this);
    _options.arrival?.changed.connect(this._onArrival, this);
    this._asking = new Debouncer(() => this._updatePreview(), PREVIEW_DELAY);
    this._checking = new Debouncer(() => this._updateWarnings(), PREVIEW_DELAY);
    this._capturing = new Question(() => this._updateVariables());
    void this._updatePreview();
    void this._updateWarnings();
  }

  /** What was sent, and what is known of it. */
  get delivery(): Readonly<Delivery> {
    return this._delivery;
  }

  /** The present values of the fields. */
  get values(): IFormValues {
    return this._state.values;
  }

  /** Whether the run here is to be interrupted, as the user has chosen. */
  get interrupts(): boolean {
    return this._state.interrupts;
  }

  /** Whether a job is being sent. */
  get isSending(): boolean {
    return this._state.sending;
  }

  /** Whether the user has cancelled while the job was being sent. */
  get isWithdrawn(): boolean {
    return this._state.withdrawn;
  }

  /** Emitted with whether a job is being sent, when that begins or ends. */
  get sendingChanged(): ISignal<this, boolean> {
    return this._sendingChanged;
  }

  /** Emitted when a job whose answer was lost has been fetched, or when the user cancelled during that. */
  get arrived(): ISignal<this, void> {
    return this._arrived;
  }

  /** Note that the user cancels; return whether a job is on its way, whose answer decides what to cancel. */
  withdraw(): boolean {
    if (this.isSending) {
      this._set({ withdrawn: true });
    }
    return this.isSending && !this._isWaiting;
  }

  dispose(): void {
    window.clearTimeout(this._retry);
    this._asking.dispose();
    this._checking.dispose();
    this._capturing.dispose();
    this._options.client.slowChanged.disconnect(this._onSlow, this);
    this._options.localRun?.changed.disconnect(this.update, this);
    this._options.queuesChanged?.disconnect(this._onQueues, this);
    this._options.arrival?.changed.disconnect(this._onArrival, this);
    super.dispose();
  }

  /** Send the job; return whether it was accepted. */
  async submit(): Promise<boolean> {
    if (this._state.sending) {
      return false;
    }
    void this._asking.stop();
    const request = this._makeRequest();
    const sweep = this._makeSweep();
    const wrong = [request, sweep].find(isProblem);
    if (isProblem(request) || isProblem(sweep)) {
      // What the sweep varies does not change the forecast of a job.
      this._refuse(wrong ?? null, isProblem(request) ? null : this._state.preview);
      return false;
    }
    this._set({ sending: true, problem: null });
    if (!(await this._hasVariables())) {
      return false;
    }
    const { environment, planned, fileChoice } = this._state;
    const attempt = this._delivery.prepare(request, sweep, {
      cells: this._selectCells(),
      returns: this._listReturns(),
      environment: {
        variables: environment.variables,
        secrets: takeSecrets(environment.secrets, planned, this._options.secrets)
      },
      files: fileChoice
    });
    const problem = await this._delivery.carryOut(attempt);
    if (problem !== null) {
      this._refuse(problem);
      this._onArrival();
    }
    return problem === null;
  }

  /** If a job to whose request no answer came is known by now, fetch it; after a failure, only once some time is over. */
  private _onArrival(): void {
    const attempt = this._delivery.arrived;
    if (attempt !== null && !this._state.sending && !this._isResting && !this.isDisposed) {
      void this._fetch(attempt);
    }
  }

  /** Fetch a job whose answer was lost. The problem stays shown meanwhile, and has the focus if it had it before. */
  private async _fetch(attempt: Attempt): Promise<void> {
    this._set({ sending: true });
    const problem = await this._delivery.carryOut(attempt);
    this._isResting = this._delivery.isUnanswered;
    if (this._isResting) {
      this._set({ sending: false, problem });
      this._askAgainSoon();
    } else if (problem !== null) {
      this._refuse(problem);
    }
    if ((problem === null || this._state.withdrawn) && !this.isDisposed) {
      this._arrived.emit();
    }
  }

  /** Wait for the variables that the user takes along; return false, with the reason shown, if the job cannot be sent. */
  private async _hasVariables(): Promise<boolean> {
    const before = this._state.carry;
    const isSeen = before.captured !== null;
    this._isWaiting = true;
    // What kept the kernel from answering, such as a cell that ran, may be over.
    await (before.wanted && before.problem !== null ? this._capturing.askNow() : this._capturing.finish());
    this._isWaiting = false;
    const { carry, withdrawn } = this._state;
    const problem = carry.wanted ? findRefusal(carry, isSeen, this._options.trans) : null;
    if (problem !== null || withdrawn) {
      this._refuse(problem);
    }
    return problem === null && !withdrawn;
  }

  protected render(): React.JSX.Element {
    const { pools, largest, secrets, targets, prefix, notes, trans } = this._options;
    return (
      <SendForm
        {...this._state}
        now={this._options.client.now}
        queues={this._queues}
        pools={pools}
        largest={largest}
        secrets={secrets}
        software={listSoftware(this._state.offered, this._options.images)}
        earlier={this._options.start.earlier}
        targets={targets}
        prefix={prefix}
        notes={notes}
        localRun={this._options.localRun?.state ?? null}
        trans={trans}
        onValues={values => this._takeValues(values)}
        onReturns={returns => {
          if (!this._state.sending) {
            this._take({ returns });
          }
        }}
        sweepWords={this._options.sweep?.trans ?? null}
        onSweep={sweep => {
          if (!this._state.sending) {
            this._take({ sweep });
          }
        }}
        onEnvironment={environment => this._take({ environment })}
        onFiles={fileChoice => {
          this._take({ fileChoice, fault: null });
          void this._checking.invoke();
        }}
        onCarry={carry => this._takeCarry(carry)}
        onInterrupts={interrupts => this._take({ interrupts })}
        onWritten={() => void this._capturing.finish()}
        onEntries={entries => {
          this._take({ entries, fault: null });
          void this._checking.invoke();
        }}
      />
    );
  }

  /** Show what the user takes along, and ask the kernel for it: after a pause if the user is writing. */
  private _takeCarry(carry: ICarry): void {
    const isWriting = carry.wanted && carry.also !== this._state.carry.also;
    this._take({ carry, fault: null });
    if (isWriting) {
      this._capturing.askSoon();
    } else {
      void this._capturing.askNow();
    }
  }

  /**
   * Show a choice on which no forecast depends, and clear the problem. If a problem stood in place of the forecast, ask
   * for the forecast again.
   */
  private _take(change: Partial<IFormState>): void {
    this._delivery.giveUp();
    const isMissing = this._state.problem !== null && this._state.preview === null;
    this._set({ ...change, problem: null, asking: this._state.asking || isMissing });
    if (isMissing) {
      void this._asking.invoke();
    }
  }

  /** Show the values that the user chose, and ask what would happen with them. */
  private _takeValues(values: IFormValues): void {
    if (this._state.sending) {
      return;
    }
    this._delivery.giveUp();
    const { values: former, asking } = this._state;
    this._set({ values, problem: null, asking: asking || !isSameButName(values, former) });
    if (values.software !== former.software) {
      // Whether variables can go along depends on the software.
      this._set({ carry: { ...REPLAYED }, fault: null });
      void this._checking.invoke();
    }
    void this._asking.invoke();
  }

  /** Ask again soon what nobody has answered: the problem would outlast the outage. Nothing is asked during sending. */
  private _askAgainSoon(): void {
    window.clearTimeout(this._retry);
    const isAsked = isOutage(this._state.problem) || this._isUnchecked || this._lacksForecast;
    if (!this.isDisposed && (isAsked || this._isResting)) {
      this._retry = window.setTimeout(() => void this._askAgain(), RETRY_DELAY);
    }
  }

  private async _askAgain(): Promise<void> {
    this._isResting = false;
    this._onArrival();
    if (this._state.sending) {
      return; // if that is refused, the dialog goes on asking
    }
    if (isOutage(this._state.problem) || this._lacksForecast) {
      await this._updatePreview();
    }
    if (this._isUnchecked) {
      await this._updateWarnings();
    }
  }

  /** Whether nothing is foretold, and the problem that is shown is no reason for that. */
  private get _lacksForecast(): boolean {
    return this._delivery.isUnanswered && this._state.preview === null;
  }

  private async _updatePreview(): Promise<void> {
    const { values } = this._state;
    const request = this._makeRequest();
    if (isProblem(request)) {
      this._set({ preview: null, asking: false, problem: request });
      return;
    }
    const answer = await this._forecast(request);
    // An outage says less than that a job may have been accepted meanwhile.
    const change = this._delivery.isUnanswered && isOutage(answer.problem ?? null) ? {} : answer;
    // An answer to earlier values is out of date.
    if (!this.isDisposed && values === this._state.values && !this._state.sending) {
      this._set({ ...change, asking: false });
    }
    this._askAgainSoon();
  }

  /** Return the prediction for a request, and the problem if it is refused; an outage that is over is no problem. */
  private async _forecast(request: JobRequest): Promise<Pick<IFormState, 'preview'> & Partial<IFormState>> {
    try {
      const preview = await this._options.preview(request);
      return isOutage(this._state.problem) ? { preview, problem: null } : { preview };
    } catch (reason) {
      const problem = toProblem(reason);
      // No prediction depends on the name, so a refused name hides none.
      const isNamed = problem.field === 'name' && request.name !== '';
      const { preview } = isNamed ? await this._forecast({ ...request, name: '' }) : { preview: null };
      return { preview, problem };
    }
  }

  private async _updateWarnings(): Promise<void> {
    const { entries, fileChoice, carry } = this._state;
    const sent = selectRunning(entries, carry);
    const targets = this._options.targets.map(target => target.id);
    let change: Partial<IFormState>;
    let isUnchecked = false;
    try {
      const plan = await this._options.check(this._selectCells(), fileChoice);
      const warnings = placeWarnings(plan.warnings, sent, targets);
      change = {
        warnings,
        proposed: plan,
        assignments: plan.assignments,
        planned: plan.environment,
        offered: plan,
        files: plan.files,
        // Without the cells whose variables go along, the server would see no reason to suggest it.
        carry: carry.wanted ? carry : { ...carry, offer: plan.carry, unreplayed: warnings.leftOut },
        fault: null
      };
    } catch (reason) {
      const problem = toProblem(reason);
      isUnchecked = isOutage(problem);
      change = { fault: describeUnchecked(problem, reason, this._options.trans) };
    }
    // An answer about earlier cells or files is out of date.
    const isPresent =
      entries === this._state.entries && fileChoice === this._state.fileChoice && carry === this._state.carry;
    if (!this.isDisposed && isPresent) {
      this._set(change);
      this._isUnchecked = isUnchecked;
      this._askAgainSoon();
    }
  }

  /** Ask the kernel for its variables if the user wants to take them along, and then for what would run. */
  private async _updateVariables(): Promise<void> {
    const { carry, entries, values } = this._state;
    if (carry.wanted) {
      let change: Partial<ICarry>;
      try {
        const cells = selectCells(entries);
        change = { captured: await this._options.capture(cells, carry, values.software), problem: null };
      } catch (reason) {
        change = { problem: toProblem(reason) };
      }
      // An answer to an earlier choice is out of date.
      if (this.isDisposed || carry !== this._state.carry) {
        return;
      }
      this._set({ carry: { ...carry, ...change } });
    }
    void this._updateWarnings();
  }

  /** Return the cells and the capture of a request. */
  private _selectCells(): IChosenCells {
    const { entries, carry, values } = this._state;
    const capture = carry.wanted ? (carry.captured?.id ?? null) : null;
    const prefix = selectCells(selectRunning(entries, carry));
    return { prefix, leftOut: listLeftOut(entries), capture, software: values.software };
  }

  /** Show how much of the queues is in use by now, and ask for the forecast again, which depends on that. */
  private _onQueues(_: unknown, news: { readonly queues: readonly QueueView[] }): void {
    const queues = listMemberQueues(news.queues);
    if (queues.length === 0 || isSameUse(queues, this._queues)) {
      return;
    }
    this._queues = queues;
    this.update();
    if (this._state.preview !== null && !this._state.sending) {
      void this._asking.invoke();
    }
  }

  private _onSlow(_: unknown, slow: boolean): void {
    this._set({ slow });
  }

  /** Return the request, or the problem that already the fields have. */
  private _makeRequest(): JobRequest | Problem {
    const { values } = this._state;
    const queue = this._queues.find(known => known.name === values.queue);
    const request = makeRequest(values, describeOffer(queue, this._options.pools), this._options.trans);
    return isProblem(request) ? request : { ...request, ...this._options.start.unshown };
  }

  /** Return what makes several jobs of one; null if nothing varies. */
  private _makeSweep(): SweepFields | Problem | null {
    const { sweep } = this._options;
    return sweep === undefined ? null : makeSweep(this._state.sweep, sweep.trans, this._listReturns());
  }

  /** Return the names of what the job brings back: as the user wrote them, or as proposed. */
  private _listReturns(): string[] {
    const { returns, proposed } = this._state;
    return returns === null ? proposed.returns : parseNames(returns);
  }

  /** Show why nothing was sent, and lead the user to the field. */
  private _refuse(problem: Problem | null, preview = this._state.preview): void {
    const refusals = this._state.refusals + (problem === null ? 0 : 1);
    this._set({ sending: false, problem, preview, refusals });
    if (this._state.asking && !this.isDisposed) {
      // Sending has stopped the question about the present values, or its answer was not taken.
      void this._asking.invoke();
    }
    this._askAgainSoon();
  }

  private _set(change: Partial<IFormState>): void {
    const { sending } = this._state;
    this._state = { ...this._state, ...change };
    if (!this.isDisposed) {
      this.update();
      if (this._state.sending !== sending) {
        this._sendingChanged.emit(!sending);
      }
    }
  }

  private _state: IFormState;
  private _queues: readonly QueueView[];
  private readonly _delivery: Delivery;
  private readonly _arrived = new Signal<this, void>(this);
  private readonly _sendingChanged = new Signal<this, boolean>(this);
  /** Whether a job that is known could not be fetched a moment ago. */
  private _isResting = false;
  /** Whether the job waits for the variables, so that nothing is on its way yet. */
  private _isWaiting = false;
  /** Whether nobody has answered what would run. */
  private _isUnchecked = false;
  private _retry: number | undefined;
  private readonly _asking: Debouncer;
  private readonly _checking: Debouncer;
  private readonly _capturing: Question;
}

/** Return whether nothing that the page shows of queues has changed. */
function isSameUse(queues: readonly QueueView[], before: readonly QueueView[]): boolean {
  return JSONExt.deepEqual(queues, before);
}
