import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { CellOutputs } from '../outputs';
import { findEnded, foldEvents } from '../outputs';
import type { OutputPage } from '../wire';

/** Least milliseconds between two fetches of one job. Pieces that arrive meanwhile are fetched together. */
const PACE = 120;
/** Most milliseconds between two fetches while pieces arrive, however long the page needs to show them. */
export const SLOWEST = 2000;
/** Milliseconds until the next fetch for each millisecond that the page needed to show the last pieces. */
const REST = 4;
/** Milliseconds after a failure in which no event leads to a fetch. Further failures double them, up to a minute. */
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 60_000;

/** The outputs of one job, fetched once and in order, from the first piece on. */
export class JobStream implements IDisposable {
  constructor(private readonly _fetch: (after: number) => Promise<OutputPage>) {}

  /** The outputs of the target cells, folded up to piece `seq`. */
  get cells(): CellOutputs {
    return this._cells;
  }

  /** Ids of the target cells that ran to their end in the last run, as told up to piece `seq`. */
  get ended(): ReadonlySet<string> {
    return this._ended;
  }

  /** Number of the last piece that was fetched; 0 before the first. */
  get seq(): number {
    return this._seq;
  }

  /** Whether the job is over and all of its pieces were fetched. */
  get isFinished(): boolean {
    return this._finished;
  }

  /** Whether all pieces of some moment were fetched. Before that, the outputs are incomplete. */
  get isCaughtUp(): boolean {
    return this._caughtUp;
  }

  /** Emitted when pieces were fetched, once for each series of pages. */
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

  /** Fetch the pieces that follow, soon. A failure is retried after a pause by the next call, and at once by `retry`. */
  fetchMore(): void {
    if (this._isDisposed || this._finished) {
      return;
    }
    this._wanted = true;
    if (this._timer === undefined && !this._busy) {
      const wait = Math.max(0, this._last + Math.max(this._pace, this._pause) - performance.now());
      this._timer = window.setTimeout(() => void this._fetchAll(), wait);
    }
  }

  /** Fetch the pieces that follow without the pause after a failure, because the service is back. */
  retry(): void {
    this._pause = 0;
    window.clearTimeout(this._timer);
    this._timer = undefined;
    this.fetchMore();
  }

  /** Fetch pages until none is left, or until a fetch fails. */
  private async _fetchAll(): Promise<void> {
    this._timer = undefined;
    this._busy = true;
    this._wanted = false;
    try {
      while (!this._isDisposed && (await this._fetchPage())) {
        // Each call fetches one page.
      }
      this._pause = 0;
    } catch {
      // The service is down. A signal tells when it is back, and leads to another call.
      this._pause = Math.min(LONGEST_PAUSE, Math.max(FIRST_PAUSE, 2 * this._pause));
    } finally {
      this._busy = false;
      this._last = performance.now();
    }
    if (this._wanted) {
      this.fetchMore();
    }
  }

  /** Fetch one page; return whether there is another. */
  private async _fetchPage(): Promise<boolean> {
    const page = await this._fetch(this._seq);
    if (this._isDisposed) {
      return false;
    }
    const fresh = page.events.filter(event => event.seq > this._seq);
    const shown = fresh.filter(event => event.role !== 'prefix');
    this._cells = foldEvents(shown, this._cells);
    this._ended = findEnded(shown, this._ended);
    this._seq = fresh.reduce((seq, event) => Math.max(seq, event.seq), this._seq);
    const more = fresh.length > 0 && this._seq < page.last_seq;
    if (!more) {
      this._caughtUp = true;
      this._finished = page.finished && this._seq >= page.last_seq;
      this._show();
    }
    return more;
  }

  /**
   * Let the cells show the pieces, and measure how long the page needs until they are on the screen.
   *
   * The lab draws a long text anew for each change. So the longer that takes, the more pieces are shown together.
   */
  private _show(): void {
    const began = performance.now();
    this._changed.emit();
    window.requestAnimationFrame(() => {
      window.setTimeout(() => {
        const needed = performance.now() - began;
        this._pace = Math.min(SLOWEST, Math.max(PACE, REST * needed));
      });
    });
  }

  private _cells: CellOutputs = new Map();
  private _ended: ReadonlySet<string> = new Set();
  private _seq = 0;
  private _finished = false;
  private _caughtUp = false;
  private _wanted = false;
  private _busy = false;
  private _last = -Infinity;
  private _pace = PACE;
  private _pause = 0;
  private _timer: number | undefined;
  private _isDisposed = false;
  private readonly _changed = new Signal<JobStream, void>(this);
}
