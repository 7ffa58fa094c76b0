import { nullTranslator } from '@jupyterlab/translation';
import { MimeModel } from '@jupyterlab/rendermime';
import { Signal } from '@lumino/signaling';

import { makeSweepOutput, readSweep, sortRows } from '../attach/sweep';
import { SweepRenderer } from '../attach/sweeptable';
import { NEW_JOB } from '../send/opening';
import type { ISendOptions } from '../send/options';
import { SendDialog } from '../send/dialog';
import {
  countJobs,
  describeSweep,
  findMode,
  listGrid,
  makeSweep,
  MOST_JOBS,
  NO_SWEEP,
  splitValues
} from '../send/sweep';
import { proposeValues } from '../send/values';
import { CommandIDs } from '../tokens';
import type { Plan, SentSweep } from '../wire';
import { ENGLISH, aJob, aMe, aPlan, aQueue, captureNothing } from './builders';
import { FakeApp, FakeTraining } from './fakes';
import { all, attach, clearScreen, draw, enter, perform, press, words } from './screen';

const trans = nullTranslator.load('jupyter_gq');
const choose = (values: Record<string, string>, parallel = ''): typeof NO_SWEEP => ({
  ...NO_SWEEP,
  values,
  parallel
});
const SWEEP: SentSweep = {
  group: 'sweep-1',
  name: 'Digits',
  queue: 'vision',
  metric: 'loss',
  mode: 'min',
  jobs: ['0.1', '0.2', '0.3'].map((lr, number) => ({ job: `job-${number}`, values: { lr } }))
};

describe('the values of a sweep', () => {
  it.each([
    ['0.1, 0.01', ['0.1', '0.01']],
    [' 1,,2 , , ', ['1', '', '2']],
    [',', []],
    [`"a, b", 'c\\', d', rb"e,"`, ['"a, b"', `'c\\', d'`, 'rb"e,"']],
    ['', []],
    ['True', ['True']],
    ['"open, 1', ['"open', '1']]
  ])('%s', (text, values) => {
    expect(splitValues(text)).toEqual(values);
  });

  it('make a job for each combination of the names that have some', () => {
    const choice = choose({ lr: '0.1, 0.2', depth: '1, 2, 3', name: ' ' });
    expect(listGrid(choice)).toEqual({ lr: ['0.1', '0.2'], depth: ['1', '2', '3'] });
    expect(countJobs(choice)).toBe(6);
    expect(makeSweep(NO_SWEEP, trans)).toBeNull();
  });

  it('make a job for each combination of more than four names, as long as there are not too many', () => {
    const names = ['lr', 'depth', 'width', 'seed', 'decay', 'momentum', 'name'];
    const choice = (values: string): typeof NO_SWEEP =>
      choose(Object.fromEntries(names.map(name => [name, values])));
    expect(countJobs(choice('1, 2'))).toBe(128);
    expect(describeSweep(choice('1, 2'), trans)).toMatch(/^Sends 128 jobs as one group\./);
    const made = makeSweep(choice('1, 2'), trans);
    expect(made).toMatchObject({ grid: Object.fromEntries(names.map(name => [name, ['1', '2']])) });
    expect(makeSweep(choice('1, 2, 3'), trans)).toEqual({
      code: 'invalid_grid',
      field: 'grid',
      message: 'These values make 2187 jobs; a sweep has at most 200.'
    });
    expect(describeSweep(choice('1, 2, 3'), trans)).toBe('');
  });

  it.each([
    [
      choose({ n: Array.from(Array(201).keys()).join(',') }),
      'These values make 201 jobs; a sweep has at most 200.'
    ],
    [choose({ n: '1' }, 'two'), '“two” is not a number of jobs.'],
    [choose({ n: '1' }, '0'), '“0” is not a number of jobs.'],
    [choose({ n: '1, oops(' }), '“oops(” is not a number, a text in quotes, True, False or None.'],
    [choose({ n: '1 2' }), '“1 2” is not a number'],
    [choose({ n: 'true' }), '“true” is not a number'],
    [choose({ n: "1, 'open" }), "“'open” is not a number"],
    [choose({ n: `f('a')` }), "“f('a')” is not a number"],
    [choose({ n: `'a' b` }), "“'a' b” is not a number"],
    [choose({ n: '1,,2' }), 'A value is missing before or between commas.'],
    [choose({ n: '1, 2, 1' }), '“1” is written twice, and the jobs would be the same. Write it once.'],
    [choose({ n: '0.1, .10' }), '“.10” is written twice'],
    [choose({ n: '1e3, 1000., 5' }), '“1000.” is written twice'],
    [choose({ n: '255, 0xfF' }), '“0xfF” is written twice'],
    [choose({ n: '-1_0, - 10' }), '“- 10” is written twice'],
    [choose({ n: `"a", 'a'` }), "“'a'” is written twice"],
    [choose({ n: '0.0, -0.0' }), '“-0.0” is written twice']
  ])('that cannot be sent are a problem', (choice, message) => {
    expect(makeSweep(choice, trans)).toMatchObject({ message: expect.stringContaining(message) as string });
  });

  it.each([
    [choose({ n: '1' }), 'Sends 1 job.'],
    [choose({ n: '1, 2' }), 'Sends 2 jobs as one group. As many run at the same time as the queue lets run.']
  ])('are described by what is sent', (choice, said) => {
    expect(describeSweep(choice, trans)).toBe(said);
  });

  it.each([
    ['loss', [], 'min'],
    ['val_loss', ['accuracy'], 'min'],
    ['testRMSE', [], 'min'],
    ['valLoss2', [], 'min'],
    ['accuracy', ['loss'], 'max'],
    ['glossary', [], 'max'],
    [' ', ['error', 'accuracy'], 'min'],
    ['', [], 'max']
  ] as const)('are compared as the name of the number says: "%s", %j', (metric, returns, mode) => {
    expect(findMode({ ...NO_SWEEP, metric }, returns)).toBe(mode);
    expect(findMode({ ...NO_SWEEP, metric, mode: 'max' }, returns)).toBe('max');
    expect(makeSweep({ ...choose({ n: '1, 2' }), metric }, trans, returns)).toMatchObject({
      group_mode: mode
    });
  });

  it.each([
    '1, 1.0',
    '1, -1',
    '1, True',
    '"1", 1',
    '"a", "b"',
    '100000000000000000000, 100000000000000000001'
  ])('are sent if Python tells them apart: %s', values => {
    expect(makeSweep(choose({ n: values }), trans)).toMatchObject({ grid: { n: splitValues(values) } });
  });

  it.each(['1', '-0.5', '+ 3', '1_000', '1e-3', '2.', '.5E+2', '0xfF', '0b1', 'None', "f'{x}'", '"a" "b"'])(
    'are for the server to judge if they may be a literal: %s',
    value => {
      expect(makeSweep(choose({ n: value }), trans)).toMatchObject({ grid: { n: [value] } });
    }
  );
});

describe('the rows', () => {
  const numbers = new Map<string, Record<string, number>>([
    ['job-0', { loss: 3 }],
    ['job-2', { loss: 1, size: 5 }]
  ]);

  it.each([
    ['min', 'loss', ['job-2', 'job-0', 'job-1']],
    ['max', 'loss', ['job-0', 'job-2', 'job-1']],
    ['max', '', ['job-0', 'job-2', 'job-1']],
    ['max', 'size', ['job-2', 'job-0', 'job-1']]
  ] as const)('have the best first: %s of "%s"', (mode, metric, order) => {
    expect(sortRows({ ...SWEEP, mode, metric }, new Map(), numbers).map(({ id }) => id)).toEqual(order);
  });

  it.each([
    ['min', ['job-1', 'job-0', 'job-2']],
    ['max', ['job-0', 'job-1', 'job-2']]
  ] as const)('have an infinite number by its size and nan last: %s', (mode, order) => {
    const diverged = new Map([
      ['job-0', { loss: Infinity }],
      ['job-1', { loss: -1 }],
      ['job-2', { loss: NaN }]
    ]);
    expect(sortRows({ ...SWEEP, mode }, new Map(), diverged).map(({ id }) => id)).toEqual(order);
  });

  it('survive the file', () => {
    const { data } = makeSweepOutput(SWEEP);
    expect(readSweep(JSON.parse(JSON.stringify(data)) as typeof data)).toEqual(SWEEP);
    expect(readSweep({})).toBeNull();
    const twice = { ...SWEEP, jobs: [{ job: 'job-0', values: { lr: '1', depth: '2' } }] };
    const sorted = JSON.stringify(makeSweepOutput(twice).data).replace(
      '{"lr":"1","depth":"2"}',
      '{"depth":"2","lr":"1"}'
    );
    const [row] = readSweep(JSON.parse(sorted) as typeof data)?.jobs ?? [];
    expect(Object.entries(row.values)).toEqual([
      ['lr', '1'],
      ['depth', '2']
    ]);
  });
});

describe('the table under a cell', () => {
  afterEach(clearScreen);

  it('is live, has the best first, and cancels the rest', async () => {
    const training = new FakeTraining();
    const app = new FakeApp();
    const cancelled: unknown[] = [];
    app.addForeignCommand(CommandIDs.cancelJobs, args => cancelled.push(args));
    const jobs = SWEEP.jobs.map(({ job }) => aJob({ id: job, group: 'sweep-1', phase: 'running' }));
    training.server.answer('GET jobs', { jobs });
    const value = { type: 'float', bytes: 9, sha256: '', path: '', reason: '' };
    const loss = (number: number | 'nan'): object => ({
      variables: [{ ...value, name: 'loss', number }],
      files: [],
      python: '3.12',
      omitted_files: 0
    });
    training.server.answer('GET jobs/job-1/results', loss('nan'));
    training.server.answer('GET jobs/job-2/results', loss(0.014731));
    const renderer = await attach(new SweepRenderer(training, app.commands, ENGLISH));
    await renderer.renderModel(new MimeModel({ data: makeSweepOutput(SWEEP).data }));
    await draw(renderer);
    await perform(() => undefined);
    expect(words(renderer.node)).toContain('3 jobs: 3 running');
    await perform(() => [1, 2].forEach(n => training.recordJob({ ...jobs[n], phase: 'done' })));
    await perform(() => training.recordJob(aJob({ id: 'other', group: 'sweep-2' })));
    await perform(() => training.resumed.emit()); // its answer is older than the events
    await perform(() => undefined);
    expect(words(renderer.node)).toContain('3 jobs: 2 done, 1 running');
    expect(all('tbody tr', renderer.node).map(row => words(row))).toEqual([
      'Done0.014730.3LogDetails',
      'Running0.1LogDetails',
      'Donenan0.2LogDetails'
    ]);
    await press('Cancel the rest');
    expect(cancelled).toEqual([{ jobs: ['job-0'] }]);
  });
});

describe('deleted jobs', () => {
  afterEach(clearScreen);

  /** Show the table of a sweep of which the server has these jobs. */
  async function aTable(ids: readonly string[]): Promise<{ training: FakeTraining; node: HTMLElement }> {
    const training = new FakeTraining();
    answer(training, ids);
    return { training, node: await showTable(training) };
  }
  async function showTable(training: FakeTraining): Promise<HTMLElement> {
    const renderer = await attach(new SweepRenderer(training, new FakeApp().commands, ENGLISH));
    await renderer.renderModel(new MimeModel({ data: makeSweepOutput(SWEEP).data }));
    await draw(renderer);
    return renderer.node;
  }
  const answer = (training: FakeTraining, ids: readonly string[]): void =>
    training.server.answer('GET jobs', {
      jobs: ids.map(id => aJob({ id, group: 'sweep-1', phase: 'cancelled' }))
    });
  const rows = (node: HTMLElement): (string | undefined)[] =>
    all('tbody tr', node).map(row => row.dataset.job);

  it('have no row: not at first, not once they are deleted here, and not after an outage', async () => {
    const { training, node } = await aTable(['job-0', 'job-1', 'job-2']);
    expect(rows(node)).toEqual(['job-0', 'job-1', 'job-2']);
    await perform(() => training.forgetJob('job-1'));
    expect(rows(node)).toEqual(['job-0', 'job-2']);
    expect(words(node)).toContain('2 jobs: 2 cancelled');
    answer(training, ['job-2']);
    await perform(() => training.resumed.emit());
    expect(rows(node)).toEqual(['job-2']);
    expect(rows((await aTable(['job-1'])).node)).toEqual(['job-1']);
  });

  it('leave a sentence if there are no others', async () => {
    const { node } = await aTable([]);
    expect(rows(node)).toEqual([]);
    expect(words(node)).toContain('Its jobs are not known to you here: they may be deleted');
  });

  it('are not taken for deleted while the server has not answered', async () => {
    const training = new FakeTraining();
    training.server.isDown = true;
    expect(rows(await showTable(training))).toEqual(['job-0', 'job-1', 'job-2']);
  });
});

describe('the section of the dialog', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => {
    clearScreen();
    jest.useRealTimers();
  });

  const assigned = (name: string): Plan['assignments'][number] => ({
    name,
    value: '0.5',
    line: 1,
    title: `${name} = 0.5`
  });

  /** Open the dialog of a cell with these assignments; return its section, and what it sends. */
  async function open(assignments: Plan['assignments']): Promise<{ section: HTMLElement; sent: unknown[] }> {
    const me = aMe({ queues: [aQueue()] });
    const sent: unknown[] = [];
    const options: ISendOptions = {
      values: proposeValues({}, me, 'a.ipynb', 'a'),
      queues: me.queues,
      pools: me.pools,
      largest: me.largest_request,
      secrets: me,
      trans,
      targets: [{ id: 'train', source: 'train()' }],
      prefix: { from: 'history', entries: [] },
      start: NEW_JOB,
      notes: [],
      check: () => Promise.resolve(aPlan({ assignments, returns: ['model'] })),
      client: { slowChanged: new Signal<unknown, boolean>({}), now: 1000 },
      capture: captureNothing,
      preview: () =>
        Promise.resolve({ starts_now: true, sentence: 'Starts now.', alternatives: [] } as never),
      send: () => Promise.reject(new Error('one job was sent')),
      sweep: {
        trans,
        send: (request, _prefix, returns) => {
          sent.push([
            request.grid,
            request.group_parallel,
            request.group_metric,
            request.group_mode,
            returns
          ]);
          return Promise.resolve(SWEEP);
        }
      }
    };
    await perform(() => {
      new SendDialog(options).ask().catch(() => undefined);
    });
    await perform(() => jest.advanceTimersByTimeAsync(300));
    return { section: all('[aria-label="Send as sweep"]')[0], sent };
  }

  it('has fields for the first of many names, and for the others once the user asks', async () => {
    const { section } = await open([...Array(297).keys()].map(at => assigned(`x${at}`)));
    expect(words(section)).toContain('other values of x0, x1, x2, x3 and 293 more variables');
    const fields = (): number => section.querySelectorAll('.jp-gq-sweep-names input').length;
    expect(fields()).toBe(12);
    await press('Show all 297 variables');
    expect(fields()).toBe(297);
    expect(words(section)).not.toContain('Show all');
  });

  it('has room for as many long numbers as a sweep takes, none of which the browser cuts', async () => {
    const { section } = await open([assigned('lr')]);
    const field = section.querySelectorAll<HTMLInputElement>('.jp-gq-sweep-names input').item(0);
    const values = [...Array(MOST_JOBS).keys()].map(number => `0.00000000000000000${number}`);
    expect(field.maxLength).toBeGreaterThan(values.join(', ').length);
  });

  it('names the first four of the names that can vary, and counts the others', async () => {
    const names = ['lr', 'depth', 'width', 'seed', 'decay', 'momentum'];
    const hint = async (count: number): Promise<string> => {
      const { section } = await open(names.slice(0, count).map(assigned));
      const said = words(section);
      await press('Cancel');
      return said;
    };
    expect(await hint(4)).toMatch(/other values of lr, depth, width, seed(?! and)/);
    expect(await hint(5)).toContain('other values of lr, depth, width, seed and 1 more variable');
    expect(await hint(6)).toContain('other values of lr, depth, width, seed and 2 more variables');
  });

  it('counts the values of a name whose field is shown only on demand', async () => {
    const { section } = await open([...Array(20).keys()].map(at => assigned(`x${at}`)));
    await press('Show all 20 variables');
    await enter(all('#jp-gq-send-sweep-x19')[0], '1, 2');
    expect(words(section)).toContain('Sends 2 jobs as one group.');
  });

  it('says how many jobs are sent, and sends them with the number that is compared', async () => {
    const { section, sent } = await open([assigned('lr')]);
    expect(words(section)).toMatch(/several jobs with other values of lr(?! and)/);
    await perform(() => section.querySelector('button')?.click());
    await enter(all('#jp-gq-send-sweep-lr')[0], '0.1, 0.01');
    expect(words(section)).toContain('Sends 2 jobs as one group. As many run at the same time as the queue');
    await enter(all('#jp-gq-send-sweep-lr')[0], '0.1, lots');
    expect(all('.jp-gq-mod-problem [role=alert]').map(words)).toEqual([
      '“lots” is not a number, a text in quotes, True, False or None.'
    ]);
    await enter(all('#jp-gq-send-sweep-lr')[0], '0.1, 0.01');
    await enter(all('#jp-gq-send-group_parallel')[0], '0');
    const refusals = ['“0” is not a number of jobs. Write 1 or more, or leave it empty.'];
    expect(all('[role=alert]').map(words)).toEqual(refusals);
    expect(words(section)).not.toContain('Sends 2 jobs');
    await press('Send to training');
    expect(all('[role=alert]').map(words)).toEqual(refusals);
    await enter(all('#jp-gq-send-group_parallel')[0], '1');
    expect(all('[aria-label=Forecast]').map(words)).toEqual([
      'The first of 2 jobs: Starts now. When the others start is not known.'
    ]);
    const mode = all('#jp-gq-send-group_mode')[0] as HTMLSelectElement;
    expect(mode.value).toBe('max');
    await enter(all('#jp-gq-send-group_metric')[0], 'loss');
    expect(mode.value).toBe('min');
    expect(words(section)).toContain('At most 1 of them runs at the same time');
    await press('Send to training');
    expect(sent).toEqual([[{ lr: ['0.1', '0.01'] }, 1, 'loss', 'min', ['model', 'loss']]]);
  });
});
