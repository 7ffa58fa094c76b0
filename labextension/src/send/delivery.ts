/** The requests with which a dialog sends its job. */

import type { JobRequest, JobView, Problem, SentSweep } from '../wire';
import type { IChosenCells } from './carry';
import type { IFileChoice } from './files';
import type { ISendOptions } from './options';
import { describeLostAnswer, isOutage, toProblem } from './problems';
import type { SweepFields } from './sweep';
import { addName } from './values';

/**
 * A function that sends what the fields said. Called once more, it fetches the job that was accepted, unless the notebook or
 * its files have changed since: then it makes a second one.
 */
export type Attempt = () => Promise<void>;

/** The part of a request beside the fields. */
export interface IAddition {
  readonly cells: IChosenCells;
  /** Names of the variables to bring back. */
  readonly returns: string[];
  readonly environment: Parameters<ISendOptions['send']>[3];
  readonly files: IFileChoice;
}

/**
 * The requests of one dialog: what was accepted, and whether an answer was lost.
 *
 * See docs/decisions/0495-find-a-job-whose-answer-was-lost-by-its-key.md.
 */
export class Delivery {
  constructor(private readonly _options: ISendOptions) {}

  /** The accepted job; null before the service has accepted one. */
  job: JobView | null = null;
  /** The accepted sweep; null if none was sent. */
  sweep: SentSweep | null = null;
  /**
   * Whether the answer to any request of this dialog was lost, so that other jobs may have been accepted too. Stays true
   * when such a job is found later.
   */
  hasLostAnswer = false;

  /** Return the way to send a job, or several if a `sweep` varies it. */
  prepare(request: JobRequest, sweep: SweepFields | null, addition: IAddition): Attempt {
    const { cells, returns, environment, files } = addition;
    const options = this._options;
    if (sweep === null || options.sweep === undefined) {
      return async () => {
        this.job = await options.send(request, cells, returns, environment, files);
      };
    }
    const several = options.sweep;
    const all = addName(returns, sweep.group_metric ?? '');
    return async () => {
      this.sweep = await several.send({ ...request, ...sweep }, cells, all, environment, files);
    };
  }

  /**
   * Carry out the attempt; return null if the job was accepted, else the problem. The problem has the code `answer_lost` if
   * no answer came: the job may have been accepted.
   */
  async carryOut(attempt: Attempt): Promise<Problem | null> {
    this._unanswered = null;
    try {
      await attempt();
      return null;
    } catch (reason) {
      const problem = toProblem(reason);
      if (!isOutage(problem)) {
        return problem;
      }
      [this._unanswered, this.hasLostAnswer] = [attempt, true];
      return describeLostAnswer(problem, this._options.trans);
    }
  }

  /** Whether the answer to the last request was lost, and the user has changed nothing since. */
  get isUnanswered(): boolean {
    return this._unanswered !== null;
  }

  /** The last request if its answer was lost and its job is known by now, else null. Sending it once more fetches the job. */
  get arrived(): Attempt | null {
    return this._unanswered !== null && this._options.arrival?.isKnown() === true ? this._unanswered : null;
  }

  /** Note that the user wants something else than what was sent last. */
  giveUp(): void {
    this._unanswered = null;
  }

  private _unanswered: Attempt | null = null;
}
