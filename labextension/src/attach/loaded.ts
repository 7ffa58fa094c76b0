/**
 * The variables of jobs that were loaded into the kernels of open notebooks, as this page saw it.
 *
 * Rules
 * -----
 * 1. A variable is loaded once a line that loads it has run without an error in the notebook of its job: by the button,
 *    by a user who runs the cell again, or by `%gq_load`.
 * 2. A restart, another kernel, or the end of the kernel takes the variables away.
 * 3. What this page has not seen, such as a run before a reload of the page, does not count: to load again does no harm.
 *
 * See docs/decisions/0273-take-the-runs-of-cells-for-what-is-loaded.md.
 */

import type { Cell } from '@jupyterlab/cells';
import { isCodeCellModel } from '@jupyterlab/cells';
import { isStream } from '@jupyterlab/nbformat';
import type { INotebookTracker, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import { DisposableSet } from '@lumino/disposable';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { connect, NotebookAttachments } from '../lifetime';
import { ALL_NAMES, listLoadingLines, makeLoadingLine } from '../results';
import type { ILoadedVariables } from '../tokens';
import type { JobSummary } from '../wire';
import { showsJob } from './locate';

/** The news of `NotebookActions` about a cell that has run. */
interface IExecuted {
  readonly notebook: Notebook;
  readonly cell: Cell;
  readonly success: boolean;
}

/** The loaded variables of all open notebooks. */
export class LoadedVariables implements ILoadedVariables, IDisposable {
  /** Without a tracker, the page has no notebooks. */
  constructor(tracker: INotebookTracker | null) {
    if (tracker === null) {
      return;
    }
    const notebooks = new NotebookAttachments(
      tracker,
      panel => new LoadedHere(panel, () => this._changed.emit())
    );
    this._owned.add(notebooks);
    const onExecuted = (_: unknown, { notebook, cell, success }: IExecuted): void => {
      const panel = tracker.find(({ content }) => content === notebook);
      if (success && panel !== undefined) {
        notebooks.get(panel)?.record(cell.model.sharedModel.getSource(), () => readPrinted(cell));
      }
    };
    this._owned.add(connect(NotebookActions.executed, onExecuted));
    this._findAll = () => listAttached(tracker, notebooks);
  }

  get changed(): ISignal<ILoadedVariables, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._owned.isDisposed;
  }

  dispose(): void {
    this._owned.dispose();
    Signal.clearData(this);
  }

  hasAll(job: JobSummary, names: readonly string[]): boolean {
    return this._findAll().some(notebook => notebook.hasAll(job, names));
  }

  private _findAll: () => LoadedHere[] = () => [];
  private readonly _owned = new DisposableSet();
  private readonly _changed = new Signal<ILoadedVariables, void>(this);
}

/** Return what a cell has printed. */
function readPrinted(cell: Cell): string {
  const outputs = isCodeCellModel(cell.model) ? cell.model.outputs.toJSON() : [];
  return outputs.map(output => (isStream(output) ? [output.text].flat().join('') : '')).join('');
}

/** Return what is attached to the open notebooks. */
function listAttached<T extends IDisposable>(
  tracker: INotebookTracker,
  attached: NotebookAttachments<T>
): T[] {
  const found: T[] = [];
  tracker.forEach(panel => {
    const here = attached.get(panel);
    if (here !== undefined) {
      found.push(here);
    }
  });
  return found;
}

/** The loaded variables of one notebook: the lines that loaded them in its present kernel. */
class LoadedHere implements IDisposable {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _onChange: () => void
  ) {
    const { kernelChanged, statusChanged } = _panel.sessionContext;
    this._owned = DisposableSet.from([
      connect(kernelChanged, () => this._clear()),
      connect(statusChanged, (_, status) => {
        if (['restarting', 'autorestarting', 'terminating', 'dead'].includes(status)) {
          this._clear();
        }
      })
    ]);
  }

  get isDisposed(): boolean {
    return this._owned.isDisposed;
  }

  dispose(): void {
    this._owned.dispose();
  }

  /** Record that a cell with this source has run; `read` returns what it has printed. */
  record(source: string, read: () => string): void {
    const lines = listLoadingLines(source, read);
    if (lines.length > 0 && !this._panel.sessionContext.hasNoKernel) {
      lines.forEach(line => this._lines.add(line));
      this._onChange();
    }
  }

  /** Return whether this is the notebook of the job, and the variables with these names are loaded. */
  hasAll(job: JobSummary, names: readonly string[]): boolean {
    const isHome = this._panel.context.path === job.notebook_path || showsJob(this._panel, job);
    const has = (name: string): boolean => this._lines.has(makeLoadingLine(job.id, name));
    return isHome && (has(ALL_NAMES) || names.every(has));
  }

  private _clear(): void {
    if (this._lines.size > 0) {
      this._lines.clear();
      this._onChange();
    }
  }

  private readonly _owned: IDisposable;
  private readonly _lines = new Set<string>();
}
