import { Notification } from '@jupyterlab/apputils';

import { describeJob, omitUnused } from '../jobs';
import { listDetails } from '../panel/facts';
import { PanelWidget } from '../panel/widget';
import { unused } from '../plugins/unused';
import { CommandIDs } from '../tokens';
import { describeChart, describeMissing, makePaths } from '../usage';
import { aJob, aUsage, ENGLISH } from './builders';
import { FakeApp, FakeTraining, NOTHING_LOADED, settle } from './fakes';
import { all, attach, clearScreen, draw, words } from './screen';

const SENTENCE =
  'This job has used no GPU for 15 min, although it holds 1 GPU. Cancel it, or let its code use the GPU.';
const UNUSED = { since: 1000, sentence: SENTENCE };

afterEach(() => {
  clearScreen();
  jest.restoreAllMocks();
  jest.useRealTimers();
});

describe('the lines of the chart', () => {
  it('are steps out of 100 % and out of the memory limit, with gaps where nothing is known', () => {
    // Four intervals of 60 units; the third one is not known, and of the second one not the memory.
    expect(makePaths(aUsage())).toEqual({
      use: 'M0.0 23.6H60.0L60.0 9.2H120.0M180.0 16.4H240.0',
      memory: 'M0.0 29.0H60.0M180.0 20.0H240.0'
    });
  });

  it('stay inside the drawing, also without a limit and beyond it', () => {
    expect(makePaths(aUsage({ memory_limit_mib: null })).memory).toContain('M180.0 2.0');
    expect(makePaths(aUsage({ memory_limit_mib: 100 })).memory).toContain('M180.0 2.0');
    expect(makePaths(aUsage({ points: [] }))).toEqual({ use: '', memory: '' });
  });

  it('are said in words, without figures that are not known', () => {
    expect(describeChart(aUsage(), ENGLISH)).toBe(
      'GPU use over 1 min. GPU: 60 % last, 60 % on average, 90 % at most. Memory: 20 of 40 GiB last, 20 GiB at most.'
    );
    const points = [{ at: 1, utilisation: null, highest: null, memory_mib: 1024 }];
    expect(describeChart(aUsage({ points, memory_limit_mib: null }), ENGLISH)).toBe(
      'GPU use over 15 s. Memory: 1 GiB last, 1 GiB at most.'
    );
  });

  it('begin with the run, or the page says since when the use is known', () => {
    const job = aJob({ running_since: 1000 });
    expect(describeMissing(job, aUsage(), 2000, ENGLISH)).toBe('');
    expect(describeMissing(job, aUsage({ since: 1200 }), 2000, ENGLISH)).toMatch(/^Known since .* only\.$/);
    expect(describeMissing(job, aUsage({ since: 1200, run: 7 }), 2000, ENGLISH)).toBe('');
  });
});

describe('the chart in the details of a job', () => {
  /** The panel with the details of this job, whose use the server knows. */
  async function details(job = aJob(), usage = aUsage()): Promise<[PanelWidget, FakeTraining]> {
    const training = new FakeTraining();
    training.server.answer('GET jobs/job-1/usage', usage);
    training.state = { ...training.state, jobs: [job] };
    const panel = await attach(new PanelWidget(training, NOTHING_LOADED, new FakeApp().commands, ENGLISH));
    panel.reveal('job-1');
    await draw(panel);
    return [panel, training];
  }
  const asked = ({ server }: FakeTraining): number =>
    server.asked.filter(path => path === 'GET jobs/job-1/usage').length;

  it('is an image with words, which no live region speaks', async () => {
    const [panel] = await details();
    const [chart] = all('.jp-gq-usage > svg');
    expect(chart.getAttribute('role')).toBe('img');
    expect(chart.getAttribute('aria-label')).toContain('60 % last');
    expect(words(all('.jp-gq-usage figcaption')[0])).toContain('Memory: 20 of 40 GiB last');
    expect(chart.closest('[role=status],[role=log],[role=alert],[aria-live]')).toBeNull();
    expect(all('.jp-gq-usage-key').every(key => key.getAttribute('aria-hidden') === 'true')).toBe(true);
    panel.dispose();
  });

  it('is read again while the job runs and the panel is visible, with no timer of its own', async () => {
    jest.useFakeTimers({ now: 1_000_000_000 });
    const [panel, training] = await details();
    expect(asked(training)).toBe(1);
    jest.setSystemTime(1_000_040_000);
    await draw(panel);
    expect(asked(training)).toBe(2);
    training.state = { ...training.state, jobs: [aJob({ phase: 'done', finished_at: 2000 })] };
    await draw(panel);
    const ended = asked(training);
    jest.setSystemTime(1_000_090_000);
    await draw(panel);
    expect(asked(training)).toBe(ended);
    panel.dispose();
  });

  it.each([
    ['has no GPU', aJob({ gpus: '0' })],
    ['never ran', aJob({ run: 0, phase: 'waiting' })]
  ])('is not asked for if the job %s', async (_, job) => {
    const [panel, training] = await details(job);
    expect([asked(training), all('.jp-gq-usage')]).toEqual([0, []]);
    panel.dispose();
  });

  it.each([
    ['running', 1],
    ['done', 0]
  ] as const)('shows a single point only of a job that runs: %s', async (phase, count) => {
    const [panel] = await details(aJob({ phase }), aUsage({ points: aUsage().points.slice(0, 1) }));
    expect(all('.jp-gq-usage')).toHaveLength(count);
    panel.dispose();
  });

  it('is not there if nothing is known, or the service is of an earlier release', async () => {
    const [panel] = await details(aJob(), aUsage({ points: [], since: null }));
    expect(all('.jp-gq-usage')).toEqual([]);
    panel.dispose();
    const training = new FakeTraining();
    training.state = { ...training.state, jobs: [aJob()] };
    const older = await attach(new PanelWidget(training, NOTHING_LOADED, new FakeApp().commands, ENGLISH));
    older.reveal('job-1');
    await draw(older);
    expect(all('.jp-gq-usage')).toEqual([]);
    older.dispose();
  });
});

describe('the details of a running job', () => {
  const facts = (job: ReturnType<typeof aJob>, now: number): Record<string, string> =>
    Object.fromEntries(listDetails(job, now, ENGLISH));

  it('say how far it is, what was expected, what is left, and when it saved its state', () => {
    const job = aJob({
      running_since: 1000,
      ran_seconds: 100,
      run: 2,
      expected_seconds: 1800,
      progress: { fraction: 0.25, text: 'train: 25/100' },
      saved_at: 1060
    });
    expect(facts(job, 1300)).toMatchObject({
      Progress: '25 % · train: 25/100',
      Time: '6 min 40 s over all runs, without pauses; 30 min were expected',
      Left: 'about 20 min, by its progress',
      Checkpoint: 'saved 4 min ago'
    });
  });

  it.each([
    [{ progress: null }],
    [{ progress: { fraction: null, text: 'epoch 1' } }],
    [{ progress: { fraction: 0.001, text: '' } }],
    [{ progress: { fraction: 1, text: '' } }],
    [{ progress: { fraction: 0.5, text: '' }, running_since: 1299 }],
    [{ progress: { fraction: 0.5, text: '' }, phase: 'done', finished_at: 1200 }]
  ] as const)('say nothing about the rest if too little is known: %j', given => {
    expect(facts(aJob({ running_since: 1000, ...given }), 1300)).not.toHaveProperty('Left');
  });

  it('say nothing about a checkpoint that is not known', () => {
    expect(facts(aJob(), 1300)).not.toHaveProperty('Checkpoint');
    expect(facts(aJob({ saved_at: undefined }), 1300)).not.toHaveProperty('Checkpoint');
  });
});

describe('a job that uses no GPU', () => {
  let app: FakeApp;
  let training: FakeTraining;
  const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);

  beforeEach(async () => {
    jest.useFakeTimers({ now: 2_000_000 });
    [app, training] = [new FakeApp(), new FakeTraining()];
    app.addForeignCommand(CommandIDs.showJob);
    await unused.activate(app.frontEnd, training);
  });
  afterEach(async () => {
    await unused.deactivate?.(app.frontEnd);
    window.localStorage.clear();
  });

  it('is not told again when the page is loaded again', async () => {
    training.recordJob(aJob({ unused_gpu: UNUSED }));
    expect(told()).toHaveLength(1);
    await unused.deactivate?.(app.frontEnd);
    await unused.activate(app.frontEnd, training);
    expect(told()).toEqual([]);
    training.recordJob(aJob({ id: 'job-2', unused_gpu: UNUSED }));
    expect(told()).toHaveLength(1);
  });

  it('is not told again by a tab that another one has forestalled', async () => {
    const elsewhere = new FakeTraining();
    elsewhere.recordJob(aJob({ unused_gpu: UNUSED }));
    await unused.activate(new FakeApp().frontEnd, elsewhere);
    expect(told()).toHaveLength(1);
    training.recordJob(aJob({ unused_gpu: UNUSED }));
    expect(told()).toHaveLength(1);
  });

  it('is remembered among the last 500 of them', () => {
    const many = Array.from({ length: 501 }, (_, index) => aJob({ id: `job-${index}`, unused_gpu: UNUSED }));
    training.set({ jobs: many });
    const stored = window.localStorage.getItem(window.localStorage.key(0) ?? '') ?? '';
    expect(JSON.parse(stored)).toEqual(many.slice(1).map(({ id }) => id));
  });

  it('is told where the browser keeps nothing for the page', () => {
    const refuse = jest.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
      throw new Error('full');
    });
    training.recordJob(aJob({ unused_gpu: UNUSED }));
    expect(told()).toHaveLength(1);
    refuse.mockRestore();
  });

  it('says so in its line, with the time that goes on', () => {
    const job = aJob({ unused_gpu: UNUSED, sentence: `Running on 1 GPU. ${SENTENCE}` });
    expect(describeJob(job, 2080, ENGLISH)).toBe('No GPU used for 18 min, although the job holds 1 GPU.');
    const soon = UNUSED.since + 59;
    expect(describeJob(job, soon, ENGLISH)).toBe(
      'No GPU used for less than a minute, although the job holds 1 GPU.'
    );
    expect(omitUnused(job, 2080)).toBe('Running on 1 GPU.');
    expect(describeJob(aJob({ unused_gpu: undefined }), 2080, ENGLISH)).toBe('Runs.');
  });

  it('is told once, with a way to the job, and no more when it uses its GPU', async () => {
    training.recordJob(aJob());
    expect(told()).toEqual([]);
    training.recordJob(aJob({ unused_gpu: UNUSED }));
    training.recordJob(aJob({ unused_gpu: { ...UNUSED, sentence: 'This job has used no GPU for 20 min.' } }));
    expect(told()).toEqual(['“digits”: No GPU used for 16 min, although the job holds 1 GPU.']);
    const [{ options }] = Notification.manager.notifications;
    options.actions?.[0].callback(new MouseEvent('click'));
    await settle();
    expect(app.executed).toEqual([[CommandIDs.showJob, { job: 'job-1' }]]);
    training.recordJob(aJob());
    expect(told()).toEqual([]);
  });

  it('is not told again when the user has closed the notification', () => {
    training.recordJob(aJob({ unused_gpu: UNUSED }));
    Notification.manager.dismiss();
    training.recordJob(aJob({ id: 'job-2', unused_gpu: null }));
    expect(told()).toEqual([]);
  });

  it('is one of several in one notification', () => {
    training.recordJob(aJob({ unused_gpu: UNUSED }));
    training.recordJob(aJob({ id: 'job-2', unused_gpu: UNUSED }));
    expect(told()).toEqual(['2 running jobs have used no GPU for a while, although they hold some.']);
    training.recordJob(aJob({ phase: 'done', finished_at: 2000, unused_gpu: UNUSED }));
    training.recordJob(aJob({ id: 'job-2', phase: 'done', finished_at: 2000, unused_gpu: UNUSED }));
    expect(told()).toEqual([]);
  });
});
