import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { CellOutputs } from '../outputs';
import { fold } from '../outputs';
import type { OutputPage } from '../wire';

/** Milliseconds between two fetches of one job: what comes meanwhile comes together. */
const PACE = 120;

/** The outputs of one job, fetched in order from the first piece on, however often it is told that there are more. */
export class JobStream implements IDisposable {
  constructor(private readonly _fetch: (after: number) => Promise<OutputPage>) {}

  /** Folded up to `seq`. */
  get cells(): CellOutputs {
    return this._cells;
  }

  get seq(): number {
    return this._seq;
  }

  /** The job is over and nothing is missing. */
  get finished(): boolean {
    return this._finished;
  }

  /** Everything that there was at some moment has been fetched once. */
  get caughtUp(): boolean {
    return this._caughtUp;
  }

  get changed(): ISignal<JobStream, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    window.clearTimeout(this._timer);
    Signal.clearData(this);
  }

  /** There may be more. Failures are left to the next call: an event, or the service being back. */
  pull(): void {
    if (this._isDisposed || this._finished) {
      return;
    }
    this._wanted = true;
    if (this._timer === undefined && !this._busy) {
      const wait = Math.max(0, this._last + PACE - performance.now());
      this._timer = window.setTimeout(() => void this._run(), wait);
    }
  }

  private async _run(): Promise<void> {
    this._timer = undefined;
    this._busy = true;
    this._wanted = false;
    try {
      while (!this._isDisposed && (await this._next())) {
        // Page by page until nothing is left.
      }
    } catch {
      // The service is away: its return is signalled, and then this is asked again.
    } finally {
      this._busy = false;
      this._last = performance.now();
    }
    if (this._wanted) {
      this.pull();
    }
  }

  /** True when there is another page. */
  private async _next(): Promise<boolean> {
    const page = await this._fetch(this._seq);
    if (this._isDisposed) {
      return false;
    }
    const fresh = page.events.filter(event => event.seq > this._seq);
    this._cells = fold(
      fresh.filter(event => event.role !== 'prefix'),
      this._cells
    );
    this._seq = fresh.reduce((seq, event) => Math.max(seq, event.seq), this._seq);
    const more = fresh.length > 0 && this._seq < page.last_seq;
    if (!more) {
      this._caughtUp = true;
      this._finished = page.finished && this._seq >= page.last_seq;
      this._changed.emit();
    }
    return more;
  }

  private _cells: CellOutputs = new Map();
  private _seq = 0;
  private _finished = false;
  private _caughtUp = false;
  private _wanted = false;
  private _busy = false;
  private _last = -Infinity;
  private _timer: number | undefined;
  private _isDisposed = false;
  private readonly _changed = new Signal<JobStream, void>(this);
}
