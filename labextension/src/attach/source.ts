import type { CellChange, ISharedCell } from '@jupyter/ydoc';
import type { IDisposable } from '@lumino/disposable';

import { connect } from '../lifetime';

/** Milliseconds without a further edit before edits count: longer than between two keys of a typist. */
export const REST = 400;

/** Tells that the source of a cell was edited, once for several edits in a row. */
export class SourceWatch implements IDisposable {
  constructor(
    cell: ISharedCell,
    private readonly _onEdited: () => void
  ) {
    this._connection = connect(cell.changed, (_: unknown, change: CellChange) => {
      if (change.sourceChange !== undefined) {
        window.clearTimeout(this._timer);
        this._timer = window.setTimeout(() => this._onEdited(), REST);
      }
    });
  }

  get isDisposed(): boolean {
    return this._connection.isDisposed;
  }

  dispose(): void {
    window.clearTimeout(this._timer);
    this._connection.dispose();
  }

  private readonly _connection: IDisposable;
  private _timer: number | undefined;
}
