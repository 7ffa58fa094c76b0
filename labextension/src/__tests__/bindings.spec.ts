import type { Contents } from '@jupyterlab/services';

import { METADATA_KEY, readBinding } from '../attach/metadata';
import { Originals } from '../attach/original';
import { Client } from '../client';
import type { JobView } from '../wire';
import { aJob } from './builders';
import { aFile, closeDesks, Desk, SECOND } from './desk';
import { FakeServer, ListenerCount, setVisibility, sumConnections } from './fakes';

async function bound(given: Partial<JobView> = {}, save = false): Promise<[Desk, JobView]> {
  const desk = new Desk();
  const job = desk.job(0, given);
  desk.training.recordJob(job);
  await desk.bindings.bind(job, save);
  await jest.advanceTimersByTimeAsync(SECOND);
  return [desk, job];
}

beforeEach(() => {
  jest.useFakeTimers();
  // Yjs warns that cells are read before they belong to a document, which JupyterLab itself does.
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
});
afterEach(() => {
  setVisibility('visible');
  closeDesks();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

describe('a cell that was sent', () => {
  it('shows the output of its job as it arrives, and its phase', async () => {
    const [desk, job] = await bound();
    await desk.print(job, 'epoch 1\n');
    await desk.print(job, 'epoch 2\n');
    expect(desk.text()).toBe('epoch 1\nepoch 2\n');
    desk.isOver = true;
    desk.training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq: 2 });
    await jest.advanceTimersByTimeAsync(SECOND);
    expect([desk.phase(), desk.text()]).toEqual(['done', 'epoch 1\nepoch 2\n']);
  });

  it('knows in its file whether it ran to its end', async () => {
    const [desk, job] = await bound();
    const ended = (): unknown => readBinding(desk.notebook.cells[0].getMetadata(METADATA_KEY))?.ended;
    await desk.print(job, 'epoch 1\n');
    expect(ended()).toBe(false);
    desk.hasEnded = true;
    desk.training.recordJob({ ...job, last_seq: 2 });
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(ended()).toBe(true);
  });

  it.each([
    ['running', null],
    ['done', 'done']
  ] as const)(
    'leaves its status line behind when it is pasted elsewhere, while it is %s',
    async (phase, shown) => {
      const [desk, job] = await bound();
      await desk.print(job, 'epoch 1\n');
      desk.isOver = phase === 'done';
      desk.training.recordJob({ ...job, phase, last_seq: 1 });
      await jest.advanceTimersByTimeAsync(SECOND);
      const { sharedModel } = desk.notebook.model;
      const [original] = desk.notebook.cells;
      const { cell_type, source, metadata, outputs } = original.toJSON();
      sharedModel.insertCells(2, [{ cell_type, source, metadata, outputs }]);
      await jest.advanceTimersByTimeAsync(SECOND);
      expect([desk.phase(2), desk.phase(0)]).toEqual([shown, phase]);
      expect(desk.notebook.cells[2].getMetadata(METADATA_KEY) === undefined).toBe(shown === null);
      expect(desk.notebook.outputs(2).at(-1)).toMatchObject({ text: 'epoch 1\n' });
      await desk.print(job, 'epoch 2\n');
      expect(desk.notebook.outputs(2).at(-1)).toMatchObject({ text: 'epoch 1\n' });
    }
  );

  it('keeps its line and its output where it is moved, which JupyterLab does by a new cell', async () => {
    const [desk, job] = await bound();
    await desk.print(job, 'epoch 1\n');
    const [before] = desk.notebook.cells;
    desk.notebook.model.sharedModel.moveCell(0, 1);
    expect(before.isDisposed).toBe(true);
    await desk.print(job, 'epoch 2\n'); // arrives before the page has looked for cells that came or went
    await desk.print(job, 'epoch 3\n');
    desk.isOver = true;
    desk.training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq: 3 });
    await jest.advanceTimersByTimeAsync(SECOND);
    expect([desk.phase(1), desk.text(1)]).toEqual(['done', 'epoch 1\nepoch 2\nepoch 3\n']);
    expect([desk.phase(0), desk.notebook.outputs(0), desk.detached]).toEqual([null, [], []]);
  });

  it('leaves all other cells alone', async () => {
    const [desk, job] = await bound();
    await desk.print(job, 'epoch 1\n');
    expect([desk.phase(1), desk.notebook.outputs(1)]).toEqual([null, []]);
  });

  it('is saved at once if the user wants that, with unsaved edits', async () => {
    const desk = new Desk();
    await jest.advanceTimersByTimeAsync(SECOND);
    desk.notebook.cells[1].sharedModel.setSource('plot(2)');
    await desk.bindings.bind(desk.job(), true);
    expect(desk.notebook.saves).toBe(1);
  });

  it('is not saved with unsaved edits if the user does not want that', async () => {
    const desk = new Desk();
    await jest.advanceTimersByTimeAsync(SECOND);
    desk.notebook.cells[1].sharedModel.setSource('plot(2)');
    await desk.bindings.bind(desk.job(), false);
    expect(desk.notebook.saves).toBe(0);
  });

  it('is saved with its output once the job is over', async () => {
    const [desk, job] = await bound();
    const before = desk.notebook.saves;
    desk.isOver = true;
    desk.training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq: 1 });
    await desk.print(job, 'end\n');
    expect(desk.notebook.saves).toBe(before + 1);
  });
});

describe('a cell that no longer belongs to its job', () => {
  it('keeps its own output when it is run here, and the user is told once', async () => {
    const [desk, job] = await bound();
    const [cell] = desk.notebook.cells;
    desk.bindings.handleLocalRun(cell.id);
    cell.outputs.clear();
    cell.outputs.add({ output_type: 'stream', name: 'stdout', text: 'local\n' });
    await desk.print(job, 'remote\n');
    expect(desk.notebook.outputs()).toEqual([{ output_type: 'stream', name: 'stdout', text: 'local\n' }]);
    expect(cell.getMetadata(METADATA_KEY)).toBeUndefined();
    expect(desk.detached).toEqual([[job.id, 'replaced']]);
  });

  it('is not written after an edit, and written again when the edit is undone', async () => {
    const [desk, job] = await bound();
    const source = desk.notebook.cells[0].sharedModel;
    source.setSource('train(2)');
    await desk.print(job, 'one\n');
    await desk.print(job, 'two\n');
    expect([desk.text(), desk.detached]).toEqual(['', [[job.id, 'edited']]]);
    source.setSource('train()');
    await desk.print(job, 'three\n');
    expect(desk.text()).toBe('one\ntwo\nthree\n');
  });

  it('gets all output as soon as the edit is undone, also if the job is over by then', async () => {
    const [desk, job] = await bound();
    const source = desk.notebook.cells[0].sharedModel;
    source.setSource('train(2)');
    await desk.print(job, 'one\n');
    desk.isOver = true;
    desk.training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq: 1 });
    await jest.advanceTimersByTimeAsync(SECOND);
    expect([desk.phase(), desk.text()]).toEqual(['running', '']);
    source.setSource('train()');
    await jest.advanceTimersByTimeAsync(SECOND);
    expect([desk.phase(), desk.text()]).toEqual(['done', 'one\n']);
  });

  it('is reported when it is deleted', async () => {
    const [desk, job] = await bound();
    desk.notebook.model.sharedModel.deleteCell(0);
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.detached).toEqual([[job.id, 'deleted']]);
  });

  it('is reported as what it is if it is made a text', async () => {
    const [desk, job] = await bound();
    const { sharedModel } = desk.notebook.model;
    const { id } = desk.notebook.cells[0];
    sharedModel.deleteCell(0);
    sharedModel.insertCell(0, { cell_type: 'markdown', id, source: 'train()' });
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.detached).toEqual([[job.id, 'converted']]);
  });

  it('is left alone if its output is cleared, and the user is told so', async () => {
    const [desk, job] = await bound();
    desk.notebook.cells[0].outputs.clear();
    await desk.print(job, 'one\n');
    expect([desk.notebook.outputs(), desk.detached]).toEqual([[], [[job.id, 'cleared']]]);
  });

  it('is not reported once the job is over', async () => {
    const [desk, job] = await bound();
    desk.training.recordJob({ ...job, phase: 'done', finished_at: 2000 });
    await jest.advanceTimersByTimeAsync(SECOND);
    desk.notebook.model.sharedModel.deleteCell(0);
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.detached).toEqual([]);
  });
});

describe('a notebook that is opened again', () => {
  /**
   * Open the notebook again; with `isRenamed`, no other notebook has the path that the job was sent from, and with
   * `isLinked`, both paths lead to one file.
   */
  async function reopened(
    prepare: (desk: Desk, job: JobView) => Promise<void>,
    isRenamed = false,
    isLinked = false
  ): Promise<[Desk, JobView]> {
    const [first, job] = await bound();
    await prepare(first, job);
    first.bindings.dispose();
    const second = new Desk(first.notebook);
    if (isRenamed) {
      second.contents.get = () => Promise.reject(new Error('404'));
    }
    second.training.server.answer('GET same-file', { same: isLinked });
    second.printed.push(...first.printed);
    second.training.recordJob(first.training.state.jobs[0] as JobView);
    await jest.advanceTimersByTimeAsync(SECOND);
    return [second, job];
  }

  it('goes on where the file ends, without doubling anything', async () => {
    const [desk, job] = await reopened((first, sent) => first.print(sent, 'epoch 1\n'));
    expect(desk.text()).toBe('epoch 1\n');
    await desk.print(job, 'epoch 2\n');
    expect(desk.text()).toBe('epoch 1\nepoch 2\n');
  });

  it('is left alone in a copy of the notebook, and written in the one that was renamed', async () => {
    const rename = (first: Desk): Promise<void> => {
      first.notebook.context.path = 'other.ipynb';
      return Promise.resolve();
    };
    const [copy, job] = await reopened(rename);
    await copy.print(job, 'epoch 1\n');
    expect([copy.phase(), copy.text()]).toEqual([null, '']);
    expect(copy.training.state.jobs[0].notebook_path).toBe('digits.ipynb');
    const [renamed, same] = await reopened(rename, true);
    await renamed.print(same, 'epoch 1\n');
    expect(renamed.text()).toBe('epoch 1\n');
    expect(renamed.training.state.jobs[0].notebook_path).toBe('other.ipynb');
  });

  it.each([
    ['a job of another notebook', aFile(['job-9'])],
    ['no cell', aFile([])],
    ['no notebook', { content: null }]
  ])('is written if it was moved where no page saw it, and its old path has %s', async (_, file) => {
    const [first, job] = await bound();
    first.bindings.dispose();
    first.notebook.context.path = 'moved.ipynb';
    const desk = new Desk(first.notebook);
    desk.contents.get = path => Promise.resolve(path === 'digits.ipynb' ? file : aFile());
    desk.training.recordJob(job);
    await jest.advanceTimersByTimeAsync(SECOND);
    await desk.print(job, 'epoch 1\n');
    expect([desk.phase(), desk.text()]).toEqual(['running', 'epoch 1\n']);
    expect(desk.notebook.cells[0].getMetadata(METADATA_KEY)).toMatchObject({ path: 'moved.ipynb' });
  });

  it('is written if it was opened under another path of the same file', async () => {
    const link = (first: Desk): Promise<void> => {
      first.notebook.context.path = 'link/digits.ipynb';
      return Promise.resolve();
    };
    const [linked, job] = await reopened(link, false, true);
    await linked.print(job, 'epoch 1\n');
    expect([linked.phase(), linked.text()]).toEqual(['running', 'epoch 1\n']);
    const paths = 'GET same-file?one=link%2Fdigits.ipynb&other=digits.ipynb';
    expect(linked.training.server.asked).toEqual([paths]);
  });

  it('keeps the line of its job if the server cannot say whether it is a copy', async () => {
    const [first, job] = await bound();
    first.bindings.dispose();
    first.notebook.context.path = 'other.ipynb';
    const desk = new Desk(first.notebook);
    desk.training.server.answer('GET same-file', { code: 'internal_error', message: '' }, 500);
    desk.training.recordJob(job);
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.phase()).toBe('running');
  });

  it('asks once for all cells of a copy, and keeps the ids of its jobs only', async () => {
    const get = jest.fn(() => Promise.resolve(aFile()));
    const server = new FakeServer();
    server.answer('GET same-file', { same: false });
    const originals = new Originals({ get } as unknown as Contents.IManager, new Client(server.settings));
    const isCopy = (job: string): Promise<boolean> =>
      originals.isCopy('copy.ipynb', 'a.ipynb', aJob({ id: job }));
    expect(await Promise.all([isCopy('job-1'), isCopy('job-1'), isCopy('job-2')])).toEqual([
      true,
      true,
      false
    ]);
    expect([get.mock.calls.length, server.asked.length]).toEqual([1, 1]);
    originals.clear();
    expect(await isCopy('job-1')).toBe(true);
    expect([get.mock.calls.length, server.asked.length]).toEqual([2, 2]);
  });

  it('is written after it was renamed while the job ran, and a copy of it is not', async () => {
    const files = new Set(['renamed.ipynb']);
    const [first, job] = await bound();
    first.contents.get = path =>
      files.has(path) ? Promise.resolve(aFile()) : Promise.reject(new Error('404'));
    first.notebook.context.path = 'renamed.ipynb';
    first.notebook.context.pathChanged.emit('renamed.ipynb');
    await first.print(job, 'epoch 1\n');
    expect(first.training.state.jobs[0].notebook_path).toBe('renamed.ipynb');
    expect(first.text()).toBe('epoch 1\n');
    first.bindings.dispose();

    const reopen = async (path: string): Promise<Desk> => {
      first.notebook.context.path = path;
      const desk = new Desk(first.notebook);
      desk.contents.get = first.contents.get;
      desk.printed.push(...first.printed);
      desk.training.recordJob(job);
      await jest.advanceTimersByTimeAsync(SECOND);
      return desk;
    };
    const renamed = await reopen('renamed.ipynb');
    await renamed.print(job, 'epoch 2\n');
    expect(renamed.text()).toBe('epoch 1\nepoch 2\n');
    renamed.bindings.dispose();
    files.add('renamed-Copy1.ipynb');
    const copy = await reopen('renamed-Copy1.ipynb');
    await copy.print(job, 'epoch 3\n');
    expect(copy.notebook.outputs()).toEqual([
      { output_type: 'stream', name: 'stdout', text: 'epoch 1\nepoch 2\n' }
    ]);
  });

  it.each([
    [0, null],
    [1, 'done']
  ] as const)(
    'has the line of a job that is over in a copy with piece %s of its output, the last one: %s',
    async (seq, shown) => {
      const [desk] = await reopened(async (first, job) => {
        first.isOver = true;
        if (seq === 1) {
          await first.print(job, 'end\n');
        }
        first.training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq: seq });
        await jest.advanceTimersByTimeAsync(SECOND);
        first.training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq: 1 });
        first.notebook.context.path = 'other.ipynb';
      });
      expect(desk.phase()).toBe(shown);
    }
  );

  it('belongs to the old file after it was saved under another name', async () => {
    const [desk, job] = await bound();
    desk.notebook.context.path = 'other.ipynb';
    desk.notebook.context.pathChanged.emit('other.ipynb');
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.notebook.cells[0].getMetadata(METADATA_KEY)).toMatchObject({ path: 'digits.ipynb' });
    await desk.print(job, 'epoch 1\n'); // which the user looks at meanwhile
    expect([desk.phase(), desk.text()]).toEqual(['running', 'epoch 1\n']);
  });

  it('asks for nothing if the file has all of the job', async () => {
    const [desk] = await reopened(async (first, job) => {
      first.isOver = true;
      await first.print(job, 'end\n');
      first.training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq: 1 });
      await jest.advanceTimersByTimeAsync(SECOND);
    });
    expect([desk.phase(), desk.streams.size, desk.training.state.jobs.length]).toEqual(['done', 0, 1]);
  });

  it('says that a cell was edited meanwhile, and does not write it', async () => {
    const [desk, job] = await reopened((first, sent) => {
      first.notebook.cells[0].sharedModel.setSource('train(2)');
      return first.print(sent, 'epoch 1\n');
    });
    expect([desk.text(), desk.detached]).toEqual(['', [[job.id, 'edited']]]);
  });

  it('tells the page how the job of an edited cell ended, which the list may be too short for', async () => {
    const [first, job] = await bound();
    first.notebook.cells[0].sharedModel.setSource('train(2)');
    first.bindings.dispose();
    const desk = new Desk(first.notebook);
    jest.spyOn(desk.training, 'findJob').mockResolvedValue({ ...job, phase: 'done', finished_at: 2000 });
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.training.state.jobs.map(({ phase }) => phase)).toEqual(['done']);
    expect(desk.phase()).toBe('running');
  });

  it('finds its job when the service is back', async () => {
    const [first, job] = await bound();
    first.bindings.dispose();
    const desk = new Desk(first.notebook);
    desk.printed.push('epoch 1\n');
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.text()).toBe('');
    desk.training.recordJob(job);
    desk.training.resumed.emit();
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.text()).toBe('epoch 1\n');
  });
});

describe('output that could not be fetched', () => {
  it('is there at once when the service is back, and not only after a pause', async () => {
    const [desk, job] = await bound();
    desk.isAway = true;
    for (let second = 0; second < 10; second++) {
      await desk.print(job, `${second} `);
    }
    expect(desk.text()).toBe('');
    desk.isAway = false;
    desk.training.resumed.emit();
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(desk.text()).toBe('0 1 2 3 4 5 6 7 8 9 ');
  });
});

describe('a page that nobody sees', () => {
  it('does not write the notebook until it is shown', async () => {
    const [desk, job] = await bound();
    setVisibility('hidden');
    await desk.print(job, 'epoch 1\n');
    expect(desk.text()).toBe('');
    setVisibility('visible');
    expect(desk.text()).toBe('epoch 1\n');
  });
});

describe('a file that another tab saved meanwhile', () => {
  /** Open a notebook whose file is newer; what reading it gives has this source in its first cell. */
  function openedBehind(source: string): Desk {
    const desk = new Desk();
    const { notebook } = desk;
    Object.assign(notebook.model.sharedModel, { nbformat_minor: 5 }); // with ids of cells
    const onDisk = notebook.model.toJSON() as { cells: { source: string }[] };
    onDisk.cells[0].source = source;
    desk.contents.get = () => Promise.resolve({ last_modified: new Date(60 * SECOND).toISOString() });
    notebook.context.revert = () => {
      notebook.model.fromJSON(onDisk as never);
      notebook.model.dirty = false;
      return Promise.resolve();
    };
    return desk;
  }

  it.each([true, false])('is read, and a job that was just sent is bound in it (save: %s)', async save => {
    const desk = openedBehind('train()');
    await desk.bindings.bind(desk.job(), save);
    await desk.print(desk.job(), 'epoch 1');
    expect([desk.phase(), desk.text(), desk.notebook.saves]).toEqual(['running', 'epoch 1', 1]);
    expect([desk.notebook.model.dirty, desk.detached]).toEqual([true, []]);
  });

  it('is read, and a sweep that was just sent is shown in it', async () => {
    const desk = openedBehind('train()');
    const sweep = { group: 'sweep-1', name: 's', queue: 'q', metric: '', mode: 'max' as const, jobs: [] };
    await desk.bindings.showSweep(desk.notebook.cells[0].id, sweep, true);
    expect(desk.notebook.outputs()).toHaveLength(1);
    expect(desk.notebook.saves).toBe(1);
  });

  it('keeps a cell that was edited there', async () => {
    const desk = openedBehind('train(epochs=2)');
    await desk.bindings.bind(desk.job(), true);
    expect(desk.notebook.outputs()).toEqual([]);
  });
});

describe('bindings that are disposed', () => {
  it('leave no connection and no listener behind', async () => {
    const listeners = new ListenerCount();
    const [desk] = await bound();
    const counts = [...desk.training.connections, ...desk.notebook.connections, ...desk.streamConnections];
    expect(sumConnections(counts)).toBeGreaterThan(5);
    desk.bindings.dispose();
    expect([sumConnections(counts), listeners.now, desk.bindings.isDisposed]).toEqual([0, 0, true]);
    expect(desk.released).toEqual(['job-1']);
  });

  it('write nothing any more', async () => {
    const [desk, job] = await bound();
    const timers = jest.getTimerCount();
    for (const source of ['new()', 'newer()']) {
      desk.notebook.model.sharedModel.insertCell(0, { cell_type: 'code', source });
    }
    expect(jest.getTimerCount()).toBe(timers + 1);
    desk.bindings.dispose();
    expect(jest.getTimerCount()).toBe(timers);
    desk.bindings.dispose();
    desk.training.recordJob({ ...job, phase: 'failed', finished_at: 2000 });
    await desk.print(job, 'late\n');
    expect([desk.phase(2), desk.text(2), desk.detached]).toEqual(['running', '', []]);
  });
});
