import { METADATA_KEY } from '../attach/metadata';
import { listDetails } from '../panel/facts';
import { send } from '../plugins/send';
import type { ICellOutputs, IRunHistory } from '../tokens';
import { CommandIDs } from '../tokens';
import type { SendRequest } from '../wire';
import { ENGLISH, aJob, aMe, aPlan } from './builders';
import { FakeApp, FakeTraining } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { all, clearScreen, perform, words } from './screen';

let app: FakeApp;
let training: FakeTraining;
let tracker: FakeTracker;
let notebook: FakePanel;

beforeEach(async () => {
  jest.useFakeTimers();
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  app = new FakeApp();
  training = new FakeTraining();
  tracker = new FakeTracker();
  notebook = tracker.open(new FakePanel(['load()', 'train()']));
  notebook.content.selected = [1];
  const { server } = training;
  server.answer('GET me', aMe());
  server.answer('GET kernels/kernel-1/history', { cells: [], complete: false });
  server.answer('POST preview', { starts_now: true, sentence: 'Starts now.', alternatives: [] });
  server.answer('POST check', aPlan());
  server.answer('POST send', aJob({ id: 'new', phase: 'waiting' }));
  const done = (): Promise<void> => Promise.resolve();
  const outputs: ICellOutputs = { bind: done, showSweep: done };
  const history: IRunHistory = { isComplete: () => false, listRuns: () => [] };
  await send.activate(app.frontEnd, tracker, training, history, outputs, null);
});
afterEach(async () => {
  await send.deactivate?.(app.frontEnd);
  tracker.panels.forEach(panel => panel.close());
  clearScreen();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

/** Choose the command, up to the first question; its result comes when all questions are answered. */
async function choose(): Promise<{ result: Promise<unknown> }> {
  let result: Promise<unknown> = Promise.resolve();
  await perform(() => {
    result = app.commands.execute(CommandIDs.sendCell);
    // A dialog that is left open at the end of a test rejects.
    result.catch(() => undefined);
  });
  await pause();
  return { result };
}

/** Let time pass for what the dialog does by itself. */
const pause = (milliseconds = 0): Promise<void> => perform(() => jest.advanceTimersByTimeAsync(milliseconds));

const submit = (): Promise<void> =>
  perform(() => document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-accept')?.click());

const dialog = (): string => words(document.querySelector('.jp-Dialog'));
const alerts = (): string[] => all('[role=alert]').map(words);
const sent = (): Partial<SendRequest> => training.server.bodies.at(-1) as Partial<SendRequest>;

describe('a cell that shows a job that has ended', () => {
  const choice = (): HTMLInputElement | null => document.querySelector('#jp-gq-send-continue_from');
  beforeEach(() => {
    notebook.cells[1].setMetadata(METADATA_KEY, { job: 'old', source_hash: '', seq: 0 });
  });

  it('can continue from the checkpoints of the job, and begins without them otherwise', async () => {
    training.state = { ...training.state, jobs: [aJob({ id: 'old', phase: 'failed', saved_at: 5 })] };
    const { result } = await choose();
    expect(dialog()).toContain('Continue from a copy of those of “digits”');
    expect(choice()?.checked).toBe(false);
    await perform(() => choice()?.click());
    await pause(300);
    expect(choice()?.checked).toBe(true);
    expect(sent()).toMatchObject({ continue_from: 'old' }); // the preview asks with it, and may be refused
    await submit();
    await result;
    expect(training.server.asked.at(-1)).toBe('POST send');
    expect(sent()).toMatchObject({ continue_from: 'old' });
  });

  it('shows at the field why that is refused', async () => {
    training.state = { ...training.state, jobs: [aJob({ id: 'old', phase: 'failed', saved_at: 5 })] };
    await choose();
    const problem = { code: 'cannot_continue', message: 'It has no checkpoints.', field: 'continue_from' };
    training.server.answer('POST preview', problem, 422);
    await perform(() => choice()?.click());
    await pause(300);
    expect(alerts()).toEqual(['It has no checkpoints.']);
    expect(choice()?.getAttribute('aria-invalid')).toBe('true');
  });

  it.each([
    ['has saved none', { phase: 'failed', saved_at: null }],
    ['runs', { phase: 'running', saved_at: 5 }]
  ] as const)('offers nothing of a job that %s', async (_, given) => {
    training.state = { ...training.state, jobs: [aJob({ id: 'old', ...given })] };
    await choose();
    expect(choice()).toBeNull();
  });
});

it('the details of a job say from which one it continues', () => {
  const told = listDetails(aJob({ continue_from: 'job-1' }), 1000, ENGLISH);
  expect(told).toContainEqual(['Continues', 'from the checkpoints of job-1']);
  expect(listDetails(aJob(), 1000, ENGLISH).map(([name]) => name)).not.toContain('Continues');
});
