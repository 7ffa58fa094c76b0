/** The contents of the send dialog, which ask the server and the kernel what would be sent. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Debouncer } from '@lumino/polling';
import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

import type { IPrefix, IPrefixEntry } from '../bundle/prefix';
import { selectCells } from '../bundle/prefix';
import { isProblem, RequestError } from '../client';
import type {
  Captured,
  FilesPlan,
  JobView,
  JobRequest,
  Me,
  Plan,
  PoolView,
  PrefixCell,
  Preview,
  Problem,
  QueueView,
  SentSweep
} from '../wire';
import type { ICarry, IChosenCells, VariableChoice } from './carry';
import { REPLAYED, selectRunning } from './carry';
import type { IEnvironmentChoice, IEnvironmentNames } from './environment';
import type { IStart } from './opening';
import type { INotes } from './notes';
import type { ISecrets } from './secrets';
import { takeSecrets } from './secrets';
import { listSoftware } from './software';
import type { ITargetCell } from './targets';
import { NO_NOTES, placeWarnings } from './notes';
import type { IFormValues } from './values';
import { addName, describeOffer, makeRequest, parseNames } from './values';
import { findRefusal, toProblem } from './problems';
import { Question } from './question';
import { NO_CHOICE } from './files';
import type { IFileChoice } from './files';
import { SendForm } from './form';
import type { ISweepChoice, SweepFields } from './sweep';
import { makeSweep, NO_SWEEP } from './sweep';

/** Milliseconds from the last change of a field to the request for a preview. */
const PREVIEW_DELAY = 200;

/** The contents of the dialog and the requests that it makes. */
export interface ISendOptions {
  readonly values: IFormValues;
  readonly queues: readonly QueueView[];
  readonly pools: readonly PoolView[];
  readonly largest: string;
  readonly secrets: ISecrets;
  /** Names of the images that the service offers. */
  readonly images?: Me['images'];
  readonly targets: readonly ITargetCell[];
  readonly prefix: IPrefix;
  /** What the dialog starts with beside `values`. */
  readonly start: IStart;
  readonly notes: readonly string[];
  readonly trans: TranslationBundle;
  /** Return what would run, with warnings. Raises `RequestError` if sending the cells would be refused. */
  check(cells: IChosenCells, files: IFileChoice): Promise<Plan>;
  /**
   * Capture the variables of the kernel, as the user has chosen them, for a job with this software. Raises
   * `RequestError` if that is refused.
   */
  capture(prefix: PrefixCell[], choice: VariableChoice, software: string): Promise<Captured>;
  preview(request: JobRequest): Promise<Preview>;
  /** The way to send several jobs at once; without it the dialog sends one. */
  readonly sweep?: {
    readonly trans: TranslationBundle;
    /** Send the jobs, which bring back the variables of the names `returns`. */
    send(
      request: JobRequest & SweepFields,
      cells: IChosenCells,
      returns: string[],
      environment: IEnvironmentNames,
      files: IFileChoice
    ): Promise<SentSweep>;
  };
  /** Emits true while an answer is slow to come. */
  readonly slowChanged: ISignal<unknown, boolean>;
  /** Send the job, which brings back the variables of the names `returns`. */
  send(
    request: JobRequest,
    cells: IChosenCells,
    returns: string[],
    environment: IEnvironmentNames,
    files: IFileChoice
  ): Promise<JobView>;
}

interface IFormState {
  readonly values: IFormValues;
  readonly entries: readonly IPrefixEntry[];
  readonly preview: Preview | null;
  readonly problem: Problem | null;
  /** Why the server would refuse the cells. */
  readonly fault: Problem | null;
  readonly warnings: INotes;
  /** Names that the user wrote into the field; null before the first change. */
  readonly returns: string | null;
  /** What the server proposes to bring back, and what else the cells make. */
  readonly proposed: Pick<Plan, 'returns' | 'makes'>;
  readonly sweep: ISweepChoice;
  /** What a sweep can vary. */
  readonly assignments: Plan['assignments'];
  readonly environment: IEnvironmentChoice;
  readonly planned: Plan['environment'] | null;
  /** The software of the server with which the job can run; null until the server has answered. */
  readonly offered: Pick<Plan, 'kernels' | 'takes_images'> | null;
  /** The files that would go along; null until the server has answered. */
  readonly files: FilesPlan | null;
  readonly fileChoice: IFileChoice;
  readonly carry: ICarry;
  readonly sending: boolean;
  /** How often sending was refused. */
  readonly refusals: number;
  /** Whether the user has cancelled while the job was being sent. */
  readonly withdrawn: boolean;
  /** Whether the answer to a request is slow to come. */
  readonly slow: boolean;
}

/** The form in the dialog, which keeps its values until the job is accepted and shows a refusal at the field. */
export class SendFormWidget extends ReactWidget {
  constructor(private readonly _options: ISendOptions) {
    super();
    this.addClass('jp-gq-send-body');
    const { values, prefix, start } = _options;
    this._state = {
      values,
      entries: prefix.entries,
      preview: null,
      problem: null,
      fault: null,
      warnings: NO_NOTES,
      returns: start.returns,
      proposed: { returns: [], makes: [] },
      sweep: NO_SWEEP,
      assignments: [],
      environment: start.environment,
      planned: null,
      offered: null,
      files: null,
      fileChoice: NO_CHOICE,
      carry: REPLAYED,
      sending: false,
      refusals: 0,
      withdrawn: false,
      slow: false
    };
    _options.slowChanged.connect(this._onSlow, this);
    this._asking = new Debouncer(() => this._updatePreview(), PREVIEW_DELAY);
    this._checking = new Debouncer(() => this._updateWarnings(), PREVIEW_DELAY);
    this._capturing = new Question(() => this._updateVariables());
    void this._updatePreview();
    void this._updateWarnings();
  }

  /** The accepted job; null before the service has accepted one. */
  get job(): JobView | null {
    return this._job;
  }

  /** The accepted sweep; null if none was sent. */
  get sweep(): SentSweep | null {
    return this._sweep;
  }

  /** The present values of the fields. */
  get values(): IFormValues {
    return this._state.values;
  }

  /** Whether a job is being sent. */
  get isSending(): boolean {
    return this._state.sending;
  }

  /** Whether the user has cancelled while the job was being sent. */
  get isWithdrawn(): boolean {
    return this._state.withdrawn;
  }

  /** Note that the user cancels; return whether a job is on its way, whose answer decides what to cancel. */
  withdraw(): boolean {
    if (this.isSending) {
      this._set({ withdrawn: true });
    }
    return this.isSending && !this._isWaiting;
  }

  dispose(): void {
    this._asking.dispose();
    this._checking.dispose();
    this._capturing.dispose();
    this._options.slowChanged.disconnect(this._onSlow, this);
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
    try {
      const { returns, proposed, environment, fileChoice } = this._state;
      const names = returns === null ? proposed.returns : parseNames(returns);
      const chosen = {
        variables: environment.variables,
        secrets: takeSecrets(environment.secrets, this._state.planned, this._options.secrets)
      };
      const cells = this._selectCells();
      if (sweep !== null && this._options.sweep !== undefined) {
        const all = addName(names, sweep.group_metric ?? '');
        this._sweep = await this._options.sweep.send(
          { ...request, ...sweep },
          cells,
          all,
          chosen,
          fileChoice
        );
      } else {
        this._job = await this._options.send(request, cells, names, chosen, fileChoice);
      }
      return true;
    } catch (reason) {
      this._refuse(toProblem(reason));
      return false;
    }
  }

  /** Wait for the variables that the user takes along; return false, with the reason shown, if the job cannot be sent. */
  private async _hasVariables(): Promise<boolean> {
    const isSeen = this._state.carry.captured !== null;
    this._isWaiting = true;
    await this._capturing.finish();
    this._isWaiting = false;
    const { carry, withdrawn } = this._state;
    const problem = carry.wanted ? findRefusal(carry, isSeen, this._options.trans) : null;
    if (problem !== null || withdrawn) {
      this._refuse(problem);
    }
    return problem === null && !withdrawn;
  }

  protected render(): React.JSX.Element {
    const { queues, pools, largest, secrets, targets, prefix, notes, trans } = this._options;
    return (
      <SendForm
        {...this._state}
        queues={queues}
        pools={pools}
        largest={largest}
        secrets={secrets}
        software={listSoftware(this._state.offered, this._options.images)}
        targets={targets}
        prefix={prefix}
        notes={notes}
        trans={trans}
        onValues={values => this._takeValues(values)}
        onReturns={returns => {
          if (!this._state.sending) {
            this._set({ returns, problem: null });
          }
        }}
        sweepWords={this._options.sweep?.trans ?? null}
        onSweep={sweep => {
          if (!this._state.sending) {
            this._set({ sweep, problem: null });
          }
        }}
        onEnvironment={environment => this._set({ environment, problem: null })}
        onFiles={fileChoice => {
          this._set({ fileChoice, fault: null, problem: null });
          void this._checking.invoke();
        }}
        onCarry={carry => this._takeCarry(carry)}
        onWritten={() => void this._capturing.finish()}
        onEntries={entries => {
          this._set({ entries, fault: null, problem: null });
          void this._checking.invoke();
        }}
      />
    );
  }

  /** Show what the user takes along, and ask the kernel for it: after a pause if the user is writing. */
  private _takeCarry(carry: ICarry): void {
    const isWriting = carry.wanted && carry.also !== this._state.carry.also;
    this._set({ carry, fault: null, problem: null });
    if (isWriting) {
      this._capturing.askSoon();
    } else {
      void this._capturing.askNow();
    }
  }

  /** Show the values that the user chose, and ask what would happen with them. */
  private _takeValues(values: IFormValues): void {
    if (this._state.sending) {
      return;
    }
    const isOther = values.software !== this._state.values.software;
    this._set({ values, problem: null });
    if (isOther) {
      // Whether variables can go along depends on the software.
      this._set({ carry: { ...REPLAYED }, fault: null });
      void this._checking.invoke();
    }
    void this._asking.invoke();
  }

  private async _updatePreview(): Promise<void> {
    const { values } = this._state;
    const request = this._makeRequest();
    if (isProblem(request)) {
      this._set({ preview: null, problem: request });
      return;
    }
    let change: Partial<IFormState>;
    try {
      change = { preview: await this._options.preview(request) };
    } catch (reason) {
      change = { preview: null, problem: toProblem(reason) };
    }
    // An answer to earlier values is out of date.
    if (!this.isDisposed && values === this._state.values && !this._state.sending) {
      this._set(change);
    }
  }

  private async _updateWarnings(): Promise<void> {
    const { entries, fileChoice, carry } = this._state;
    const sent = selectRunning(entries, carry);
    const targets = this._options.targets.map(target => target.id);
    let change: Partial<IFormState>;
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
      const isRefusal = reason instanceof RequestError && reason.status === 422;
      change = isRefusal ? { fault: reason.problem } : {};
    }
    // An answer about earlier cells or files is out of date.
    const isPresent =
      entries === this._state.entries && fileChoice === this._state.fileChoice && carry === this._state.carry;
    if (!this.isDisposed && isPresent) {
      this._set(change);
    }
  }

  /** Ask the kernel for its variables if the user wants to take them along, and then for what would run. */
  private async _updateVariables(): Promise<void> {
    const { carry, entries, values } = this._state;
    if (carry.wanted) {
      let change: Partial<ICarry>;
      try {
        const cells = selectCells(entries);
        change = { captured: await this._options.capture(cells, carry, values.software) };
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
    return { prefix: selectCells(selectRunning(entries, carry)), capture, software: values.software };
  }

  private _onSlow(_: unknown, slow: boolean): void {
    this._set({ slow });
  }

  /** Return the request, or the problem that already the fields have. */
  private _makeRequest(): JobRequest | Problem {
    const { values } = this._state;
    const queue = this._options.queues.find(known => known.name === values.queue);
    const request = makeRequest(values, describeOffer(queue, this._options.pools), this._options.trans);
    return isProblem(request) ? request : { ...request, ...this._options.start.unshown };
  }

  /** Return what makes several jobs of one; null if nothing varies. */
  private _makeSweep(): SweepFields | Problem | null {
    const { sweep } = this._options;
    return sweep === undefined ? null : makeSweep(this._state.sweep, sweep.trans);
  }

  /** Show why nothing was sent, and lead the user to the field. */
  private _refuse(problem: Problem | null, preview = this._state.preview): void {
    const refusals = this._state.refusals + (problem === null ? 0 : 1);
    this._set({ sending: false, problem, preview, refusals });
  }

  private _set(change: Partial<IFormState>): void {
    this._state = { ...this._state, ...change };
    if (!this.isDisposed) {
      this.update();
    }
  }

  private _state: IFormState;
  private _job: JobView | null = null;
  private _sweep: SentSweep | null = null;
  /** Whether the job waits for the variables, so that nothing is on its way yet. */
  private _isWaiting = false;
  private readonly _asking: Debouncer;
  private readonly _checking: Debouncer;
  private readonly _capturing: Question;
}
