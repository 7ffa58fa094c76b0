import { Notification } from '@jupyterlab/apputils';
import { NotebookModel } from '@jupyterlab/notebook';

import { readContent } from '../bundle/content';
import { describeError, PATIENCE } from '../client';
import { DRAWN } from '../notice';
import { patience } from '../plugins/patience';
import { send } from '../plugins/send';
import { CommandIDs } from '../tokens';
import type { ICellOutputs, IRunHistory } from '../tokens';
import { aJob, aMe, aPlan } from './builders';
import { FakeApp, FakeTraining } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { all, clearScreen, perform, words } from './screen';

let app: FakeApp;
let training: FakeTraining;

beforeEach(() => {
  jest.useFakeTimers();
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  app = new FakeApp();
  training = new FakeTraining();
});
afterEach(() => {
  clearScreen();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);
const pass = (milliseconds: number): Promise<void> =>
  perform(() => jest.advanceTimersByTimeAsync(milliseconds));

describe('a scheduler that does not answer', () => {
  beforeEach(() => patience.activate(app.frontEnd, training));
  afterEach(() => patience.deactivate?.(app.frontEnd));

  it('is told of within three seconds and once, until all requests are answered', async () => {
    training.server.hold();
    const requests = [training.client.getMe(), training.client.listQueues()];
    await pass(PATIENCE - 1);
    expect(told()).toEqual([]);
    await pass(500);
    expect(PATIENCE).toBeLessThan(3000);
    expect(told()).toEqual([expect.stringContaining('has not answered for some seconds')]);
    await perform(() => training.server.release());
    await Promise.all(requests);
    // A notification that is removed before it is drawn would be drawn later, and stay.
    expect(told()).toHaveLength(1);
    await pass(DRAWN);
    expect(told()).toEqual([]);
  });

  it('is not told of if it answers in time', async () => {
    await training.client.getMe();
    await pass(2 * PATIENCE);
    expect(told()).toEqual([]);
  });

  it('is not told of any more once a request has failed', async () => {
    training.server.hold();
    const failure = training.client.getMe().catch(describeError);
    await pass(PATIENCE);
    training.server.isDown = true;
    await perform(() => training.server.release());
    expect(await failure).toContain('does not answer');
    await pass(DRAWN);
    expect(told()).toEqual([]);
  });

  it('leaves no notification and no clock behind', async () => {
    training.server.hold();
    const request = training.client.getMe();
    await pass(PATIENCE);
    await perform(() => patience.deactivate?.(app.frontEnd));
    expect(told()).toEqual([]);
    training.server.release();
    await request;
    expect(jest.getTimerCount()).toBe(0);
  });
});

describe('the dialog', () => {
  const outputs: ICellOutputs = { bind: () => Promise.resolve(), showSweep: () => Promise.resolve() };
  const history: IRunHistory = { isComplete: () => false, listRuns: () => [] };
  let notebook: FakePanel;

  beforeEach(async () => {
    const tracker = new FakeTracker();
    notebook = tracker.open(new FakePanel(['train()']));
    const { server } = training;
    server.answer('GET me', aMe());
    server.answer('GET kernels/kernel-1/history', { cells: [], complete: false });
    server.answer('POST preview', { starts_now: true, sentence: 'Starts now.', alternatives: [] });
    server.answer('POST check', aPlan());
    server.answer('POST send', aJob());
    await send.activate(app.frontEnd, tracker, training, history, outputs, null);
  });
  afterEach(async () => {
    await send.deactivate?.(app.frontEnd);
    notebook.close();
  });

  async function open(): Promise<void> {
    await perform(() => void app.commands.execute(CommandIDs.sendCell).catch(() => undefined));
    await pass(300);
  }

  it('says that the forecast is slow to come, and shows it when it comes', async () => {
    await open();
    training.server.hold();
    const name = document.querySelector<HTMLInputElement>('#jp-gq-send-name');
    await perform(() => name?.blur());
    const slow = training.client.getMe();
    await pass(PATIENCE);
    expect(words(all('.jp-gq-forecast')[0])).toBe(
      'The GPU scheduler has not answered for some seconds. Still waiting…'
    );
    await perform(() => training.server.release());
    await slow;
    await pass(20);
    expect(words(all('.jp-gq-forecast')[0])).toBe('Starts now.');
  });

  it('posts no output of the notebook', async () => {
    const text = 'x'.repeat(100_000);
    notebook.cells[0].outputs.add({ output_type: 'stream', name: 'stdout', text });
    await open();
    const { bodies } = training.server;
    expect(bodies).toContainEqual(expect.objectContaining({ targets: [notebook.cells[0].id] }));
    expect(JSON.stringify(bodies)).not.toContain(text.slice(0, 100));
  });
});

describe('the content that goes along', () => {
  it('has each cell with its id, source, kind and tags, and no output', () => {
    const model = new NotebookModel();
    model.sharedModel.insertCells(0, [
      { cell_type: 'markdown', source: '# Title' },
      { cell_type: 'code', source: 'a = 1', metadata: { tags: ['gq-setup'] } }
    ]);
    model.setMetadata('language_info', { name: 'python', version: '3.12.1' });
    const [title, code] = readContent(model).cells;
    expect(title).toMatchObject({ cell_type: 'markdown', source: '# Title', id: model.cells.get(0).id });
    expect(code).toEqual({
      cell_type: 'code',
      id: model.cells.get(1).id,
      source: 'a = 1',
      metadata: { tags: ['gq-setup'] },
      execution_count: null,
      outputs: []
    });
    expect(readContent(model)).toMatchObject({
      nbformat: 4,
      metadata: { language_info: { version: '3.12.1' } }
    });
    model.dispose();
  });
});
