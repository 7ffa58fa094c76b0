import { Widget } from '@lumino/widgets';

import { METADATA_KEY } from '../attach/metadata';
import { send } from '../plugins/send';
import type { IRunHistory } from '../tokens';
import { CommandIDs } from '../tokens';
import type { JobView, SendRequest } from '../wire';
import { aJob, aMe, aPlan, aPool, aQueue, WOULD_WAIT, aRun } from './builders';
import { settle } from './fakes';
import { all, button, enter, perform, press, words } from './screen';
import { pause, SendingPage, submit } from './sending';

let page: SendingPage;
let app: SendingPage['app'];
let training: SendingPage['training'];
let tracker: SendingPage['tracker'];
let notebook: SendingPage['notebook'];
let bound: string[];
/** The state database of JupyterLab. */
let database: Map<string, unknown>;
let runs: IRunHistory;

beforeEach(async () => {
  jest.useFakeTimers();
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  page = new SendingPage('load()', 'train()');
  ({ app, training, tracker, notebook, bound } = page);
  notebook.content.selected = [1];
  database = new Map();
  runs = { isComplete: () => false, listRuns: () => [] };
  await activate();
});
afterEach(async () => {
  await page.close();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

function activate(): Promise<void> {
  const memory = {
    fetch: (id: string) => Promise.resolve(database.get(id)),
    save: (id: string, value: unknown) => Promise.resolve(void database.set(id, value))
  };
  const history: IRunHistory = { isComplete: id => runs.isComplete(id), listRuns: id => runs.listRuns(id) };
  return page.activate(history, memory);
}

const dialog = (): string => words(document.querySelector('.jp-Dialog'));
const field = (name: string): HTMLInputElement =>
  document.querySelector(`#jp-gq-send-${name}`) as HTMLInputElement;
const alerts = (): string[] => all('[role=alert]').map(words);
const sent = (): Partial<SendRequest> => training.server.bodies.at(-1) as Partial<SendRequest>;
describe('cells that cannot be sent', () => {
  it.each<[string, () => void, string]>([
    ['no code', () => (notebook.content.selected = []), 'This is not a code cell'],
    ['an empty cell', () => notebook.cells[1].sharedModel.setSource(' \n'), 'The cell is empty'],
    ['a notebook without a kernel', () => notebook.sessionContext.stayWithoutKernel(), 'has no kernel'],
    ['a notebook without a file', () => (notebook.context.contentsModel = null), 'has not been saved yet']
  ])('%s: the user is told before any question', async (_, prepare, title) => {
    prepare();
    const { result } = await page.choose();
    expect(dialog()).toContain(title);
    await press('Close');
    expect(await result).toBeNull();
    expect(training.server.asked).toEqual([]);
  });

  it('a user without a queue is told who can help', async () => {
    training.server.answer('GET me', aMe({ queues: [aQueue({ member: false })] }));
    const { result } = await page.choose();
    expect(dialog()).toContain(
      'You are not a member of any training queue. The admin of this hub can add you'
    );
    await press('Close');
    expect(await result).toBeNull();
  });
});

describe('a service that is down', () => {
  it('is tried again when the user wants that', async () => {
    training.server.isDown = true;
    const { result } = await page.choose();
    expect(dialog()).toContain('Training cannot be reached');
    expect(dialog()).toContain('Running jobs continue.');
    training.server.isDown = false;
    await press('Try again');
    await pause();
    expect(field('name').value).toBe('digits');
    await press('Cancel');
    expect(await result).toBeNull();
    expect(bound).toEqual([]);
  });
});

describe('the dialog', () => {
  it('proposes the name of the notebook, the first queue and one GPU, and says what would happen', async () => {
    training.set({ jobs: [aJob({ targets: [] })] }); // another job of the notebook, so the name has a number
    await page.choose();
    expect([field('name').value, field('queue').value, field('gpus').value]).toEqual([
      'digits 2',
      'vision',
      '1'
    ]);
    expect(words(document.querySelector('[aria-label="Forecast"]'))).toBe('Starts now.');
    expect(dialog()).toContain('Sends this celltrain()');
  });

  it('sends the cell with what was entered, once', async () => {
    const { result } = await page.choose();
    await enter(field('name'), 'night run');
    await enter(field('gpus'), '0.5');
    await submit();
    expect(await result).toBe('new');
    const target = notebook.cells[1].id;
    expect(sent()).toMatchObject({
      name: 'night run',
      queue: 'vision',
      gpus: '0.5',
      notebook_path: 'digits.ipynb',
      kernel_id: 'kernel-1',
      mode: 'replay',
      targets: [target]
    });
    expect(sent().key).toMatch(/^[0-9a-f-]{36}$/);
    expect(training.server.asked.filter(asked => asked === 'POST send')).toHaveLength(1);
    expect([bound, training.state.jobs.map(job => job.id)]).toEqual([['new'], ['new']]);
  });

  it('shows a refusal at its field, keeps what was entered, and uses the same key again', async () => {
    const problem = { code: 'over_limit', message: 'vision has 1 GPU at most.', field: 'gpus' };
    training.server.answer('POST send', problem, 422);
    const { result } = await page.choose();
    await enter(field('name'), 'night run');
    await submit();
    expect(alerts()).toEqual(['vision has 1 GPU at most.']);
    expect(field('name').value).toBe('night run');
    const first = sent().key;
    training.server.answer('POST send', aJob({ id: 'new' }));
    await submit();
    expect(await result).toBe('new');
    expect(sent().key).toBe(first);
  });

  it('shows a problem that is about no field as well', async () => {
    training.server.answer('POST send', { code: 'disk_full', message: 'The disk is full.' }, 507);
    await page.choose();
    await submit();
    expect(alerts()).toEqual(['The disk is full.']);
  });

  it('finds a wrong duration before anybody is asked', async () => {
    await page.choose();
    await press('MoreGPU memory, tasks, CPU, memory, duration, maximum time, priority');
    await enter(field('expected_seconds'), 'soon');
    await submit();
    expect(alerts()).toEqual([
      '“soon” is not a length of time. Write a number with a unit, such as 45 min, 2 h 30 min or 3 d.'
    ]);
    expect(training.server.asked).not.toContain('POST send');
    expect(field('expected_seconds').getAttribute('aria-invalid')).toBe('true');
  });

  it('opens the closed section if the problem is there', async () => {
    training.server.answer('POST send', { code: 'x', message: 'No node has 99 cores.', field: 'cpus' }, 422);
    await page.choose();
    expect(document.querySelector('#jp-gq-send-more')?.hasAttribute('hidden')).toBe(true);
    await submit();
    await pause();
    expect(document.querySelector('#jp-gq-send-more')?.hasAttribute('hidden')).toBe(false);
  });

  it('asks what would happen after a change, once for many', async () => {
    await page.choose();
    const before = training.server.asked.filter(asked => asked === 'POST preview').length;
    await enter(field('gpus'), '0.5');
    await enter(field('gpus'), '2');
    training.server.answer('POST preview', WOULD_WAIT);
    await pause(300);
    expect(training.server.asked.filter(asked => asked === 'POST preview')).toHaveLength(before + 1);
    expect(words(document.querySelector('[aria-label="Forecast"]'))).toContain('2nd in line. The start');
  });

  it('shows each warning at its cell, and warnings about all cells at the end', async () => {
    const [load, train] = notebook.cells.map(cell => cell.id);
    const warnings = [
      { code: 'risk', message: 'asks for input', cell_id: train, index: null },
      { code: 'edited', message: 'was edited since', cell_id: load, index: 0 },
      { code: 'writes_files', message: 'writes a.csv', cell_id: load, index: 0 },
      { code: 'slow_prefix', message: 'The cells before took 40 s.', cell_id: null, index: null }
    ];
    training.server.answer('POST check', aPlan({ warnings }));
    await page.choose();
    expect(all('.jp-gq-targets .jp-gq-replay-note').map(words)).toEqual(['asks for input']);
    expect(all('.jp-gq-replay .jp-gq-replay-note').map(words)).toEqual(['was edited since', 'writes a.csv']);
    expect(all('.jp-gq-note').map(words)).toEqual(['The cells before took 40 s.']);
  });

  it('drops a warning with its cell at once, and asks about the cells that are left', async () => {
    const warning = { code: 'x', message: 'writes a.csv', cell_id: notebook.cells[0].id, index: 0 };
    training.server.answer('POST check', aPlan({ warnings: [warning] }));
    await page.choose();
    expect(dialog()).toContain('writes a.csv');
    training.server.answer('POST check', aPlan());
    await perform(() => all('[aria-label="Replay cell 1"]')[0].click());
    expect(dialog()).not.toContain('writes a.csv');
    await pause(300);
    expect(training.server.bodies.at(-1)).toMatchObject({ prefix: [] });
  });

  it('proposes the variables that later cells need, and sends what the field says', async () => {
    training.server.answer('POST check', aPlan({ makes: ['loss', 'model'], returns: ['model'] }));
    await page.choose();
    expect(field('returns').value).toBe('model');
    expect(words(document.querySelector('#jp-gq-send-returns-hint'))).toBe(
      'variables of this cell: loss, model'
    );
    await press('Send to training');
    expect(training.server.bodies.at(-1)).toMatchObject({ returns: ['model'] });
  });

  it('keeps the names that the user wrote, and shows a refusal at the field', async () => {
    training.server.answer('POST check', aPlan({ makes: ['model'], returns: ['model'] }));
    training.server.answer('POST send', { code: 'invalid_name', message: 'No.', field: 'returns' }, 422);
    await page.choose();
    await enter(field('returns'), 'loss, best  model');
    await press('Send to training');
    expect(training.server.bodies.at(-1)).toMatchObject({ returns: ['loss', 'best', 'model'] });
    expect(words(document.querySelector('#jp-gq-send-returns-problem'))).toBe('No.');
  });

  it('offers a model of GPU only where there are several', async () => {
    await page.choose();
    expect(document.querySelector('#jp-gq-send-gpu_model')).toBeNull();
    await press('Cancel');
    training.server.answer('GET me', aMe({ pools: [aPool({ models: ['A100', 'H100'] })] }));
    const { result } = await page.choose();
    await enter(field('gpu_model'), 'H100');
    await enter(field('gpu_memory'), '12 GB');
    await Promise.all([submit(), result]);
    expect(sent()).toMatchObject({ gpu_model: 'H100', gpus: '1', gpu_memory: '12 GB' });
  });

  it('offers no priority above the one that the queue allows, also after another queue was chosen', async () => {
    const managed = aQueue({ name: 'managed', max_priority: 100 });
    training.server.answer('GET me', aMe({ queues: [managed, aQueue({ name: 'vision' })] }));
    const { result } = await page.choose();
    const hint = (): string => words(document.querySelector('#jp-gq-send-priority-hint'));
    expect(hint()).toContain('at most 100');
    await enter(field('priority'), '100');
    await enter(field('queue'), 'vision');
    expect(hint()).toContain('at most 0');
    await pause(300);
    await submit();
    expect(alerts()).toEqual([
      'Write a whole number from -100 to 0, the highest priority that you may give in vision.'
    ]);
    expect(training.server.asked).not.toContain('POST send');
    await enter(field('priority'), '-5');
    await submit();
    await result;
    expect(sent().priority).toBe(-5);
  });

  it('asks for no preview any more once it is closed', async () => {
    const { result } = await page.choose();
    await enter(field('gpus'), '2');
    const before = training.server.asked.length;
    await press('Cancel');
    expect(await result).toBeNull();
    await pause(300);
    expect(training.server.asked).toHaveLength(before);
  });

  it('disposes its form when it is closed', async () => {
    const dispose = jest.spyOn(Widget.prototype, 'dispose');
    await page.choose();
    const form = document.querySelector('.jp-gq-send-body');
    await press('Cancel');
    expect(dispose.mock.contexts.map(widget => (widget as Widget).node)).toContain(form);
  });

  it('lets Enter press the button that has the focus, and sends otherwise', async () => {
    const { result } = await page.choose();
    const enterOn = (element: Element): Promise<void> =>
      perform(() => element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true })));
    await enterOn(button('MoreGPU memory, tasks, CPU, memory, duration, maximum time, priority'));
    expect(training.server.asked).not.toContain('POST send');
    field('name').focus();
    await enterOn(field('name'));
    expect(await result).toBe('new');
  });
});

describe('what runs first', () => {
  const replayed = (): string[] => all('.jp-gq-replay code').map(words);

  it('is what the page saw run, and can be left out', async () => {
    const [first] = notebook.cells;
    const run = aRun({ cell_id: first.id, code: 'load()', seconds: 1.2 });
    runs = { isComplete: () => true, listRuns: () => [run, { ...run, execution_count: 2 }] };
    const { result } = await page.choose();
    expect(dialog()).toContain('Runs first: 2 cells, which took 2.4 s here');
    await press('Only the last run of each');
    expect(dialog()).toContain('Runs first: 1 cell, which took 1.2 s here');
    await perform(() => all('[aria-label="Replay cell 2"]')[0].click());
    expect(dialog()).toContain('Runs first: no cell');
    await submit();
    await result;
    expect(sent().prefix).toEqual([]);
    expect(sent().left_out_cells).toEqual([first.id, first.id]);
  });

  it('is what the server saw run after a reload of the page, without earlier versions of the target', async () => {
    const target = notebook.cells[1].id;
    const run = { seconds: 1, failed: false };
    training.server.answer('GET kernels/kernel-1/history', {
      cells: [
        { ...run, code: 'train(epochs=1)', execution_count: 1, cell_id: target },
        { ...run, code: 'typed()', execution_count: 2, cell_id: '' }
      ],
      complete: true
    });
    const { result } = await page.choose();
    expect(replayed()).toEqual(['typed()']);
    expect(dialog()).toContain('in the order in which they ran here');
    await submit();
    await result;
    expect(sent().prefix).toEqual([{ cell_id: 'history-2', source: 'typed()', seconds: 1, ran: true }]);
  });

  it('is what the server saw if the kernel restarted unseen', async () => {
    const run = aRun({ cell_id: 'x', code: 'before()' });
    runs = { isComplete: () => true, listRuns: () => [run] };
    training.server.answer('GET kernels/kernel-1/history', { cells: [], complete: true });
    await page.choose();
    expect(dialog()).toContain('Nothing has run in this kernel since it started.');
    expect(replayed()).toEqual(['load()']);
  });

  it('says that only a part of what ran is known', async () => {
    const run = { cell_id: '', code: 'late()', seconds: 1, failed: false, execution_count: 7 };
    training.server.answer('GET kernels/kernel-1/history', { cells: [run], complete: false });
    await page.choose();
    expect(replayed()).toEqual(['late()']);
    expect(dialog()).toContain('What ran before them is not known.');
  });

  it('is what stands above the cell if nobody knows what ran', async () => {
    training.server.answer('GET kernels/kernel-1/history', { code: 'x', message: 'No.' }, 404);
    await page.choose();
    expect(replayed()).toEqual(['load()']);
    expect(dialog()).toContain('in the order of the document, because the run order is not known');
  });

  it('is nothing if the cell is the first one', async () => {
    notebook.content.selected = [0];
    await page.choose();
    expect(dialog()).toContain('The job starts with a new kernel.');
  });
});

describe('what was entered last time', () => {
  it('is proposed again, also after a reload of the page', async () => {
    const { result } = await page.choose();
    await enter(field('gpus'), '2');
    await submit();
    await result;
    await send.deactivate?.(app.frontEnd);
    await activate();
    await page.choose();
    expect(field('gpus').value).toBe('2');
    expect(database.get('jupyter-gq:asked')).toMatchObject({ gpus: '2', notebook: 'digits.ipynb' });
  });

  it('does not matter if it cannot be read', async () => {
    database.set('jupyter-gq:asked', Promise.reject(new Error('broken')));
    await page.choose();
    expect(field('gpus').value).toBe('1');
  });
});

describe('a cell that is in training already', () => {
  beforeEach(() => {
    const targets = [{ cell_id: notebook.cells[1].id, source_hash: '', seconds: null }];
    training.state = {
      ...training.state,
      jobs: [aJob({ id: 'old', targets, left_out_cells: [notebook.cells[0].id] })]
    };
    training.server.answer('DELETE jobs/old', aJob({ id: 'old', phase: 'cancelling' }));
  });

  it('can be sent again beside the job that runs', async () => {
    const { result } = await page.choose();
    expect(dialog()).toContain('This cell was sent to training before');
    await press('Keep both');
    await pause();
    expect(dialog()).not.toContain('is cancelled once');
    await submit();
    expect(await result).toBe('new');
    expect(sent().prefix).toHaveLength(1);
    expect(training.server.asked).not.toContain('DELETE jobs/old');
  });

  it('can replace the job that runs, which is cancelled only when the new one is accepted', async () => {
    const { result } = await page.choose();
    expect(dialog()).toContain('Replacing it cancels this job, once the new one is accepted.');
    await press('Replace it');
    await pause();
    expect(dialog()).toContain(
      '“digits” is cancelled once this job is accepted. The forecast still counts it.'
    );
    expect(dialog()).toContain('As before, 1 earlier cell does not run first.');
    expect(training.server.asked).not.toContain('DELETE jobs/old');
    await submit();
    expect(await result).toBe('new');
    expect(sent().prefix).toEqual([]);
    await settle();
    expect(training.server.asked.slice(-2)).toEqual(['POST send', 'DELETE jobs/old']);
  });

  it('and is one of a sweep is asked about with the whole sweep, whose jobs are all known then', async () => {
    const swept = (id: string): JobView => ({ ...training.state.jobs[0], id, group: 'sweep-1' }) as JobView;
    const jobs = ['one', 'two', 'three'].map(swept);
    training.state = { ...training.state, jobs: jobs.slice(0, 1) };
    training.server.answer('GET jobs', { jobs, next: null });
    await page.choose();
    expect(dialog()).toContain('3 jobs: 3 running.');
    await press('Keep both');
    await pause();
    await submit();
    expect(sent().known_jobs).toEqual(['one', 'two', 'three']);
  });

  it('is asked about beside another selected cell with a job of its own', async () => {
    const other = { cell_id: notebook.cells[0].id, source_hash: '', seconds: null };
    const jobs = [...training.state.jobs, aJob({ id: 'first', name: 'load', targets: [other] })];
    training.state = { ...training.state, jobs };
    training.server.answer('DELETE jobs/first', aJob({ id: 'first', phase: 'cancelling' }));
    notebook.content.selected = [0, 1];
    await page.choose();
    expect(dialog()).toContain('“load” in vision: Running.');
    await press('Replace it');
    await pause();
    expect(dialog()).toContain('“digits” in vision: Running.');
    await press('Keep both');
    await pause();
    await submit();
    await settle();
    expect(training.server.asked.filter(asked => asked.startsWith('DELETE'))).toEqual(['DELETE jobs/first']);
  });

  it('is kept beside the new job by Enter', async () => {
    await page.choose();
    const pressed = new KeyboardEvent('keydown', { key: 'Enter', keyCode: 13, bubbles: true });
    await perform(() => document.querySelector('.jp-Dialog')?.dispatchEvent(pressed));
    await pause();
    await submit();
    expect(training.server.asked).toContain('POST send');
    expect(training.server.asked).not.toContain('DELETE jobs/old');
  });

  it('is found in a notebook that was renamed since', async () => {
    notebook.context.path = 'renamed.ipynb';
    notebook.cells[1].setMetadata(METADATA_KEY, { job: 'old', source_hash: '', seq: 0 });
    await page.choose();
    expect(dialog()).toContain('This cell was sent to training before');
  });

  it('stays as it is if the user cancels', async () => {
    const { result } = await page.choose();
    await press('Cancel');
    expect(await result).toBeNull();
    expect(training.server.asked).toEqual(['GET me']);
  });
});

it('the command is there for code cells of open notebooks', async () => {
  const { commands } = app;
  const inCell = { cellToolbar: true };
  expect([commands.isEnabled(CommandIDs.sendCell), commands.isVisible(CommandIDs.sendCell, inCell)]).toEqual([
    true,
    true
  ]);
  const changes: unknown[] = [];
  commands.commandChanged.connect((_, change) => changes.push(change.id));
  tracker.currentWidget = null;
  tracker.currentChanged.emit(notebook);
  tracker.activeCellChanged.emit({});
  expect([commands.isEnabled(CommandIDs.sendCell), commands.isVisible(CommandIDs.sendCell, inCell)]).toEqual([
    false,
    false
  ]);
  expect(changes).toEqual([CommandIDs.sendCell, CommandIDs.sendCell]);
  expect(await commands.execute(CommandIDs.sendCell)).toBeNull();
});
