import type { YCodeCell } from '@jupyter/ydoc';
import type { IOutput } from '@jupyterlab/nbformat';
import { applyUpdate } from 'yjs';

import { BoundCell } from '../attach/cell';
import { findPlaceholder, makePlaceholder, METADATA_KEY } from '../attach/metadata';
import { planSharedSteps } from '../attach/shared';
import { ANSWER } from '../attach/writer';
import type { JobPhase } from '../jobs';
import type { JobView } from '../wire';
import { closeDesks, SECOND } from './desk';
import { setVisibility } from './fakes';
import type { Page } from './room';
import { Room } from './room';

const stream = (text: string): IOutput => ({ output_type: 'stream', name: 'stdout', text });
const display = (text: string): IOutput => ({
  output_type: 'display_data',
  data: { 'text/plain': text },
  metadata: {}
});

/** Two pages that show a notebook, the first of which has sent its cell. */
async function twoPages(): Promise<[Room, Page, Page, JobView]> {
  const room = new Room();
  const first = room.open();
  await jest.advanceTimersByTimeAsync(2 * ANSWER);
  const second = room.open();
  await jest.advanceTimersByTimeAsync(2 * ANSWER);
  const job = first.job();
  room.pages.forEach(page => page.training.recordJob(job));
  await first.bindings.bind(job, false);
  await jest.advanceTimersByTimeAsync(SECOND);
  return [room, first, second, job];
}

/** Let the job print, and tell all pages at the same moment. */
async function print(room: Room, job: JobView, ...texts: string[]): Promise<void> {
  for (const text of texts) {
    room.printed.push(text);
    room.pages.forEach(page =>
      page.training.outputArrived.emit({ job: job.id, last_seq: room.printed.length })
    );
    await jest.advanceTimersByTimeAsync(SECOND);
  }
}

/** Let the job end, and tell all pages. */
async function end(room: Room, job: JobView): Promise<void> {
  room.pages.forEach(page => {
    page.isOver = true;
    page.training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq: room.printed.length });
  });
  await jest.advanceTimersByTimeAsync(2 * SECOND);
}

/** Expect all pages to have this text below one placeholder, in the document and on the screen. */
function expectEverywhere(room: Room, text: string, phase = 'running'): void {
  expect(room.pages.length).toBeGreaterThan(0);
  for (const page of room.pages) {
    expect([page.phase(), page.text()]).toEqual([phase, text]);
    expect(page.documented).toEqual(page.notebook.outputs());
    expect(page.notebook.cells[0].getMetadata(METADATA_KEY)).toMatchObject({ job: 'job-1' });
  }
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

describe('a notebook that two pages share', () => {
  it('has the outputs once, and both pages show the same', async () => {
    const [room, first, second, job] = await twoPages();
    expect([first.turn, second.turn]).toEqual([1, 2]);
    await print(room, job, 'epoch 1\n', 'epoch 2\n');
    expectEverywhere(room, 'epoch 1\nepoch 2\n');
    await end(room, job);
    expectEverywhere(room, 'epoch 1\nepoch 2\n', 'done');
  });

  it('is written by one page only', async () => {
    const [room, first, second, job] = await twoPages();
    const writes = new Map<Page, number>([first, second].map(page => [page, 0]));
    for (const page of [first, second]) {
      page.shared.ydoc.on('update', (_: Uint8Array, origin: unknown) => {
        writes.set(page, (writes.get(page) ?? 0) + (origin === room ? 0 : 1));
      });
    }
    await print(room, job, 'epoch 1\n', 'epoch 2\n');
    expect(writes.get(first)).toBeGreaterThan(0);
    expect(writes.get(second)).toBe(0);
  });

  it('is written by the page that was there first, also when the other one sends', async () => {
    const room = new Room();
    const first = room.open();
    await jest.advanceTimersByTimeAsync(2 * ANSWER);
    const second = room.open();
    await jest.advanceTimersByTimeAsync(2 * ANSWER);
    const job = second.job();
    room.pages.forEach(page => page.training.recordJob(job));
    await second.bindings.bind(job, false);
    await jest.advanceTimersByTimeAsync(SECOND);
    await room.close(second);
    await print(room, job, 'epoch 1\n');
    expectEverywhere(room, 'epoch 1\n');
    expect(first.turn).toBe(1);
  });

  it('shows progress that overwrites itself on both pages', async () => {
    const [room, , , job] = await twoPages();
    await print(room, job, 'training\n', ' 10 %', '\r 20 %', '\r100 %', '\nend\n');
    expectEverywhere(room, 'training\n100 %\nend\n');
  });

  it('shows the outputs in the order of the document, whatever another page changes', async () => {
    const [room, , second, job] = await twoPages();
    await print(room, job, 'epoch 1\n');
    const shared = second.shared.getCell(0) as YCodeCell;
    shared.updateOutputs(0, 1, [makePlaceholder(job)]);
    await jest.advanceTimersByTimeAsync(SECOND);
    expectEverywhere(room, 'epoch 1\n');
    await print(room, job, 'epoch 2\n');
    expectEverywhere(room, 'epoch 1\nepoch 2\n');
  });

  it.each([
    ['closed', false],
    ['lost', true]
  ])('is continued by the other page when the one that writes is %s', async (_, isLost) => {
    const [room, first, second, job] = await twoPages();
    await print(room, job, 'epoch 1\n');
    await room.close(first, isLost);
    await print(room, job, 'epoch 2\n');
    await end(room, job);
    expectEverywhere(room, 'epoch 1\nepoch 2\n', 'done');
    expect(room.pages).toEqual([second]);
  });

  it.each([
    ['the page that writes', 0],
    ['the other page', 1]
  ])('is the same on both pages when %s is reloaded in the middle', async (_, index) => {
    const [room, , , job] = await twoPages();
    await print(room, job, 'epoch 1\n');
    await room.close(room.pages[index]);
    const reloaded = room.open();
    reloaded.training.recordJob(job);
    await print(room, job, 'epoch 2\n');
    await print(room, job, 'epoch 3\n');
    expectEverywhere(room, 'epoch 1\nepoch 2\nepoch 3\n');
    await end(room, job);
    expectEverywhere(room, 'epoch 1\nepoch 2\nepoch 3\n', 'done');
    expect(room.pages.map(page => page.turn)).toEqual(index === 0 ? [2, 3] : [1, 2]);
  });

  it('is right again after both pages wrote while they could not reach each other', async () => {
    const [room, first, second, job] = await twoPages();
    await print(room, job, 'epoch 1\n');
    await room.cut(async () => {
      // Each page believes that the other one is gone.
      const { clientID } = first.awareness;
      second.awareness.getStates().delete(clientID);
      second.awareness.emit('change', [{ added: [], updated: [], removed: [clientID] }, 'timeout']);
      await print(room, job, 'epoch 2\n');
      await end(room, job);
    });
    first.awareness.setLocalState(first.awareness.getLocalState());
    await jest.advanceTimersByTimeAsync(10 * SECOND);
    expectEverywhere(room, 'epoch 1\nepoch 2\n', 'done');
  });

  it('is not written by a page that nobody sees, but by the next one', async () => {
    const [room, first, second, job] = await twoPages();
    setVisibility('hidden');
    await jest.advanceTimersByTimeAsync(SECOND);
    expect([first.turn, second.turn]).toEqual([undefined, undefined]);
    await print(room, job, 'epoch 1\n');
    expectEverywhere(room, '');
    setVisibility('visible');
    await jest.advanceTimersByTimeAsync(3 * ANSWER);
    expectEverywhere(room, 'epoch 1\n');
  });

  it('is never written by a page that may not change it', async () => {
    const room = new Room();
    const reader = room.open();
    reader.notebook.model.readOnly = true;
    await jest.advanceTimersByTimeAsync(2 * ANSWER);
    expect(reader.turn).toBeUndefined();
  });

  it('keeps the output of a cell that the other page runs itself', async () => {
    const [room, , second, job] = await twoPages();
    await print(room, job, 'epoch 1\n');
    const [cell] = second.notebook.cells;
    second.bindings.handleLocalRun(cell.id);
    cell.outputs.clear();
    cell.outputs.add(stream('local\n'));
    await jest.advanceTimersByTimeAsync(SECOND);
    await print(room, job, 'epoch 2\n');
    for (const page of room.pages) {
      expect(page.notebook.outputs()).toEqual([stream('local\n')]);
      expect(page.notebook.cells[0].getMetadata(METADATA_KEY)).toBeUndefined();
    }
    expect(second.detached).toEqual([[job.id, 'replaced']]);
  });

  it('tells the user of each page that a cell was edited, and does not write it', async () => {
    const [room, first, second, job] = await twoPages();
    second.notebook.cells[0].sharedModel.setSource('train(2)');
    await jest.advanceTimersByTimeAsync(SECOND);
    await print(room, job, 'epoch 1\n');
    expectEverywhere(room, '');
    for (const page of [first, second]) {
      expect(page.detached).toEqual([[job.id, 'edited']]);
    }
  });

  it('is saved by its server, not by a page', async () => {
    const [room, first, second, job] = await twoPages();
    await print(room, job, 'epoch 1\n');
    await end(room, job);
    expect([first.notebook.saves, second.notebook.saves]).toEqual([0, 0]);
  });
});

describe('the steps in a shared notebook', () => {
  it('are shown right by other pages, which never see a cell without its job', async () => {
    const room = new Room();
    const [writer, reader] = [room.open(), room.open()];
    await jest.advanceTimersByTimeAsync(SECOND);
    [writer, reader].forEach(page => page.bindings.dispose());
    const job = writer.job();
    const [[model], [shown]] = [writer.notebook.cells, reader.notebook.cells];
    const updates: Uint8Array[] = [];
    const jobs: (string | undefined)[] = [];
    const arrive = (): void =>
      updates.splice(0).forEach(update => {
        applyUpdate(reader.shared.ydoc, update);
        jobs.push(findPlaceholder(reader.documented)?.job);
      });
    writer.shared.ydoc.on('update', (update: Uint8Array) => updates.push(update));
    const cell = BoundCell.bind(model, job, 'digits.ipynb', true);
    arrive();
    const lists: [JobPhase, IOutput[]][] = [
      ['waiting', []],
      ['running', [stream('10 %')]],
      ['running', [stream('20 %'), display('one')]],
      ['paused', [stream('20 %'), display('one')]],
      ['running', [stream('20 %'), display('two')]],
      ['running', [stream('100 %'), display('two'), stream('end')]],
      ['running', []],
      ['running', [stream('again')]],
      ['done', [stream('again'), display('three')]]
    ];
    lists.forEach(([phase, outputs], index) => {
      cell.write({ ...job, phase }, outputs, index + 1);
      arrive();
      expect(shown.outputs.toJSON()).toEqual(model.outputs.toJSON());
      expect(shown.outputs.toJSON().slice(1)).toEqual(outputs);
    });
    expect(new Set(jobs)).toEqual(new Set([job.id]));
  });

  it('rewrite what other pages would show in a wrong place', () => {
    const after = [display('two'), stream('a')];
    expect(planSharedSteps([display('one'), stream('a')], after)).toEqual([
      { kind: 'rewrite', outputs: after }
    ]);
  });

  it('extend the last text and replace the last picture', () => {
    expect(planSharedSteps([display('one'), stream('a')], [display('one'), stream('ab')])).toEqual([
      { kind: 'text', index: 1, keep: 1, text: 'b' }
    ]);
    expect(planSharedSteps([stream('a'), display('one')], [stream('a'), display('two')])).toEqual([
      { kind: 'set', index: 1, output: display('two') }
    ]);
  });
});
