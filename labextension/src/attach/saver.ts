import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';

/**
 * Knows whether the only unsaved changes of a notebook are ours, and then saves it.
 *
 * What a user has not saved stays unsaved. When the file changed on disk meanwhile (another tab saved the same outputs), that
 * file is read again in place of a dialog about a conflict that is none.
 */
export class Saver implements IDisposable {
  constructor(
    private readonly _context: DocumentRegistry.IContext<INotebookModel>,
    private readonly _contents: Contents.IManager
  ) {
    this._foreign = _context.isReady && _context.model.dirty;
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
    if (!this._context.isDisposed) {
      this._context.model.metadataChanged.disconnect(this._onMetadata, this);
      this._context.model.contentChanged.disconnect(this._onContent, this);
      this._context.saveState.disconnect(this._onSave, this);
    }
  }

  /** Runs a change of ours. */
  ours<T>(change: () => T): T {
    this._depth++;
    try {
      return change();
    } finally {
      this._depth--;
      this._own = true;
    }
  }

  /** Saves when all unsaved changes are ours. */
  async saveIfOurs(): Promise<void> {
    const { model } = this._context;
    if (this._isDisposed || this._context.isDisposed || !model.dirty || this._foreign || !this._own) {
      return;
    }
    await this.save();
  }

  /** Saves; failures are shown by the document itself. */
  async save(): Promise<void> {
    const context = this._context;
    if (context.model.readOnly || context.contentsModel?.writable === false) {
      return;
    }
    try {
      if (await this._isNewerOnDisk()) {
        await (this._foreign ? Promise.resolve() : context.revert());
      } else {
        await context.save();
      }
    } catch (reason) {
      console.warn('jupyter-gq: the notebook could not be saved', reason);
    }
  }

  private async _isNewerOnDisk(): Promise<boolean> {
    const known = this._context.contentsModel?.last_modified;
    if (known === undefined) {
      return false;
    }
    const disk = await this._contents.get(this._context.path, { content: false });
    // Some file systems round: what differs by less than this was written by us.
    return Date.parse(disk.last_modified) - Date.parse(known) > 500;
  }

  /** A kernel that connects writes its name and language into the notebook: no edit of the user. */
  private _onMetadata(): void {
    this._isMetadata = true;
  }

  private _onContent(): void {
    if (this._isMetadata) {
      this._isMetadata = false;
      return;
    }
    if (this._depth === 0) {
      this._foreign = true;
    }
  }

  private _onSave(_: unknown, state: DocumentRegistry.SaveState): void {
    if (state === 'completed') {
      this._foreign = false;
      this._own = false;
    }
  }

  private _depth = 0;
  private _isMetadata = false;
  private _own = false;
  private _foreign: boolean;
  private _isDisposed = false;
}
