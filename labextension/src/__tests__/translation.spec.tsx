/** All that a user reads comes through the translator: in a made-up language no English is left. */

import { Notification } from '@jupyterlab/apputils';
import { MimeModel, RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { StatusBar } from '@jupyterlab/statusbar';
import { Signal } from '@lumino/signaling';

import { JOB_MIME, makePlaceholder } from '../attach/metadata';
import { JobRenderer } from '../attach/renderer';
import { hashSource } from '../bundle/hash';
import plugins from '../index';
import { NewsFeed } from '../news';
import type { JobPhase } from '../jobs';
import { PanelWidget } from '../panel/widget';
import { SendDialog } from '../send/dialog';
import { NEW_JOB } from '../send/opening';
import { proposeValues } from '../send/values';
import { CommandIDs } from '../tokens';
import type { NotebookView } from '../wire';
import { aJob, aMe, aNotebook, aPlan, aPool, aQueue, aUsage, someResults, captureNothing } from './builders';
import { FakeApp, FakeTraining, NOTHING_LOADED, someServices } from './fakes';
import { FakePanel, FakeTracker, startCell } from './notebooks';
import { findUntranslated, listUntranslated, PSEUDO, PSEUDO_TRANSLATOR } from './pseudo';
import { all, attach, clearScreen, draw, perform } from './screen';

// Many jobs with all their details are drawn, on machines that may be busy.
jest.setTimeout(60_000);

const NOW = Date.now() / 1000;
/** What the service says is in its own words. */
const SAID = '«said»';
const PHASES: readonly JobPhase[] = [
  'waiting',
  'starting',
  'running',
  'pausing',
  'paused',
  'cancelling',
  'done',
  'failed',
  'cancelled'
];
const MUCH = { quota: '2', limit: '4', used: '1', default: '1' };
const WARNING = { expire_at: NOW + 300, sentence: SAID, keep_seconds: 1800 };

/** A job in each phase, with all that a job can have. */
const WAYS = ['suspended', 'checkpoint', 'restart'] as const;
const JOBS = PHASES.map((phase, index) =>
  aJob({
    id: `job-${index}`,
    name: index === 0 ? '' : 'digits',
    phase,
    sentence: phase === 'cancelled' ? '' : SAID,
    position: phase === 'waiting' ? 2 : null,
    expected_start: phase === 'waiting' ? { p50: NOW + 60, p90: NOW + 900, outcomes: 0 } : null,
    held_since: phase === 'paused' ? NOW - 5 : null,
    submitted_at: NOW - 10 ** index,
    finished_at: ['done', 'failed', 'cancelled'].includes(phase) ? NOW : null,
    ran_seconds: 90,
    run: 2,
    tasks: 2,
    min_tasks: 1,
    tasks_now: index === 1 ? 1 : null,
    gpus: index % 2 === 0 ? '1' : '0',
    cpus: '2',
    memory: '1 GiB',
    gpu_memory: '4 GiB',
    preferred_gpu_models: ['«A»', '«B»'],
    expected_seconds: 60,
    priority: 1,
    over_quota: '1',
    max_seconds: 100,
    disk: '1 MB',
    devices: ['«gpu»'],
    node: '«node»',
    progress: phase === 'running' ? { fraction: 0.5, text: '' } : null,
    running_since: phase === 'running' ? NOW - 600 : null,
    saved_at: NOW - 240,
    pause: { way: WAYS[index % WAYS.length], sentence: SAID },
    unused_gpu: index === 2 ? { since: NOW - 1000, sentence: SAID } : null,
    eviction: { at: NOW, reason: 'RECLAIMED', sentence: SAID } as never,
    error: phase === 'failed' ? { ename: '«E»', evalue: '' } : null,
    returns: phase === 'done' ? ['model'] : []
  })
);
const NOTEBOOKS: readonly NotebookView[] = (
  ['waiting', 'starting', 'running', 'suspended', 'resuming', 'stopping'] as const
).map((phase, index) =>
  aNotebook({
    id: `nb-${index}`,
    phase,
    sentence: SAID,
    position: phase === 'waiting' ? 1 : null,
    idle_since: NOW - 600,
    memory_quota_mib: 10240,
    memory_used_mib: 100,
    enforcement: '«cooperative»',
    enforcement_sentence: SAID,
    utilisation: 4,
    kept_until: NOW + 60,
    suspension_refusal: SAID,
    warning: index === 2 ? WARNING : null
  })
);
const QUEUES = [aQueue({ limit: '4', waiting: 2, cpus: MUCH, memory: { ...MUCH, quota: null } })];

afterEach(() => {
  clearScreen();
  jest.restoreAllMocks();
});

it('finds what is not translated, and nothing else', () => {
  expect(findUntranslated('«Paused» · 2 min · 1 GPU, «in «vision»»')).toEqual([]);
  expect(findUntranslated('Paused «for»')).toEqual(['Paused']);
});

describe('in another language', () => {
  it.each(['filled', 'empty', 'loading', 'away'])('the panel says nothing in English: %s', async state => {
    const training = new FakeTraining();
    training.server.answer('GET jobs/job-2/usage', aUsage({ since: NOW, run: 2 }));
    training.server.answer('GET jobs/job-4/usage', aUsage({ memory_limit_mib: null }));
    training.server.answer(
      'GET jobs/job-6/results',
      someResults('model', {
        variables: [...someResults().variables, { ...someResults('lock').variables[0], reason: SAID }].map(
          variable => ({ ...variable, name: `«${variable.name}»` })
        ),
        files: [
          { path: '«file»', bytes: 5, reason: SAID },
          { path: '«kept»', bytes: 5, reason: '' },
          { path: '«kept too»', bytes: 5, reason: '' }
        ],
        omitted_files: 3
      })
    );
    training.state = {
      ...training.state,
      loaded: state !== 'loading',
      available: state === 'away' ? false : state === 'loading' ? null : true,
      message: SAID,
      next: 'more',
      disk: '1 GB',
      ...(state === 'filled' && { jobs: JOBS, notebooks: NOTEBOOKS, queues: QUEUES })
    };
    const panel = await attach(new PanelWidget(training, NOTHING_LOADED, new FakeApp().commands, PSEUDO));
    await perform(() => training.state.jobs.forEach(job => panel.reveal(job.id)));
    await perform(() => all('.jp-gq-row-choice', panel.node)[0]?.click());
    await draw(panel);
    expect(listUntranslated(panel.node)).toEqual([]);
    expect(findUntranslated(panel.title.caption)).toEqual([]);
    expect(panel.node.textContent).toContain('«');
    panel.dispose();
  });

  it.each(JOBS.map(job => [job.phase, job] as const))(
    'the line under a cell says nothing in English, live and as the file has it: %s',
    async (_, job) => {
      const training = new FakeTraining();
      const data = makePlaceholder(job).data as Record<string, object>;
      // The sentence in the file is in English for all readers.
      const placeholder = { ...data[JOB_MIME], sentence: '' };
      for (const jobs of [[job], []]) {
        training.state = { ...training.state, jobs };
        const line = await attach(new JobRenderer(someServices(training), PSEUDO));
        await perform(() => line.renderModel(new MimeModel({ data: { [JOB_MIME]: placeholder as never } })));
        await draw(line);
        expect(line.node.textContent).toContain('«');
        expect(listUntranslated(line.node)).toEqual([]);
        line.dispose();
      }
    }
  );

  it.each([NEW_JOB, { ...NEW_JOB, returns: 'model' }])('the dialog says nothing in English', async start => {
    const me = aMe({ queues: QUEUES, pools: [aPool({ models: ['«A»', '«B»'], largest_cpus: '4' })] });
    const entries = (
      ['failed', 'running', 'failed-before', 'job-failed', 'job-cancelled', 'setup'] as const
    ).map((note, index) => ({
      key: `${index}`,
      cellId: '1',
      source: 'import job',
      seconds: 2,
      ran: true,
      included: true,
      fixed: false,
      note
    }));
    const secrets = ['AWS', 'HF', 'OTHER'].map(name => ({ name: `«${name}»`, wanted: true, stored: false }));
    const dialog = new SendDialog({
      values: {
        ...proposeValues({}, me, 'digits.ipynb', 'digits'),
        expected: start.returns ? 'min' : '',
        software: '«torch»'
      },
      queues: me.queues,
      pools: me.pools,
      largest: '4',
      secrets: { secrets: ['*S*'], secrets_in_home: true },
      images: ['«torch»'],
      targets: [{ id: 'train', source: 'train()' }],
      prefix: { from: 'part', entries: start.returns ? [] : entries },
      start,
      notes: [SAID],
      localRun: { state: start.returns ? 'running' : 'waiting', changed: new Signal<unknown, void>({}) },
      trans: PSEUDO,
      client: { slowChanged: new Signal<unknown, boolean>({}), now: 1000 },
      capture: captureNothing,
      check: () =>
        Promise.resolve(
          aPlan({
            environment: {
              always: ['«PATH»'],
              variables: (['read', 'proxy', 'offered'] as const).map(why => ({ name: `«${why}»`, why })),
              secrets
            },
            makes: ['model'].map(name => `«${name}»`),
            files: {
              going: (['imported', 'opened', 'pattern'] as const).map(why => ({
                path: `«${why}»`,
                bytes: 10,
                why
              })),
              staying: [
                { path: '«x»', bytes: 5, message: SAID, reached: false },
                { path: '«y»', bytes: 5, message: SAID, reached: true }
              ],
              notes: [SAID],
              own_folder: false,
              pattern_notes: []
            }
          })
        ),
      preview: () =>
        Promise.resolve({
          starts_now: false,
          sentence: SAID,
          position: 2,
          expected_start: start.returns ? null : { p50: NOW + 60, p90: NOW + 900, outcomes: 0 },
          alternatives: [{ label: '«offer»', sentence: '«offer»' }]
        } as never),
      send: () => Promise.resolve(aJob())
    });
    await perform(() => void dialog.ask().catch(() => undefined));
    expect(all('.jp-gq-variables li')).not.toHaveLength(0);
    expect(listUntranslated(dialog.node)).toEqual([]);
  });
});

describe('the plugins in another language', () => {
  let app: FakeApp;
  let training: FakeTraining;
  let tracker: FakeTracker;
  let bar: StatusBar;
  let categories: string[];

  beforeEach(async () => {
    jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    [app, training, tracker, bar, categories] = [
      new FakeApp(),
      new FakeTraining(),
      new FakeTracker(),
      new StatusBar(),
      []
    ];
    await attach(bar);
    const services: Readonly<Record<string, unknown>> = {
      'jupyter-gq:ITraining': training,
      'jupyter-gq:INewsFeed': new NewsFeed(training, PSEUDO),
      'jupyter-gq:IRunHistory': { isComplete: () => false, listRuns: () => [] },
      'jupyter-gq:ICellOutputs': { bind: () => Promise.resolve() },
      'jupyter-gq:ISender': { send: () => Promise.resolve(null) },
      '@jupyterlab/notebook:INotebookTracker': tracker,
      '@jupyterlab/statusbar:IStatusBar': bar,
      '@jupyterlab/translation:ITranslator': PSEUDO_TRANSLATOR,
      '@jupyterlab/apputils:ICommandPalette': {
        addItem: ({ category }: { category: string }) => {
          categories.push(category);
          return { dispose: () => undefined };
        }
      },
      '@jupyterlab/rendermime:IRenderMimeRegistry': new RenderMimeRegistry({
        initialFactories: standardRendererFactories
      })
    };
    for (const plugin of plugins) {
      const tokens = [...(plugin.requires ?? []), ...(plugin.optional ?? [])];
      await plugin.activate(app.frontEnd, ...tokens.map(token => services[token.name] ?? null));
    }
  });
  afterEach(async () => {
    for (const plugin of plugins) {
      await plugin.deactivate?.(app.frontEnd);
    }
  });

  /** Execute a command up to its first question; return what the question says in English. */
  async function ask(id: string, args: Record<string, unknown> = {}): Promise<string[]> {
    await perform(() => void app.commands.execute(id, args as never).catch(() => undefined));
    const dialogs = all('.jp-Dialog');
    expect(dialogs).toHaveLength(1);
    return listUntranslated(dialogs[0]);
  }

  it('name their commands and categories in it', () => {
    const words = app.commands
      .listCommands()
      .flatMap(id => [app.commands.label(id), app.commands.caption(id)]);
    expect([...words, ...categories].flatMap(findUntranslated)).toEqual([]);
    expect(categories[0]).toContain('«');
  });

  it.each([
    [CommandIDs.cancelJob, { job: 'job-2' }],
    [CommandIDs.cancelWaiting, {}],
    [CommandIDs.cancelJobs, { jobs: ['job-2'] }],
    [CommandIDs.changeGpus, { job: 'job-2' }],
    [CommandIDs.deleteJob, { job: 'job-6' }],
    [CommandIDs.moveJobs, { jobs: ['job-0', 'job-2'] }]
  ])('ask in it: %s', async (id, args) => {
    training.set({ jobs: JOBS, queues: [...QUEUES, aQueue({ name: '«night»' })] });
    expect(await ask(id, args)).toEqual([]);
  });

  it('show a log in it, with its tools', async () => {
    training.set({ jobs: JOBS });
    training.server.answer('GET jobs/job-2/log', '«epoch»');
    await perform(() => app.commands.execute(CommandIDs.openLog, { job: 'job-2' }));
    const widget = await attach(app.widgets[app.widgets.length - 1]);
    await draw(widget);
    // The button of JupyterLab itself for tools without room has no translator.
    all('.jp-Toolbar-responsive-opener').forEach(opener => opener.remove());
    const tools = all('.jp-Toolbar select, .jp-Toolbar [type=search], .jp-Toolbar jp-button');
    expect(tools.map(tool => tool.getAttribute('aria-label'))).toEqual([
      '«Read the log again»',
      '«Task»',
      '«Search the whole log; Enter begins»',
      '«Download the whole log»'
    ]);
    expect(listUntranslated(widget.node)).toEqual([]);
    expect([widget.title.label, widget.title.caption].flatMap(findUntranslated)).toEqual([]);
  });

  it('show the share and the idle warning in it', async () => {
    for (const notebook of NOTEBOOKS.slice(2, 5)) {
      await perform(() => training.set({ notebooks: [notebook] }));
      await perform(() => undefined);
      expect(listUntranslated(bar.node)).toEqual([]);
    }
  });

  /** Return what the notifications say, with their buttons. */
  const told = (): string[] =>
    Notification.manager.notifications.flatMap(({ message, options }) => [
      message,
      ...(options.actions ?? []).flatMap(action => [action.label, action.caption ?? ''])
    ]);

  it('notify in it', async () => {
    const panel = tracker.open(new FakePanel(['train()']));
    startCell(panel);
    for (const phase of ['running', 'done', 'running', 'failed', 'running', 'paused'] as const) {
      const [job] = JOBS.filter(known => known.phase === phase);
      await perform(() => training.recordJob({ ...job, id: `new-${phase}`, phase: 'running' }));
      await perform(() => training.recordJob({ ...job, id: `new-${phase}` }));
    }
    for (const notebook of NOTEBOOKS.slice(2, 5)) {
      await perform(() => training.set({ notebooks: [{ ...notebook, id: 'nb' }] }));
    }
    await perform(() => app.commands.execute(CommandIDs.openLog, { job: 'gone' }));
    expect(told().length).toBeGreaterThan(3);
    expect(told().flatMap(findUntranslated)).toEqual([]);
  });

  it('offer in it to correct a cell and to send it again', async () => {
    const [model] = tracker.open(new FakePanel(['train()'])).cells;
    const target = { cell_id: model.id, source_hash: hashSource('train()'), seconds: null };
    training.set({ jobs: [aJob({ id: 'wrong', phase: 'failed', targets: [target] })] });
    await perform(() => app.commands.execute(CommandIDs.fixAndResend, { job: 'wrong' }));
    expect(told()).toEqual(['«Correct the cell, then send “digits” again.»', '«Send again»', '']);
  });

  it.each([
    [1, '«No GPU used for '],
    [2, '«2 running jobs have used no GPU']
  ])('tell in it of jobs that use no GPU: %i', async (count, said) => {
    window.localStorage.clear();
    const unused = { since: NOW - 1000, sentence: SAID };
    const jobs = Array.from({ length: count }, (_, at) => aJob({ id: `idle-${at}`, unused_gpu: unused }));
    await perform(() => training.set({ jobs }));
    expect(told()[0]).toContain(said);
    expect(told().flatMap(findUntranslated)).toEqual([]);
  });

  it('tell in it of the end of a sweep', async () => {
    const swept = (['done', 'failed'] as const).map((phase, at) =>
      aJob({ id: `swept-${at}`, name: `digits «${at}»`, group: 'sweep-1', phase, finished_at: NOW })
    );
    const [variable] = someResults('«loss»').variables;
    const numbers = { variables: [{ ...variable, number: 0.5 }] };
    training.server.answer('GET jobs/swept-0/results', someResults('', numbers));
    training.server.answer('GET jobs', { jobs: swept, next: null });
    await perform(() => swept.forEach(job => training.recordJob({ ...job, phase: 'running' })));
    await perform(() => swept.forEach(job => training.recordJob(job)));
    expect(told()[0]).toContain('«Best: ');
    expect(told().flatMap(findUntranslated)).toEqual([]);
  });

  it('refuse in it to move jobs where no other queue is', async () => {
    training.set({ jobs: JOBS.slice(0, 1), queues: QUEUES });
    await perform(() => app.commands.execute(CommandIDs.moveJobs, { jobs: ['job-0'] }));
    expect(told()).toEqual(['«There is no other queue that you may use.»']);
  });
});
