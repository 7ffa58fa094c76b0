import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';

/** Return whether a notebook cannot be saved in its file. */
export function isReadOnly(context: DocumentRegistry.IContext<INotebookModel>): boolean {
  return context.model.readOnly || context.contentsModel?.writable === false;
}

/** Longest wait for another tab in milliseconds: the lab may be asking the user there about the file. */
const LONGEST_TURN = 10_000;

/**
 * Saves a notebook if its only unsaved changes are those of this extension.
 *
 * Unsaved edits of the user stay unsaved. If another tab saved the same outputs meanwhile, the file is read again,
 * without a dialog about a conflict that does not exist.
 *
 * A notebook that several pages share is saved by its server, and here only when the user asks for it.
 *
 * Saves follow one another, also those of the user: one that begins during another finds a file that has changed, and the
 * lab asks the user what to do about it. Many jobs of one notebook may end at the same time. The tabs of a browser that
 * show one notebook take turns too, if the page came by https or from this machine.
 */
export class Saver implements IDisposable {
  constructor(
    private readonly _context: DocumentRegistry.IContext<INotebookModel>,
    private readonly _contents: Contents.IManager
  ) {
    this._hasUserEdits = _context.isReady && _context.model.dirty;
    void _context.ready.then(() => {
      if (!this._isDisposed && !_context.isDisposed) {
        _context.model.metadataChanged.connect(this._onMetadata, this);
        _context.model.contentChanged.connect(this._onContent, this);
        _context.saveState.connect(this._onSave, this);
      }
    });
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._present?.resolve();
    if (!this._context.isDisposed) {
      this._context.model.metadataChanged.disconnect(this._onMetadata, this);
      this._context.model.contentChanged.disconnect(this._onContent, this);
      this._context.saveState.disconnect(this._onSave, this);
    }
  }

  /** Run `change` and count what it changes in the notebook as a change of this extension. */
  runOwnChange<T>(change: () => T): T {
    this._depth++;
    try {
      return change();
    } finally {
      this._depth--;
      this._hasOwnChanges = true;
    }
  }

  /** Save the notebook if all unsaved changes are those of this extension; for `again` see `save`. */
  saveOwnChanges(again?: () => void): Promise<void> {
    return this._enqueue(() => this._saveOwnChanges(again));
  }

  /**
   * Save the notebook. The document itself shows failures to the user.
   *
   * `again` makes the own change once more, which no other tab can have saved: if the file has to be read again, the
   * change is made in what was read, and saved.
   */
  save(again?: () => void): Promise<void> {
    return this._enqueue(() => this._save(again));
  }

  /** Run `save` after all earlier saves of this page, and in turn with other tabs where possible: see `holdAlone`. */
  private _enqueue(save: () => Promise<void>): Promise<void> {
    // The user may save while this page waits for its turn.
    const saveNext = async (): Promise<void> => {
      await this._present?.promise;
      await save();
    };
    this._last = this._last
      .then(() => this._present?.promise)
      .then(() => holdAlone(`jupyter-gq saves ${this._context.path}`, saveNext));
    return this._last;
  }

  private async _saveOwnChanges(again?: () => void): Promise<void> {
    const { model } = this._context;
    if (
      this._isDisposed ||
      this._context.isDisposed ||
      model.collaborative === true ||
      !model.dirty ||
      this._hasUserEdits ||
      !this._hasOwnChanges
    ) {
      return;
    }
    await this._save(again);
  }

  private async _save(again?: () => void): Promise<void> {
    const context = this._context;
    if (context.isDisposed || isReadOnly(context)) {
      return;
    }
    try {
      if (context.model.collaborative === true || !(await this._isNewerOnDisk())) {
        await context.save();
      } else if (!this._hasUserEdits) {
        await this._readAgain();
        if (again !== undefined) {
          this.runOwnChange(again);
          await context.save();
        }
      }
    } catch (reason) {
      console.warn('jupyter-gq: the notebook could not be saved', reason);
    }
  }

  /** Read the notebook from its file, which discards the changes of this page. */
  private async _readAgain(): Promise<void> {
    await this._context.revert();
    this._hasUserEdits = false;
    this._hasOwnChanges = false;
  }

  private async _isNewerOnDisk(): Promise<boolean> {
    const known = this._context.contentsModel?.last_modified;
    if (known === undefined) {
      return false;
    }
    const disk = await this._contents.get(this._context.path, { content: false }).catch(() => null);
    if (disk === null) {
      return false; // The lab makes a file that is gone anew, and shows what else keeps it from saving.
    }
    // Some file systems round times. A smaller difference than this comes from the last save of this page.
    return Date.parse(disk.last_modified) - Date.parse(known) > 500;
  }

  /** Ignore the next change: a kernel that connects writes its name and language into the notebook. */
  private _onMetadata(): void {
    this._isMetadataChange = true;
  }

  private _onContent(): void {
    if (this._isMetadataChange) {
      this._isMetadataChange = false;
      return;
    }
    if (this._depth === 0) {
      this._hasUserEdits = true;
    }
  }

  private _onSave(_: unknown, state: DocumentRegistry.SaveState): void {
    this._underWay = Math.max(0, this._underWay + (state === 'started' ? 1 : -1));
    if (this._underWay > 0) {
      this._present ??= new PromiseDelegate<void>();
    } else {
      this._present?.resolve();
      this._present = null;
    }
    if (state === 'completed') {
      this._hasUserEdits = false;
      this._hasOwnChanges = false;
    }
  }

  /** The last save that was asked for here. */
  private _last: Promise<void> = Promise.resolve();
  /** The number of saves that are under way, whoever began them; the lab does not wait for one before the next. */
  private _underWay = 0;
  /** Fulfilled when none is under way any more; null if none is. */
  private _present: PromiseDelegate<void> | null = null;
  private _depth = 0;
  private _isMetadataChange = false;
  private _hasOwnChanges = false;
  private _hasUserEdits: boolean;
  private _isDisposed = false;
}

/**
 * Run `work` while no other tab holds the lock `name`. After `LONGEST_TURN`, or in a page without locks, run it without
 * the lock. Rejects if `work` rejects.
 */
async function holdAlone(name: string, work: () => Promise<void>): Promise<void> {
  // Only pages that came by https or from this machine have locks.
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) {
    return work();
  }
  const waiting = new AbortController();
  const timer = window.setTimeout(() => waiting.abort(), LONGEST_TURN);
  let hasBegun = false;
  const begin = (): Promise<void> => {
    hasBegun = true;
    window.clearTimeout(timer);
    return work();
  };
  try {
    await locks.request(name, { signal: waiting.signal }, begin);
  } catch (reason) {
    if (hasBegun) {
      throw reason;
    }
    await begin();
  }
}
