import { Notification } from '@jupyterlab/apputils';

import { send } from '../plugins/send';
import type { ICellOutputs, IRunHistory } from '../tokens';
import { CommandIDs } from '../tokens';
import { aJob, aMe, aPlan } from './builders';
import { closeDesks, Desk } from './desk';
import { FakeApp, FakeTraining } from './fakes';
import { endCell, FakePanel, FakeTracker } from './notebooks';
import { all, clearScreen, enter, perform, press, words } from './screen';

/** Answer of the kernel to an interrupt. */
let interrupt: jest.Mock<Promise<void>, []>;
let app: FakeApp;
let training: FakeTraining;
let notebook: FakePanel;

beforeEach(() => {
  jest.useFakeTimers();
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
});
afterEach(() => {
  jest.useRealTimers();
  jest.restoreAllMocks();
});

describe('the output of the run here', () => {
  afterEach(closeDesks);

  it.each([
    ['job', 'running'],
    ['sweep', 'running'],
    ['job', 'idle'] // the answer to the request may overtake the last output
  ] as const)('is not mixed with that of the %s, if the cell is %s', async (kind, state) => {
    const desk = new Desk();
    const [cell] = desk.notebook.cells;
    const future = {
      onIOPub: (): void => {
        cell.outputs.add({ output_type: 'stream', name: 'stdout', text: 'here\n' });
      }
    };
    Object.defineProperty(desk.notebook.widgets[0], 'outputArea', { value: { future } });
    cell.executionState = state;
    future.onIOPub();
    if (kind === 'job') {
      await desk.bindings.bind(desk.job(0), false);
    } else {
      const sweep = { group: 'sweep-1', name: 'grid', queue: 'vision', jobs: [] };
      await desk.bindings.showSweep(cell.id, sweep as never, false);
    }
    future.onIOPub();
    expect(JSON.stringify(desk.notebook.outputs())).not.toContain('here');
  });

  it('does not come back if the cell is deleted and the deletion is undone', async () => {
    const desk = new Desk();
    await desk.bindings.bind(desk.job(0), false);
    const [cell] = desk.notebook.cells;
    const data = cell.sharedModel.toJSON();
    desk.notebook.model.sharedModel.deleteCell(0);
    await jest.advanceTimersByTimeAsync(1000);
    desk.notebook.model.sharedModel.insertCell(0, data);
    desk.notebook.show();
    const future = { onIOPub: (): void => desk.notebook.cells[0].outputs.clear() };
    Object.defineProperty(desk.notebook.widgets[0], 'outputArea', { value: { future } });
    await jest.advanceTimersByTimeAsync(1000);
    future.onIOPub();
    expect(desk.phase()).toBe('running');
  });

  it('does not arrive in this page of a shared notebook if another page runs the cell, which shows its job', async () => {
    const desk = new Desk();
    Object.defineProperty(desk.notebook.widgets[0], 'outputArea', { value: {} });
    desk.notebook.cells[0].executionState = 'running';
    await desk.bindings.bind(desk.job(0), false);
    expect(desk.phase()).toBe('running');
  });
});

describe('a cell that is sent while it runs here', () => {
  beforeEach(async () => {
    [app, training] = [new FakeApp(), new FakeTraining()];
    const tracker = new FakeTracker();
    notebook = tracker.open(new FakePanel(['load()', 'train()', 'plot()']));
    notebook.content.selected = [1];
    interrupt = jest.fn(() => Promise.resolve());
    notebook.sessionContext.session = { kernel: { id: 'kernel-1', interrupt } };
    const { server } = training;
    server.answer('GET me', aMe());
    server.answer('GET kernels/kernel-1/history', { cells: [], complete: false });
    server.answer('POST preview', { starts_now: true, sentence: 'Starts now.', alternatives: [] });
    server.answer('POST check', aPlan({ assignments: [{ name: 'lr', value: '0.1' } as never] }));
    server.answer('POST send', aJob({ id: 'new', name: 'digits', phase: 'waiting' }));
    server.answer('POST cancel', { jobs: [aJob({ id: 'new', phase: 'cancelled' })] });
    const outputs: ICellOutputs = { bind: () => Promise.resolve(), showSweep: () => Promise.resolve() };
    const history: IRunHistory = { isComplete: () => false, listRuns: () => [] };
    await send.activate(app.frontEnd, tracker, training, history, outputs, null);
  });
  afterEach(async () => {
    await send.deactivate?.(app.frontEnd);
    notebook.close();
    clearScreen();
  });

  /** Hand a cell to the kernel, which does not begin it yet. */
  function queue(index: number): void {
    notebook.cells[index].executionState = 'running';
    const future = { msg: { header: { msg_id: `request-${index}` } } };
    Object.defineProperty(notebook.widgets[index], 'outputArea', { value: { future } });
  }

  /** Have the kernel begin the request of a cell, or one of somebody else. */
  const begin = (request: number | string): void =>
    notebook.sessionContext.iopubMessage.emit({
      header: { msg_type: 'execute_input' },
      parent_header: { msg_id: typeof request === 'number' ? `request-${request}` : request }
    });

  function run(index: number): void {
    queue(index);
    begin(index);
  }

  /** End the run of a cell, as JupyterLab does. */
  function end(index: number): void {
    notebook.cells[index].executionState = 'idle';
    endCell(notebook, index, 1);
  }

  const pause = (): Promise<void> => perform(() => jest.advanceTimersByTimeAsync(0));
  const body = (): string => words(document.querySelector('.jp-Dialog'));
  const box = (): HTMLInputElement | undefined =>
    all('.jp-Dialog label').find(label => words(label).startsWith('Interrupt the run here'))
      ?.firstElementChild as HTMLInputElement | undefined;
  const submit = (): Promise<void> =>
    perform(() => document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-accept')?.click());

  async function open(): Promise<void> {
    await perform(() => void app.commands.execute(CommandIDs.sendCell).catch(() => undefined));
    await pause();
  }

  /** Open the dialog and choose the interrupt. */
  async function openAndChoose(): Promise<void> {
    await open();
    await perform(() => box()?.click());
    expect(box()?.checked).toBe(true);
  }

  it('goes on unless the user chooses otherwise', async () => {
    run(1);
    await open();
    expect(body()).toContain('This cell is running here now. The job starts from the beginning.');
    expect(box()?.checked).toBe(false);
    await submit();
    expect(training.server.asked).toContain('POST send');
    expect(interrupt).not.toHaveBeenCalled();
  });

  it('is interrupted once the job is accepted, and not before', async () => {
    run(1);
    await openAndChoose();
    training.server.hold();
    await submit();
    expect(interrupt).not.toHaveBeenCalled();
    training.server.release();
    await pause();
    expect(interrupt).toHaveBeenCalledTimes(1);
  });

  it('is interrupted once all jobs of a sweep are accepted', async () => {
    training.server.answer('POST sweep', {
      group: 'sweep-1',
      name: 'grid',
      jobs: [{ job: 'new', parameters: {} }]
    });
    run(1);
    await openAndChoose();
    await enter(document.querySelector('#jp-gq-send-sweep-lr'), '0.1, 0.01');
    await submit();
    expect(training.server.asked.filter(asked => asked.startsWith('POST s'))).toEqual(['POST sweep']);
    expect(interrupt).toHaveBeenCalledTimes(1);
  });

  it.each([
    ['refused', 'POST send', 422],
    ['not answered', 'POST send', 504]
  ])('goes on if the job is %s', async (_, route, status) => {
    training.server.answer(route, { code: 'x', message: 'No.' }, status);
    run(1);
    await openAndChoose();
    await submit();
    expect(training.server.asked).toContain('POST send');
    expect(interrupt).not.toHaveBeenCalled();
    expect(box()?.checked).toBe(true);
  });

  it('goes on if the user cancels while the job is on its way', async () => {
    run(1);
    await openAndChoose();
    training.server.hold();
    await submit();
    await press('Cancel');
    training.server.release();
    await pause();
    expect(training.server.asked).toContain('POST cancel');
    expect(interrupt).not.toHaveBeenCalled();
  });

  it('leaves the kernel alone if the run ends before the job is accepted', async () => {
    run(1);
    queue(2);
    await openAndChoose();
    training.server.hold();
    await submit();
    end(1);
    begin(2);
    training.server.release();
    await pause();
    expect(interrupt).not.toHaveBeenCalled();
  });

  it.each<[string, () => void]>([
    ['another cell of the notebook', () => run(0)],
    ['a console with the same kernel', () => begin('console')]
  ])('is not interrupted while it waits for %s', async (_, start) => {
    start();
    queue(1);
    await open();
    expect(body()).toContain('This cell waits for the kernel here. It still runs here when its turn comes');
    expect(box()).toBeUndefined();
    await perform(() => begin(1));
    await pause();
    expect(body()).toContain('This cell is running here now.');
    expect(box()?.checked).toBe(false);
  });

  it('is told apart from the other cells that are sent', async () => {
    notebook.content.selected = [1, 2];
    run(1);
    queue(2);
    await open();
    expect(body()).toContain('One of these 2 cells is running here now.');
  });

  it('is no longer offered when the run ends, and the keys of the dialog go on working', async () => {
    run(1);
    await openAndChoose();
    box()?.focus();
    await perform(() => end(1));
    await pause();
    expect(box()).toBeUndefined();
    expect(body()).not.toContain('here now');
    expect(document.activeElement?.id).toBe('jp-gq-send-name');
  });

  it('has a choice that a screen reader reads with its note', async () => {
    run(1);
    await open();
    const note = document.getElementById(box()?.getAttribute('aria-describedby') ?? '');
    expect(words(note)).toContain('The run here continues unless you interrupt it');
  });

  it('is said to go on if the interrupt fails, and the job stays', async () => {
    interrupt.mockRejectedValue(new Error('The kernel did not answer.'));
    run(1);
    await openAndChoose();
    await submit();
    await pause();
    expect(Notification.manager.notifications.map(({ message }) => message)).toEqual([
      '“digits” is sent, but the run here could not be interrupted. The kernel did not answer.'
    ]);
    expect(training.server.asked).not.toContain('POST cancel');
  });
});
