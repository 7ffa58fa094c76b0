import { METADATA_KEY } from '../attach/metadata';
import { listDetails } from '../panel/facts';
import type { SendRequest } from '../wire';
import { ENGLISH, aJob } from './builders';
import { all, perform, words } from './screen';
import { pause, SendingPage, submit } from './sending';

let page: SendingPage;
let training: SendingPage['training'];
let notebook: SendingPage['notebook'];

beforeEach(async () => {
  jest.useFakeTimers();
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  page = new SendingPage('load()', 'train()');
  ({ training, notebook } = page);
  notebook.content.selected = [1];
  await page.activate();
});
afterEach(async () => {
  await page.close();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

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
    const { result } = await page.choose();
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
    await page.choose();
    const problem = { code: 'cannot_continue', message: 'It has no checkpoints.', field: 'continue_from' };
    training.server.answer('POST preview', problem, 422);
    await perform(() => choice()?.click());
    await pause(300);
    expect(alerts()).toEqual(['It has no checkpoints.']);
    expect(choice()?.getAttribute('aria-invalid')).toBe('true');
  });

  it.each([
    ['its name', [aJob({ id: 'before', name: 'first run' })], '“first run”'],
    ['its id if it is not in the list', [], '“before”']
  ])('offers the checkpoints of the job from which it was to continue, by %s', async (_, known, called) => {
    const old = aJob({ id: 'old', phase: 'cancelled', saved_at: null, continue_from: 'before' });
    training.state = { ...training.state, jobs: [old, ...known] };
    await page.choose();
    expect(dialog()).toContain(`Continue from a copy of those of ${called}`);
    await perform(() => choice()?.click());
    await pause(300);
    expect(sent()).toMatchObject({ continue_from: 'before' });
  });

  it.each([
    ['has saved none', { phase: 'failed', saved_at: null }],
    ['runs', { phase: 'running', saved_at: 5 }]
  ] as const)('offers nothing of a job that %s', async (_, given) => {
    training.state = { ...training.state, jobs: [aJob({ id: 'old', ...given })] };
    await page.choose();
    expect(choice()).toBeNull();
  });
});

it('the details of a job say from which one it continues', () => {
  const told = listDetails(aJob({ continue_from: 'job-1' }), 1000, ENGLISH);
  expect(told).toContainEqual(['Continues', 'from the checkpoints of job-1']);
  expect(listDetails(aJob(), 1000, ENGLISH).map(([name]) => name)).not.toContain('Continues');
});
