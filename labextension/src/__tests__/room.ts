/** A stand-in for the server of a shared notebook: what one page changes reaches the others a moment later. */

import type { YCodeCell } from '@jupyter/ydoc';
import { YNotebook } from '@jupyter/ydoc';
import type { IOutput } from '@jupyterlab/nbformat';
import { NotebookModel } from '@jupyterlab/notebook';
import type { Awareness } from 'y-protocols/awareness';
import { applyAwarenessUpdate, encodeAwarenessUpdate, removeAwarenessStates } from 'y-protocols/awareness';
import { applyUpdate, encodeStateAsUpdate } from 'yjs';

import { Desk } from './desk';
import { FakePanel } from './notebooks';

/** Milliseconds that a message needs from one page to another. */
const LATENCY = 20;

interface IAwarenessChange {
  readonly added: number[];
  readonly updated: number[];
  readonly removed: number[];
}

/** A page that shows the shared notebook. */
export class Page extends Desk {
  constructor(
    readonly shared: YNotebook,
    printed: string[]
  ) {
    super(
      new FakePanel(
        [],
        'digits.ipynb',
        new NotebookModel({ sharedModel: shared, collaborationEnabled: true })
      ),
      printed
    );
  }

  get awareness(): Awareness {
    return this.shared.awareness;
  }

  /** The outputs of the first cell in the document. */
  get documented(): IOutput[] {
    return (this.shared.getCell(0) as YCodeCell).getOutputs();
  }

  /** Whether this page has the turn to write. */
  get turn(): number | undefined {
    const own = this.awareness.getLocalState() as { jupyter_gq?: { turn: number } | null } | null;
    return own?.jupyter_gq?.turn;
  }
}

/** The room of a notebook with one code cell, and the output of its job. */
export class Room {
  constructor() {
    this._server.insertCell(0, { cell_type: 'code', source: 'train()' });
  }

  /** Text that the job prints, a piece each. */
  readonly printed: string[] = [];
  readonly pages: Page[] = [];

  /** Open the notebook in another page, which other pages learn at once; the server tells the page of no others. */
  open(): Page {
    const shared = new YNotebook({});
    const page = new Page(shared, this.printed);
    applyUpdate(shared.ydoc, encodeStateAsUpdate(this._server.ydoc), this);
    page.notebook.show();
    this.pages.push(page);
    shared.ydoc.on('update', (update: Uint8Array, origin: unknown) => {
      if (origin !== this && this.pages.includes(page)) {
        this._deliver(page, update);
      }
    });
    page.awareness.on('update', (change: IAwarenessChange, origin: unknown) => {
      if (origin === 'local') {
        this._tell(page, change);
      }
    });
    this._deliver(page, encodeStateAsUpdate(shared.ydoc));
    this._tell(page, { added: [page.awareness.clientID], updated: [], removed: [] });
    return page;
  }

  /** Close a page. With `isLost`, it is not able to say so, and the others notice it by its silence. */
  async close(page: Page, isLost = false): Promise<void> {
    if (isLost) {
      this.pages.splice(this.pages.indexOf(page), 1);
    }
    page.bindings.dispose();
    page.awareness.setLocalState(null);
    await jest.advanceTimersByTimeAsync(LATENCY);
    if (isLost) {
      this.pages.forEach(other =>
        removeAwarenessStates(other.awareness, [page.awareness.clientID], 'timeout')
      );
    } else {
      this.pages.splice(this.pages.indexOf(page), 1);
    }
  }

  /** Run `change` while the pages cannot reach each other; afterwards each gets all that it has missed as one change. */
  async cut(change: () => Promise<void>): Promise<void> {
    this._isCut = true;
    await change();
    this._isCut = false;
    this.pages.forEach(page => applyUpdate(this._server.ydoc, encodeStateAsUpdate(page.shared.ydoc), this));
    this.pages.forEach(page => applyUpdate(page.shared.ydoc, encodeStateAsUpdate(this._server.ydoc), this));
  }

  private _deliver(from: Page, update: Uint8Array): void {
    this._send(() => {
      applyUpdate(this._server.ydoc, update, this);
      this.pages.filter(page => page !== from).forEach(page => applyUpdate(page.shared.ydoc, update, this));
    });
  }

  private _tell(from: Page, { added, updated, removed }: IAwarenessChange): void {
    const update = encodeAwarenessUpdate(from.awareness, [...added, ...updated, ...removed]);
    this._send(() =>
      this.pages
        .filter(page => page !== from)
        .forEach(page => applyAwarenessUpdate(page.awareness, update, this))
    );
  }

  private _send(message: () => void): void {
    if (!this._isCut) {
      setTimeout(message, LATENCY);
    }
  }

  private readonly _server = new YNotebook({});
  private _isCut = false;
}
