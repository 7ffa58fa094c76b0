/**
 * A question that is asked soon, so that several changes in a row are one question, or at once if the answer is needed.
 *
 * See docs/decisions/0227-let-a-click-wait-for-the-variables.md.
 */

/** Milliseconds without a further change before the question is asked: longer than between two keys of a typist. */
const PAUSE = 600;

/** The way in which the kernel is asked for its variables, each time for those that are chosen at that moment. */
export class Question {
  /** `ask` asks the question and ends with the answer or the failure; it does not raise. */
  constructor(private readonly _ask: () => Promise<void>) {}

  /** Ask once nothing has changed for a while. */
  askSoon(): void {
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this.askNow(), PAUSE);
  }

  /** Ask at once; return at the answer. */
  askNow(): Promise<void> {
    this.dispose();
    this._answered = this._ask();
    return this._answered;
  }

  /** Ask at once what would be asked soon; return at the answer to the last question. */
  finish(): Promise<void> {
    return this._timer === undefined ? this._answered : this.askNow();
  }

  /** Ask nothing that would be asked soon. */
  dispose(): void {
    window.clearTimeout(this._timer);
    this._timer = undefined;
  }

  private _timer: number | undefined;
  private _answered: Promise<void> = Promise.resolve();
}
