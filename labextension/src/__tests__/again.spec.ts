import { nullTranslator } from '@jupyterlab/translation';
import { Notification } from '@jupyterlab/apputils';

import { listGpuChoices } from '../amounts';
import { hashSource } from '../bundle/hash';
import { proposeFromRuns } from '../bundle/prefix';
import { again } from '../plugins/again';
import { repeatJob } from '../send/again';
import type { IOpening } from '../send/opening';
import { proposeValues } from '../send/values';
import type { Targets } from '../send/targets';
import type { ISender } from '../tokens';
import { CommandIDs, commandOfAgain } from '../tokens';
import type { JobView, Me, RanCell } from '../wire';
import { aJob, aMe, aPool, aQueue, aRun } from './builders';
import { FakeApp, FakeTraining } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { clearScreen, perform } from './screen';

const TRANS = nullTranslator.load('jupyter_gq');
const SOURCE = 'train()';
const target = (cell: string, source = SOURCE): JobView['targets'][number] => ({
  cell_id: cell,
  source_hash: hashSource(source),
  seconds: null
});

describe('the dialog of a job that is sent again', () => {
  function open(given: Partial<JobView>, me: Me = aMe(), ran: readonly RanCell[] = []): IOpening {
    const job = aJob({ targets: [target('a')], ...given });
    const values = proposeValues({ gpus: '0.5', cpus: '3' }, me, 'digits.ipynb', 'digits');
    const setup = { id: 'setup', source: 'set_up()', tags: ['gq-setup'], failure: null };
    const { entries } = proposeFromRuns(ran, [setup], new Set(['a']));
    return repeatJob(job, TRANS).open([{ id: 'a', source: SOURCE }], { values, entries }, me);
  }
  const run = (cell: string, failed = false): RanCell => aRun({ cell_id: cell, code: `${cell}()`, failed });
  /** Return the cells that run first. */
  const first = ({ start }: IOpening): string[] =>
    (start.entries ?? []).filter(entry => entry.included).map(entry => entry.key);

  it('leaves out the cells that the user had left out, also after more have run', () => {
    const ran = [run('load'), run('load'), run('bad', true), run('plot'), run('new')];
    const opening = open({ left_out_cells: ['load', 'plot', 'gone', 'setup', 'bad'] }, aMe(), ran);
    expect(first(opening)).toEqual(['0-setup', '2-load', '5-new']);
    expect(opening.notes).toEqual(['As before, 2 earlier cells do not run first.']);
  });

  it('proposes the cells anew if it is not known what the user had left out', () => {
    const olderService = { left_out_cells: undefined, carries_variables: undefined };
    for (const job of [{ left_out_cells: null }, olderService] as Partial<JobView>[]) {
      const opening = open(job, aMe(), [run('load'), run('bad', true)]);
      expect([first(opening), opening.notes]).toEqual([['0-setup', '1-load'], []]);
    }
  });

  it('says that variables went along with the job, which are captured only if the user wants that again', () => {
    const { notes } = open({ carries_variables: true, left_out_cells: ['load'] }, aMe(), [run('load')]);
    expect(notes).toEqual([
      'As before, 1 earlier cell does not run first.',
      'Variables of the kernel went along with “digits”. To take them along as they are now, choose so above.'
    ]);
  });

  it('has the settings of the job in its fields', () => {
    const me = aMe({
      queues: [aQueue(), aQueue({ name: 'nlp', max_priority: 10 })],
      pools: [aPool({ models: ['A100', 'H100'] })]
    });
    const { values, start, notes } = open(
      {
        name: 'night run',
        queue: 'nlp',
        gpus: '2',
        tasks: 4,
        min_tasks: 2,
        cpus: '8',
        memory: '16 GiB',
        gpu_model: 'H100',
        expected_seconds: 5400,
        priority: 5,
        returns: ['model', 'loss'],
        software: 'PyTorch 2.9'
      },
      me
    );
    expect(values).toEqual({
      name: 'night run',
      queue: 'nlp',
      gpus: '2',
      gpuMemory: '',
      tasks: '4',
      minTasks: '2',
      cpus: '8',
      memory: '16 GiB',
      model: 'H100',
      expected: '1 h 30 min',
      maxTime: '',
      priority: '5',
      software: 'PyTorch 2.9',
      continueFrom: ''
    });
    expect([start.returns, notes]).toEqual(['model, loss', []]);
  });

  it.each([
    ['failed', 5, '', 'old', 'digits', true],
    ['cancelled', 5, 'first', 'old', 'digits', true],
    ['done', 5, '', 'old', 'digits', false],
    ['failed', null, 'first', 'first', 'first', true],
    ['done', null, 'first', 'first', 'first', false],
    ['failed', null, '', undefined, undefined, false],
    ['running', 5, 'first', undefined, undefined, false]
  ] as const)(
    'offers the checkpoints of a job that is %s (saved at %s, continued %s)',
    (phase, saved_at, continue_from, id, title, continues) => {
      const { values, start } = open({ id: 'old', phase, saved_at, continue_from });
      expect([start.earlier?.id, start.earlier?.title]).toEqual([id, title]);
      expect(values.continueFrom).toBe(continues ? id : '');
    }
  );

  it('offers no checkpoints of a job of an earlier release that has none', () => {
    const { values, start } = open({ phase: 'failed', continue_from: undefined });
    expect([start.earlier, values.continueFrom]).toEqual([null, '']);
  });

  it('has empty fields where the job named nothing, whatever the last job named', () => {
    const { values, start } = open({});
    expect([values.cpus, values.tasks, values.expected, values.priority]).toEqual(['', '', '', '']);
    expect([start.returns, start.environment.secrets]).toEqual([null, null]);
  });

  it('offers an amount that is not among the usual ones', () => {
    expect(open({ gpus: '0.3' }).values.gpus).toBe('0.3');
    expect(listGpuChoices('1', '0.3')).toEqual(['0', '0.1', '0.2', '0.25', '0.3', '0.5', '0.75', '1']);
    expect(listGpuChoices('1', '0.5')).toEqual(listGpuChoices('1'));
  });

  it('keeps settings that have no field, and says so', () => {
    const { start, notes } = open({
      preferred_gpu_models: ['H100', 'A100'],
      within: 'rack'
    });
    expect(start.unshown).toEqual({
      preferred_gpu_models: ['H100', 'A100'],
      within: 'rack'
    });
    expect(notes).toEqual(['As before, the job prefers H100, then A100, has all tasks in one rack.']);
  });

  it('leaves the limit of the queue to the queue', () => {
    const me = aMe({ queues: [aQueue({ max_seconds: 7200 })] });
    expect(open({ max_seconds: 7200 }, me).values.maxTime).toBe('');
    expect(open({ max_seconds: 5400 }, me).values.maxTime).toBe('1 h 30 min');
  });

  it('keeps times to the minute, however long they are', () => {
    const { values } = open({ max_seconds: 93000, expected_seconds: 90061.5 });
    expect([values.maxTime, values.expected]).toEqual(['1 d 1 h 50 min', '1 d 1 h 1 min 1.5 s']);
  });

  it('says which settings are no longer possible', () => {
    const { values, notes } = open({ queue: 'gone', gpus: '8', gpu_model: 'V100', secrets: ['HF_TOKEN'] });
    expect([values.queue, values.gpus]).toEqual(['vision', '0.5']);
    expect(notes).toEqual([
      'The job was in the queue gone, to which you can no longer send.',
      'The job had 8 GPU, which is more than there is now.',
      'The job asked for GPUs of the model V100, which vision does not have.',
      'The job had the secret HF_TOKEN, which your admin no longer allows.'
    ]);
  });

  it('keeps secrets that are allowed', () => {
    const { start, notes } = open({ secrets: ['HF_TOKEN'] }, aMe({ secrets: ['HF_*'] }));
    expect([start.environment.secrets, notes]).toEqual([['HF_TOKEN'], []]);
  });

  it('says which cells have changed or are gone', () => {
    const { notes } = open({ targets: [target('a', 'train(1)'), target('b')] });
    expect(notes).toEqual([
      'A cell has changed since “digits” was sent. The job runs it as it is now.',
      'A cell of “digits” is no longer in this notebook, and is not sent.'
    ]);
  });
});

describe('a job that has ended', () => {
  let app: FakeApp;
  let training: FakeTraining;
  let notebook: FakePanel;
  /** What was sent again. */
  let sent: Targets[];

  beforeEach(async () => {
    jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    app = new FakeApp();
    training = new FakeTraining();
    notebook = new FakePanel(['load()', SOURCE, 'test()']).show();
    sent = [];
    const sender: ISender = {
      send: (panel, origin) => {
        expect(panel).toBe(notebook);
        sent.push(origin.findTargets(panel));
        return Promise.resolve('new');
      }
    };
    app.addForeignCommand('docmanager:open', () => notebook);
    await again.activate(app.frontEnd, training, sender, new FakeTracker().tracker, null);
  });
  afterEach(async () => {
    await again.deactivate?.(app.frontEnd);
    notebook.close();
    clearScreen();
    jest.restoreAllMocks();
  });

  const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);
  const job = (given: Partial<JobView> = {}): JobView =>
    aJob({
      phase: 'failed',
      targets: [target(notebook.cells[1].id), target(notebook.cells[2].id, 'test()')],
      ...given
    });
  const bothCells = (): Targets => ({ models: notebook.cells.slice(1), kernelId: 'kernel-1' });
  async function press(given: Partial<JobView> = {}): Promise<void> {
    const ended = job(given);
    training.state = { ...training.state, jobs: [ended] };
    await perform(() => app.commands.execute(commandOfAgain(ended.phase), { job: ended.id }));
  }

  it('opens its notebook and the dialog', async () => {
    await press({ phase: 'done' });
    expect(app.executed).toContainEqual(['docmanager:open', { path: 'digits.ipynb' }]);
    expect(sent).toEqual([bothCells()]);
  });

  it('after a failure, leads to the cell with the error, where it can be corrected', async () => {
    notebook.cells[2].outputs.fromJSON([{ output_type: 'error', ename: 'E', evalue: '', traceback: [] }]);
    await press();
    expect([notebook.content.activeCellIndex, notebook.content.mode, sent]).toEqual([2, 'edit', []]);
    const [note] = Notification.manager.notifications;
    expect(note.message).toBe('Correct the cell, then send “digits” again.');
    await perform(() => note.options.actions?.[0].callback(new MouseEvent('click')));
    expect(sent).toEqual([bothCells()]);
    expect(told()).toEqual([]);
  });

  it('after a failure, opens the dialog at once if a cell was corrected', async () => {
    notebook.cells[1].sharedModel.setSource('train(lr=0.1)');
    await press();
    expect([notebook.content.activeCellIndex, sent, told()]).toEqual([1, [bothCells()], []]);
  });

  it('finds its cells, whatever is selected, or says that none is left', () => {
    notebook.content.selected = [0];
    expect(repeatJob(job(), TRANS).findTargets(notebook.panel)).toEqual(bothCells());
    expect(repeatJob(job({ targets: [target('gone')] }), TRANS).findTargets(notebook.panel)).toEqual({
      title: 'There is nothing to send again',
      message: 'The cells of “digits” are no longer in digits.ipynb.'
    });
  });

  it('says so if its notebook is gone', async () => {
    app.missingFiles.push('digits.ipynb');
    await press({ phase: 'cancelled' });
    expect(told()[0]).toMatch(/^digits.ipynb no longer exists/);
    expect(sent).toEqual([]);
  });

  it('says so if it did not come from a notebook', async () => {
    await press({ phase: 'done', origin: 'call' });
    expect(told()).toEqual([
      '“digits” was not sent from cells of a notebook. Send it again from where it came.'
    ]);
    expect([app.executed.map(([id]) => id), sent]).toEqual([[CommandIDs.sendAgain], []]);
  });
});
