/** Lifetimes: connections that end, and plugins that undo their activation. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ITranslator } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate, DisposableSet } from '@lumino/disposable';
import type { ISignal, Slot } from '@lumino/signaling';

import { loadTranslations } from './translation';

/** Connect `slot` to `signal` until the result is disposed. */
export function connect<T, U>(signal: ISignal<T, U>, slot: Slot<T, U>): IDisposable {
  signal.connect(slot);
  return new DisposableDelegate(() => {
    signal.disconnect(slot);
  });
}

/** An activation of a plugin. */
export interface IActivation {
  readonly app: JupyterFrontEnd;
  /** The disposables that undo the activation when the plugin is deactivated. */
  readonly owned: DisposableSet;
  /** The words of this extension in the language of the user. */
  readonly trans: TranslationBundle;
  /** The translator for the parts of JupyterLab that the plugin makes; undefined if there is none. */
  readonly translator?: ITranslator;
}

/** A plugin whose `activate` adds to `owned` a disposable for each effect that must be undone. */
export interface IOwningPlugin<T, S extends unknown[]> extends Omit<
  JupyterFrontEndPlugin<T>,
  'activate' | 'deactivate'
> {
  /** Start the plugin. `services` are those of `requires`, then those of `optional`, in their order. */
  activate: (activation: IActivation, ...services: S) => T;
}

/**
 * Return a plugin that, when it is deactivated, disposes what its activation added to `owned`.
 *
 * The plugin asks for JupyterLab's translator after its own services, and does without.
 */
export function definePlugin<T, S extends unknown[]>(
  definition: IOwningPlugin<T, S>
): JupyterFrontEndPlugin<T> {
  let owned = new DisposableSet();
  const own = (definition.requires ?? []).length + (definition.optional ?? []).length;
  return {
    ...definition,
    optional: [...(definition.optional ?? []), ITranslator],
    activate: (app: JupyterFrontEnd, ...services: unknown[]): T => {
      owned = new DisposableSet();
      const translator = (services[own] as ITranslator | null | undefined) ?? undefined;
      const activation = { app, owned, trans: loadTranslations(translator ?? null), translator };
      return definition.activate(activation, ...(services.slice(0, own) as S));
    },
    deactivate: () => owned.dispose()
  };
}

/** The attachments of all notebooks, open now or opened later, one for each. An attachment is disposed with its notebook. */
export class NotebookAttachments<T extends IDisposable> implements IDisposable {
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _attach: (panel: NotebookPanel) => T
  ) {
    _tracker.forEach(panel => this._add(panel));
    _tracker.widgetAdded.connect(this._onAdded, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Dispose every attachment, and make no more. */
  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._tracker.widgetAdded.disconnect(this._onAdded, this);
    [...this._attached.keys()].forEach(panel => this._remove(panel));
  }

  /** Return the attachment of a notebook; undefined if the notebook is closed or not tracked. */
  get(panel: NotebookPanel): T | undefined {
    return this._attached.get(panel);
  }

  private _onAdded(_: unknown, panel: NotebookPanel): void {
    this._add(panel);
  }

  private _add(panel: NotebookPanel): void {
    if (!this._attached.has(panel)) {
      this._attached.set(panel, this._attach(panel));
      panel.disposed.connect(this._remove, this);
    }
  }

  private _remove(panel: NotebookPanel): void {
    panel.disposed.disconnect(this._remove, this);
    this._attached.get(panel)?.dispose();
    this._attached.delete(panel);
  }

  private readonly _attached = new Map<NotebookPanel, T>();
  private _isDisposed = false;
}
