import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { Saver } from '../attach/saver';

const MINUTE = 60_000;

/** A notebook that is open, and what became of it. */
class FakeDocument {
  readonly model = {
    dirty: false,
    readOnly: false,
    contentChanged: new Signal<FakeDocument, void>(this),
    metadataChanged: new Signal<FakeDocument, void>(this)
  };
  readonly saveState = new Signal<FakeDocument, string>(this);
  readonly ready = Promise.resolve();
  readonly isReady = false;
  readonly isDisposed = false;
  readonly path = 'digits.ipynb';
  readonly contentsModel = { writable: true, last_modified: new Date(0).toISOString() };
  /** When the file on disk was written, in milliseconds. */
  onDisk = 0;
  readonly done: string[] = [];

  edit(): void {
    this.model.dirty = true;
    this.model.contentChanged.emit();
  }

  kernelConnects(): void {
    this.model.dirty = true;
    this.model.metadataChanged.emit();
    this.model.contentChanged.emit();
  }

  save(): Promise<void> {
    this.done.push('save');
    this.model.dirty = false;
    this.saveState.emit('completed');
    return Promise.resolve();
  }

  revert(): Promise<void> {
    this.done.push('revert');
    this.model.dirty = false;
    return Promise.resolve();
  }
}

/** A notebook whose saves take a while. */
class SlowDocument extends FakeDocument {
  underWay = 0;
  most = 0;

  async save(): Promise<void> {
    this.saveState.emit('started');
    this.underWay++;
    this.most = Math.max(this.most, this.underWay);
    await new Promise(resolve => setTimeout(resolve, 20));
    this.underWay--;
    await super.save();
  }
}

async function aSaver(document: FakeDocument): Promise<Saver> {
  const contents = {
    get: () => Promise.resolve({ last_modified: new Date(document.onDisk).toISOString() })
  };
  const saver = new Saver(
    document as unknown as DocumentRegistry.IContext<INotebookModel>,
    contents as unknown as Contents.IManager
  );
  await document.ready;
  await Promise.resolve();
  return saver;
}

describe('a notebook is saved', () => {
  it('when all unsaved changes are ours', async () => {
    const document = new FakeDocument();
    const saver = await aSaver(document);
    saver.runOwnChange(() => document.edit());
    await saver.saveOwnChanges();
    expect(document.done).toEqual(['save']);
  });

  it('never, when the user has unsaved edits, before or after ours', async () => {
    for (const userFirst of [true, false]) {
      const document = new FakeDocument();
      const saver = await aSaver(document);
      const changes = [(): void => document.edit(), (): void => saver.runOwnChange(() => document.edit())];
      (userFirst ? changes : changes.reverse()).forEach(change => change());
      await saver.saveOwnChanges();
      expect(document.done).toEqual([]);
    }
  });

  it('again, once the user has saved the edits', async () => {
    const document = new FakeDocument();
    const saver = await aSaver(document);
    document.edit();
    await document.save();
    saver.runOwnChange(() => document.edit());
    await saver.saveOwnChanges();
    expect(document.done).toEqual(['save', 'save']);
  });

  it('although a kernel wrote its name into it', async () => {
    const document = new FakeDocument();
    const saver = await aSaver(document);
    document.kernelConnects();
    saver.runOwnChange(() => document.edit());
    await saver.saveOwnChanges();
    expect(document.done).toEqual(['save']);
  });

  it('not at all when there is nothing to save', async () => {
    const document = new FakeDocument();
    await (await aSaver(document)).saveOwnChanges();
    expect(document.done).toEqual([]);
  });

  it('by reading it again where another tab saved the same outputs meanwhile', async () => {
    const document = new FakeDocument();
    const saver = await aSaver(document);
    saver.runOwnChange(() => document.edit());
    document.onDisk = MINUTE;
    await saver.saveOwnChanges();
    expect(document.done).toEqual(['revert']);
  });

  it('neither way where the file changed on disk and the user has edits: JupyterLab asks', async () => {
    const document = new FakeDocument();
    const saver = await aSaver(document);
    document.edit();
    document.onDisk = MINUTE;
    await saver.save();
    expect(document.done).toEqual([]);
  });

  it('no more once it is closed', async () => {
    const document = new FakeDocument();
    const saver = await aSaver(document);
    saver.runOwnChange(() => document.edit());
    saver.dispose();
    await saver.saveOwnChanges();
    expect(document.done).toEqual([]);
  });

  it('saves one after the other when several jobs end at the same time, and after a save of the user', async () => {
    const document = new SlowDocument();
    const saver = await aSaver(document);
    saver.runOwnChange(() => document.edit());
    await Promise.all([document.save(), saver.save(), saver.saveOwnChanges(), saver.save()]);
    expect([document.most, document.done]).toEqual([1, ['save', 'save', 'save']]);
  });
});
