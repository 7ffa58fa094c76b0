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

/** The locks of a browser: one holder of a name at a time, in the order of the requests, until one is given up. */
class FakeLocks {
  async request(name: string, { signal }: LockOptions, work: () => Promise<void>): Promise<void> {
    const turn = this._last.get(name) ?? Promise.resolve();
    const given = new Promise<void>((resolve, reject) => {
      signal?.addEventListener('abort', () => reject(new Error('given up')));
      void turn.then(resolve);
    });
    const done = given.then(work);
    this._last.set(
      name,
      Promise.allSettled([turn, done]).then(() => undefined)
    );
    return done;
  }

  private readonly _last = new Map<string, Promise<void>>();
}

/** Let another tab save for so long; return what ends its turn. */
function beginElsewhere(): () => void {
  let end = (): void => undefined;
  const locks = new FakeLocks();
  const work = (): Promise<void> => new Promise(resolve => (end = resolve));
  void locks.request('jupyter-gq saves digits.ipynb', {}, work);
  Object.defineProperty(navigator, 'locks', { value: locks, configurable: true });
  return () => end();
}

/** A tab with one of the pages that show the same file; the lab asks the user if the file is newer when it saves. */
class Tab extends SlowDocument {
  constructor(readonly file: { writtenAt: number }) {
    super();
  }

  asked = false;

  async save(): Promise<void> {
    const known = Date.parse(this.contentsModel.last_modified);
    await super.save();
    this.asked ||= this.file.writtenAt > known;
    this.file.writtenAt += MINUTE;
    this.contentsModel.last_modified = new Date(this.file.writtenAt).toISOString();
  }
}

async function aSaver(document: FakeDocument, writtenAt = (): number => document.onDisk): Promise<Saver> {
  const contents = {
    get: () => Promise.resolve().then(() => ({ last_modified: new Date(writtenAt()).toISOString() }))
  };
  const saver = new Saver(
    document as unknown as DocumentRegistry.IContext<INotebookModel>,
    contents as unknown as Contents.IManager
  );
  await document.ready;
  await Promise.resolve();
  return saver;
}

afterEach(() => {
  Reflect.deleteProperty(navigator, 'locks');
  jest.useRealTimers();
});

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

  it('also if its file is gone: the lab makes it anew, or says why it cannot', async () => {
    const document = new FakeDocument();
    const saver = await aSaver(document, () => {
      throw new Error('404: no such file');
    });
    saver.runOwnChange(() => document.edit());
    await saver.saveOwnChanges();
    expect(document.done).toEqual(['save']);
  });

  it('by reading it again where another tab saved the same outputs meanwhile', async () => {
    const document = new FakeDocument();
    const saver = await aSaver(document);
    saver.runOwnChange(() => document.edit());
    document.onDisk = MINUTE;
    await saver.saveOwnChanges();
    expect(document.done).toEqual(['revert']);
  });

  it('by one of several tabs at a time, so that the lab asks nothing about a file that they all have', async () => {
    Object.defineProperty(navigator, 'locks', { value: new FakeLocks(), configurable: true });
    const file = { writtenAt: 0 };
    const tabs = [new Tab(file), new Tab(file), new Tab(file)];
    const savers = await Promise.all(tabs.map(tab => aSaver(tab, () => file.writtenAt)));
    savers.forEach((saver, index) => saver.runOwnChange(() => tabs[index].edit()));
    await Promise.all(savers.map(saver => saver.saveOwnChanges()));
    expect(tabs.map(tab => tab.done)).toEqual([['save'], ['revert'], ['revert']]);
    expect(tabs.some(tab => tab.asked)).toBe(false);
  });

  it('also if another tab does not end its turn: it may be asking its user about the file', async () => {
    jest.useFakeTimers();
    beginElsewhere();
    const document = new FakeDocument();
    const saver = await aSaver(document);
    saver.runOwnChange(() => document.edit());
    void saver.saveOwnChanges();
    await jest.advanceTimersByTimeAsync(1000);
    expect(document.done).toEqual([]);
    await jest.advanceTimersByTimeAsync(MINUTE);
    expect(document.done).toEqual(['save']);
  });

  it('after a save that the user begins while another tab has its turn', async () => {
    const end = beginElsewhere();
    const document = new SlowDocument();
    const saver = await aSaver(document);
    saver.runOwnChange(() => document.edit());
    const saved = saver.save();
    await new Promise(resolve => setTimeout(resolve));
    const byUser = document.save();
    end();
    await Promise.all([saved, byUser]);
    expect([document.most, document.done]).toEqual([1, ['save', 'save']]);
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
