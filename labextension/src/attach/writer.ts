/**
 * The choice of the one page that writes the outputs of jobs into a notebook.
 *
 * Rules
 * -----
 * 1. A page that nobody sees never writes, and neither does a page that may not change the notebook.
 * 2. A notebook that is not shared is written by its own page.
 * 3. The pages of a shared notebook take turns in the order in which they came. The first one of those that are there
 *    writes; when it is closed, hidden or lost, the next one goes on. The number of a turn is in the shared presence.
 * 4. A page that comes says so, and takes its turn after `ANSWER` milliseconds: the pages that were there have told theirs
 *    by then.
 *
 * For a moment, two pages may both believe that they write. So each write compares the shared outputs with those of the
 * job and corrects them.
 *
 * See docs/decisions/0156-let-one-page-write-a-shared-notebook.md.
 */

import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

/** Field of the shared presence that has the turn of a page. */
const PRESENCE_KEY = 'jupyter_gq';

/** Milliseconds in which the pages that are there answer a page that comes. */
export const ANSWER = 1000;

/** The changes of a shared presence, by the numbers of the pages. */
interface IPresenceChange {
  readonly added: readonly number[];
}

/** The presence of the pages that show a shared notebook: the part of Yjs's awareness that this extension uses. */
export interface IPresence {
  readonly clientID: number;
  getLocalState(): object | null;
  setLocalState(state: object | null): void;
  setLocalStateField(field: string, value: unknown): void;
  getStates(): ReadonlyMap<number, object>;
  on(name: 'change', listener: (change: IPresenceChange) => void): void;
  off(name: 'change', listener: (change: IPresenceChange) => void): void;
}

/** Return the presence of the pages that show a notebook; null if its shared model has none. */
export function readPresence(shared: object): IPresence | null {
  return (shared as { awareness?: IPresence }).awareness ?? null;
}

/** The part of a page in that choice. */
export class Writer implements IDisposable {
  /**
   * `presence` is null for a notebook that is not shared. `mayWrite` tells, once `ready` is fulfilled, whether the page may
   * change the notebook.
   */
  constructor(
    private readonly _presence: IPresence | null,
    private readonly _mayWrite: () => boolean,
    ready: Promise<void>
  ) {
    document.addEventListener('visibilitychange', this._onVisibility);
    this._presence?.on('change', this._onPresence);
    this._isHere = this._findHere();
    void ready.then(() => {
      this._isReady = true;
      this._enter();
    });
  }

  /** Whether this page writes. */
  get isHere(): boolean {
    return this._isHere;
  }

  /** Emitted when this page begins to write. */
  get begun(): ISignal<Writer, void> {
    return this._begun;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    document.removeEventListener('visibilitychange', this._onVisibility);
    this._presence?.off('change', this._onPresence);
    this._leave();
    this._isHere = false;
    Signal.clearData(this);
  }

  private readonly _onVisibility = (): void => {
    if (document.visibilityState === 'visible') {
      this._enter();
    } else {
      this._leave();
    }
    this._update();
  };

  private readonly _onPresence = ({ added }: IPresenceChange): void => {
    const own = this._presence?.getLocalState() ?? null;
    if (added.length > 0 && readTurn(own) !== null) {
      // A server passes on what changes, and a page that has just come does not know the others.
      this._presence?.setLocalState(own);
    }
    this._update();
  };

  /** Take a turn soon, unless this page has one. */
  private _enter(): void {
    const isWanted = this._isReady && !this._isDisposed && document.visibilityState === 'visible';
    if (this._presence !== null && isWanted && this._timer === undefined) {
      this._presence.setLocalStateField(PRESENCE_KEY, null);
      this._timer = window.setTimeout(() => this._takeTurn(this._presence as IPresence), ANSWER);
    }
  }

  private _takeTurn(presence: IPresence): void {
    if (this._mayWrite()) {
      const turns = [...presence.getStates().values()].map(state => readTurn(state) ?? 0);
      presence.setLocalStateField(PRESENCE_KEY, { turn: Math.max(0, ...turns) + 1 });
    }
  }

  /** Give up the turn of this page. */
  private _leave(): void {
    window.clearTimeout(this._timer);
    this._timer = undefined;
    if (readTurn(this._presence?.getLocalState() ?? null) !== null) {
      this._presence?.setLocalStateField(PRESENCE_KEY, null);
    }
  }

  private _update(): void {
    const was = this._isHere;
    this._isHere = this._findHere();
    if (this._isHere && !was) {
      this._begun.emit();
    }
  }

  private _findHere(): boolean {
    if (document.visibilityState === 'hidden') {
      return false;
    }
    return this._presence === null || findWriter(this._presence.getStates()) === this._presence.clientID;
  }

  private _timer: number | undefined;
  private _isHere = false;
  private _isReady = false;
  private _isDisposed = false;
  private readonly _begun = new Signal<Writer, void>(this);
}

/** Return the number of the page whose turn is the first, of equal turns the smallest number; null if none has a turn. */
function findWriter(states: ReadonlyMap<number, object>): number | null {
  let first: { client: number; turn: number } | null = null;
  for (const [client, state] of states) {
    const turn = readTurn(state);
    const isBefore = (other: { client: number; turn: number }): boolean =>
      turn !== null && (turn < other.turn || (turn === other.turn && client < other.client));
    if (turn !== null && (first === null || isBefore(first))) {
      first = { client, turn };
    }
  }
  return first?.client ?? null;
}

/** Return the turn in the presence of a page; null if it has none that this version can read. */
function readTurn(state: object | null): number | null {
  const found = (state as Record<string, unknown> | null)?.[PRESENCE_KEY];
  const turn = (found as { turn?: unknown } | null | undefined)?.turn;
  return typeof turn === 'number' ? turn : null;
}
