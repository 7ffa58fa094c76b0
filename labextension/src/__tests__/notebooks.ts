/** Stand-ins for open notebooks. Their models are JupyterLab's own. */

import type { ICodeCellModel } from '@jupyterlab/cells';
import { CodeCell } from '@jupyterlab/cells';
import type { INotebookTracker, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions, NotebookModel } from '@jupyterlab/notebook';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { countConnections } from './fakes';

interface IFakeCell {
  readonly model: ICodeCellModel;
  readonly node: HTMLElement;
}

/** The connection of a notebook to its kernel. */
class FakeSession {
  session: { kernel: { id: string; interrupt?: () => Promise<void> } | null } | null = {
    kernel: { id: 'kernel-1' }
  };
  ready: Promise<void> = Promise.resolve();
  readonly iopubMessage: Signal<FakeSession, object> = new Signal<FakeSession, object>(this);
  readonly statusChanged: Signal<FakeSession, string> = new Signal<FakeSession, string>(this);
  readonly kernelChanged: Signal<FakeSession, object> = new Signal<FakeSession, object>(this);

  /** Whether the user has to choose a kernel, such as in place of one that is not installed. */
  needsChoice = false;

  get hasNoKernel(): boolean {
    return !this.session?.kernel;
  }

  /** Be as JupyterLab leaves a notebook whose kernel is not installed, once the user has chosen none in its place. */
  stayWithoutKernel(): void {
    [this.session, this.needsChoice] = [null, true];
    this.ready = new Promise(() => undefined);
  }

  initialize(): Promise<boolean> {
    return Promise.resolve(this.needsChoice);
  }
}

/** An open notebook with a code cell for each source. */
export class FakePanel {
  constructor(
    sources: readonly string[] = ['train()'],
    path = 'digits.ipynb',
    readonly model = new NotebookModel()
  ) {
    this.model.sharedModel.insertCells(
      0,
      sources.map(source => ({ cell_type: 'code' as const, source }))
    );
    this.context.path = path;
    this.context.model = this.model;
    this.model.dirty = false;
  }

  readonly id = 'notebook-1';
  readonly node = document.createElement('div');
  isDisposed = false;
  readonly disposed: Signal<FakePanel, void> = new Signal<FakePanel, void>(this);
  readonly sessionContext = new FakeSession();
  readonly context = {
    path: '',
    model: null as NotebookModel | null,
    contentsModel: { writable: true, last_modified: new Date(0).toISOString() } as object | null,
    ready: Promise.resolve(),
    isReady: true,
    isDisposed: false,
    fileChanged: new Signal<object, object>({}),
    pathChanged: new Signal<object, string>({}),
    saveState: new Signal<object, string>({}),
    save: (): Promise<void> => {
      this.saves++;
      this.model.dirty = false;
      this.context.saveState.emit('completed');
      return Promise.resolve();
    },
    revert: (): Promise<void> => Promise.resolve()
  };
  readonly content = {
    node: this.node.appendChild(Object.assign(document.createElement('div'), { tabIndex: -1 })),
    /** Take the focus, as JupyterLab's notebook does for its active cell. */
    activate: (): void => this.content.node.focus(),
    activeCellIndex: 0,
    scrolledTo: -1,
    mode: 'command',
    /** Indexes of selected cells. */
    selected: [0],
    widgets: [] as IFakeCell[],
    activeCell: null as IFakeCell | null,
    isSelectedOrActive: (cell: IFakeCell): boolean =>
      this.content.selected.includes(this.widgets.indexOf(cell)),
    deselectAll: (): void => void (this.content.selected = []),
    scrollToItem: (index: number): Promise<void> => {
      this.content.scrolledTo = index;
      return Promise.resolve();
    }
  };
  readonly connections = countConnections([
    this.disposed,
    this.model.cells.changed,
    this.model.contentChanged,
    this.model.metadataChanged,
    this.context.fileChanged,
    this.context.pathChanged,
    this.context.saveState,
    this.sessionContext.iopubMessage,
    this.sessionContext.statusChanged,
    this.sessionContext.kernelChanged
  ]);
  saves = 0;

  /** The code cells, as widgets. */
  get widgets(): IFakeCell[] {
    return this.content.widgets;
  }

  /** Make the widgets of the cells, which JupyterLab makes when a notebook is shown. */
  show(): this {
    this.content.widgets = this.cells.map(model => cellWidget(model));
    this.content.activeCell = this.widgets[0] ?? null;
    return this;
  }

  get cells(): ICodeCellModel[] {
    return Array.from(this.model.cells) as ICodeCellModel[];
  }

  /** The outputs of a cell, as JSON. */
  outputs(index = 0): unknown[] {
    return this.cells[index].outputs.toJSON();
  }

  /** Close the notebook. */
  close(): void {
    this.isDisposed = true;
    this.disposed.emit();
    this.model.dispose();
  }

  get panel(): NotebookPanel {
    return this as unknown as NotebookPanel;
  }
}

/** A cell on the screen that passes for JupyterLab's. */
function cellWidget(model: ICodeCellModel): IFakeCell {
  const widget = Object.create(CodeCell.prototype) as CodeCell;
  Object.defineProperty(widget, 'model', { value: model });
  Object.defineProperty(widget, 'outputArea', { value: { future: null }, configurable: true });
  Object.defineProperty(widget, 'node', { value: document.createElement('div') });
  return widget;
}

/** JupyterLab's list of open notebooks. */
export class FakeTracker {
  readonly panels: FakePanel[] = [];
  currentWidget: FakePanel | null = null;
  readonly widgetAdded: Signal<FakeTracker, FakePanel> = new Signal<FakeTracker, FakePanel>(this);
  readonly currentChanged: Signal<FakeTracker, FakePanel> = new Signal<FakeTracker, FakePanel>(this);
  readonly activeCellChanged: Signal<FakeTracker, object> = new Signal<FakeTracker, object>(this);
  readonly connections = countConnections([this.widgetAdded, this.currentChanged, this.activeCellChanged]);

  forEach(visit: (panel: FakePanel) => void): void {
    this.panels.forEach(visit);
  }

  find(test: (panel: FakePanel) => boolean): FakePanel | undefined {
    return this.panels.find(test);
  }

  /** Open a notebook and show it. */
  open(panel: FakePanel): FakePanel {
    this.panels.push(panel.show());
    this.currentWidget = panel;
    this.widgetAdded.emit(panel);
    return panel;
  }

  get tracker(): INotebookTracker {
    return this as unknown as INotebookTracker;
  }
}

/** JupyterLab's own signals about cells that are run, which a test can send. */
export const RUNS = {
  scheduled: NotebookActions.executionScheduled as unknown as Signal<unknown, object>,
  executed: NotebookActions.executed as unknown as Signal<unknown, object>
};

/** Tell that a cell of a notebook was handed to its kernel. */
export function startCell(panel: FakePanel, index = 0): void {
  RUNS.scheduled.emit({ notebook: panel.content as unknown as Notebook, cell: panel.widgets[index] });
}

/** Tell that a cell of a notebook has ended, with the kernel's counter. */
export function endCell(panel: FakePanel, index: number, executionCount: number, success = true): void {
  panel.cells[index].executionCount = executionCount;
  RUNS.executed.emit({ notebook: panel.content as unknown as Notebook, cell: panel.widgets[index], success });
}

/** The connections to JupyterLab's own signals. */
export const RUN_CONNECTIONS = countConnections([
  NotebookActions.executionScheduled as ISignal<unknown, unknown>,
  NotebookActions.executed as ISignal<unknown, unknown>
]);
