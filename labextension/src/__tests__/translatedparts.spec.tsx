/** Tables, logs, fields, questions and refusals in a made-up language: no English is left in them either. */

import { Notification } from '@jupyterlab/apputils';
import { MimeModel, RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { Signal } from '@lumino/signaling';

import { makeSweepOutput } from '../attach/sweep';
import { SweepRenderer } from '../attach/sweeptable';
import { RequestError } from '../client';
import type { JobPhase } from '../jobs';
import { DRAWN } from '../notice';
import { LOG_MIME, LogView } from '../panel/log';
import { makeLogDownload, makeLogSearch, makeTaskChoice } from '../panel/logtools';
import { copies } from '../plugins/copies';
import { SendDialog } from '../send/dialog';
import { NEW_JOB } from '../send/opening';
import { askAboutPresentWork, describeReplaced } from '../send/present';
import { proposeValues } from '../send/values';
import { CommandIDs } from '../tokens';
import type { Captured, CopyNews, JobView } from '../wire';
import { aJob, aLogSize, aMe, aPlan, aPool, aQueue, captureNothing, someNews, someResults } from './builders';
import { FakeApp, FakeTraining, settle } from './fakes';
import { findUntranslated, listUntranslated, PSEUDO, PSEUDO_TRANSLATOR } from './pseudo';
import { all, attach, button, clearScreen, draw, enter, perform, press, words } from './screen';

jest.setTimeout(60_000);

/** What the service says is in its own words. */
const SAID = '«said»';
const PHASES: readonly JobPhase[] = ['waiting', 'running', 'paused', 'done', 'failed', 'cancelled'];
const SWEPT = PHASES.map((phase, index) =>
  aJob({ id: `job-${index}`, name: `«lr»=${index}`, group: '«sweep»', phase, sentence: SAID })
);
const SWEEP = {
  group: '«sweep»',
  name: '«Digits»',
  queue: '«queue»',
  metric: '«loss»',
  mode: 'min' as const,
  jobs: SWEPT.map(({ id }, index) => ({ job: id, values: { '«lr»': `${index}` } }))
};

let training: FakeTraining;
beforeEach(() => {
  training = new FakeTraining();
});
afterEach(() => {
  clearScreen();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

/** Return what the notifications say, with their buttons. */
const told = (): string[] =>
  Notification.manager.notifications.flatMap(({ message, options }) => [
    message,
    ...(options.actions ?? []).flatMap(({ label, caption }) => [label, caption ?? ''])
  ]);

describe('the table of a sweep', () => {
  const result = someResults('«loss»');
  const variables = [{ ...result.variables[0], number: 0.5 }];

  it.each([
    ['with its jobs', SWEPT, 'Done'],
    ['of jobs that are deleted', [], 'Its jobs are not known to you here'],
    ['that the server cannot list', null, 'unknown']
  ])('is translated: %s', async (_, jobs, shown) => {
    training.server.answer('GET jobs/job-3/results', { ...result, variables });
    training.server.answer('GET jobs', { jobs: jobs ?? [] });
    training.server.isDown = jobs === null;
    const table = await attach(new SweepRenderer(training, new FakeApp().commands, PSEUDO));
    await table.renderModel(new MimeModel({ data: makeSweepOutput(SWEEP).data }));
    await draw(table);
    await perform(() => undefined);
    expect(words(table.node)).toContain(`«${shown}`);
    expect(listUntranslated(table.node)).toEqual([]);
  });

  it('is translated where it cannot be shown', async () => {
    const table = await attach(new SweepRenderer(training, new FakeApp().commands, PSEUDO));
    await table.renderModel(new MimeModel({ data: {} }));
    await draw(table);
    expect(words(table.node)).toBe('«This version of the extension cannot show this sweep.»');
  });
});

describe('the log of a job', () => {
  /** Show the log of a job with two tasks. */
  async function aLog(text: string, bytes: number): Promise<LogView> {
    training.server.answer('GET jobs/job-1/log', text);
    training.server.answer('GET jobs/job-1/log/size', { ...aLogSize(bytes, 2), note: SAID });
    const registry = new RenderMimeRegistry({ initialFactories: standardRendererFactories });
    return attach(new LogView('job-1', training, registry.createRenderer(LOG_MIME), PSEUDO));
  }
  const missing = { code: 'not_found', message: SAID };

  it.each([
    ['', 0, 'The log is empty'],
    ['«epoch»', 5000, 'The last']
  ])('says in it how much is shown of "%s"', async (text, bytes, notice) => {
    const view = await aLog(text, bytes);
    await perform(() => view.refresh());
    expect(words(view.node)).toContain(`«${notice}`);
    expect(listUntranslated(view.node)).toEqual([]);
  });

  it('says in it that it cannot be read or searched, and that its job was deleted', async () => {
    const view = await aLog('«epoch»', 5);
    ['', '/size', '/lines'].forEach(part =>
      training.server.answer(`GET jobs/job-1/log${part}`, missing, 404)
    );
    await perform(() => view.refresh());
    expect(words(view.node)).toContain('«The log could not be read.');
    expect(listUntranslated(view.node)).toEqual([]);
    await perform(() => view.search('x'));
    expect(words(view.node)).toContain('«The log could not be searched.');
    expect(listUntranslated(view.node)).toEqual([]);
    await perform(() => training.forgetJob('job-1'));
    expect(words(view.node)).toContain('Its log cannot be read any more.»');
    expect(listUntranslated(view.node)).toEqual([]);
  });

  it.each([
    ['none', [], null, 'No line of the log'],
    ['some', ['«epoch»'], null, '2 lines have'],
    ['as many as it shows at once', Array<string>(500).fill('«epoch»'), 9, 'There may be more.']
  ])('says in it what a search found: %s', async (_, lines, next, notice) => {
    const view = await aLog('«epoch»', 5);
    const found = lines.map((text, line) => ({ line, text }));
    training.server.answer('GET jobs/job-1/log/lines', { lines: found, next, next_line: next });
    training.server.hold();
    const search = view.search('x');
    await perform(() => undefined);
    expect(words(view.node)).toContain('«Searching the whole log…»');
    expect(listUntranslated(view.node)).toEqual([]);
    training.server.release();
    await perform(() => search);
    expect(words(view.node)).toContain(`«${notice}`);
    expect(listUntranslated(view.node)).toEqual([]);
  });

  it('has tools in it', async () => {
    const view = await aLog('«epoch»', 5);
    for (const tool of [
      makeTaskChoice(view, 2, PSEUDO),
      makeLogSearch(view, PSEUDO),
      makeLogDownload(view, training.client, PSEUDO)
    ]) {
      await attach(tool);
      await draw(tool);
    }
    expect(all('option').map(words)).toEqual(['«All tasks»', '«Task 0»', '«Task 1»']);
    expect(all('button[title], jp-button[title]').map(found => found.title)).toEqual([
      '«Download the whole log»'
    ]);
    expect(listUntranslated(document.body)).toEqual([]);
  });
});

describe('the dialog', () => {
  const ME = aMe({
    queues: [aQueue({ max_priority: 5 })],
    pools: [aPool({ models: ['«A»', '«B»'], largest_cpus: '4' })]
  });
  const assignments = Array.from('abcdefghijklmn', name => ({
    name,
    value: '0.5',
    line: 1,
    title: `${name} = 0.5`
  }));

  const REFUSED = new Error(SAID);
  const ENTRY = { key: '0', cellId: '1', source: 'import job', seconds: 2, ran: true, included: true };

  /** Open the dialog of a cell that assigns numbers; sending it is refused, or without a refusal never answered. */
  async function open(refusal: Error | null, capture = captureNothing): Promise<HTMLElement> {
    jest.useFakeTimers();
    const refuse = (): Promise<never> =>
      refusal === null ? new Promise(() => undefined) : Promise.reject(refusal);
    const dialog = new SendDialog({
      values: proposeValues({}, ME, 'digits.ipynb', 'digits'),
      queues: ME.queues,
      pools: ME.pools,
      largest: '2',
      secrets: ME,
      targets: [{ id: 'train', source: 'train()' }],
      prefix: { from: 'history', entries: [{ ...ENTRY, fixed: false, note: null }] },
      start: NEW_JOB,
      notes: [],
      trans: PSEUDO,
      client: { slowChanged: new Signal<unknown, boolean>({}), now: 1000 },
      check: () => Promise.resolve(aPlan({ assignments, carry: { offered: true, suggested: false } })),
      capture,
      preview: () =>
        Promise.resolve({
          starts_now: true,
          sentence: SAID,
          alternatives: [],
          expected_start: null
        } as never),
      send: refuse,
      sweep: { trans: PSEUDO, send: refuse }
    });
    await perform(() => void dialog.ask().catch(() => undefined));
    await perform(() => jest.advanceTimersByTimeAsync(300));
    return dialog.node;
  }
  const field = (name: string): HTMLElement => all(`#jp-gq-send-${name}`)[0];

  it.each([
    ['sweep-a', '0.1, lots'],
    ['sweep-a', '1,,2'],
    ['sweep-a', '1, 1'],
    ['sweep-a', Array.from(Array(201).keys()).join(',')],
    ['group_parallel', '0']
  ])('says in it what is wrong with a sweep: %s', async (name, wrong) => {
    const node = await open(REFUSED);
    await perform(() => all('[aria-controls=jp-gq-send-sweep]')[0].click());
    expect(listUntranslated(node)).toEqual([]);
    await enter(field('sweep-a'), '1, 2');
    await enter(field(name), wrong);
    expect(all('[role=alert]').map(words)).toEqual([expect.stringMatching(/^«/)]);
    expect(listUntranslated(node)).toEqual([]);
    await press('«Send to training»');
    expect(listUntranslated(node)).toEqual([]);
  });

  it.each(['', '1', '2'])('describes in it the sweep that it sends, at once: "%s"', async parallel => {
    const node = await open(REFUSED);
    expect(listUntranslated(node)).toEqual([]);
    await perform(() => all('[aria-controls=jp-gq-send-sweep]')[0].click());
    await enter(field('sweep-a'), '1, 2');
    await enter(field('group_parallel'), parallel);
    await press('«Show all 14 variables»');
    expect(words(node)).toContain('«Sends 2 jobs as one group.»');
    expect(words(node)).toContain('«The first of 2 jobs: «said»');
    expect(listUntranslated(node)).toEqual([]);
  });

  it.each([
    ['tasks', 'many'],
    ['min_tasks', '9'],
    ['priority', 'high'],
    ['expected_seconds', 'long'],
    ['max_seconds', '0.1 s'],
    ['max_seconds', '99999 d']
  ])('refuses in it what is written into a field: %s', async (name, wrong) => {
    const node = await open(REFUSED);
    await enter(field(name), wrong);
    await press('«Send to training»');
    expect(field(name).getAttribute('aria-invalid')).toBe('true');
    expect(listUntranslated(node)).toEqual([]);
  });

  it.each([
    ['of a field', new RequestError(422, { code: 'taken', message: SAID, field: 'name' })],
    ['of a cell', new RequestError(422, { code: 'syntax', message: SAID, field: 'targets' })],
    ['of everything', new RequestError(403, { code: 'forbidden', message: SAID, field: null })],
    ['by nobody', new RequestError(503, { code: 'service_unavailable', message: SAID, field: null })],
    ['for another reason', new Error(SAID)]
  ])('shows a refusal in it: %s', async (_, refusal) => {
    const node = await open(refusal);
    await press('«Send to training»');
    expect(words(node)).toContain(SAID);
    expect(listUntranslated(node)).toEqual([]);
  });

  it('says in it that it waits for an answer before it cancels', async () => {
    const node = await open(null);
    await press('«Send to training»');
    await press('«Cancel»');
    expect(words(node)).toContain('«Cancelling: waiting for the answer to what was sent.');
    expect(listUntranslated(node)).toEqual([]);
  });

  it('has in it the variables that go along, and refuses in it to leave one behind unseen', async () => {
    const variable = { type: '«int»', bytes: 2000, on_gpu: false, why: '' };
    const variables = [
      { ...variable, name: '«a»' },
      { ...variable, name: '«gpu»', on_gpu: true },
      { ...variable, name: '«lock»', why: SAID }
    ];
    const captured = { ...(await captureNothing()), variables, bytes: 4000, notes: [SAID], replayed: [0] };
    let answer: (captured: Captured) => void = () => undefined;
    const asked = new Promise<Captured>(resolve => (answer = resolve));
    const node = await open(REFUSED, () => asked);
    await perform(() => all('[name=jp-gq-send-way]')[1].click());
    expect(words(node)).toContain('«Asking the kernel for its variables');
    expect(listUntranslated(node)).toEqual([]);
    await press('«Send to training»'); // before the kernel has answered
    await perform(() => answer(captured));
    expect(words(node)).toContain('«Not all variables can go along: the list says why.');
    expect(listUntranslated(node)).toEqual([]);
  });
});

describe('the question about what a cell has in training', () => {
  it.each([
    ['a job', SWEPT[1], []],
    ['a job that has ended', SWEPT[3], []],
    ['a sweep', SWEPT[1], SWEPT],
    ['a sweep that has ended', SWEPT[3], SWEPT.slice(3)]
  ] as [string, JobView, JobView[]][])('is asked in it: %s', async (_, job, sweep) => {
    const work = { job: { ...job, queue: '«queue»' }, sweep };
    await perform(() => void askAboutPresentWork(training, work, PSEUDO).catch(() => undefined));
    expect(button('«Keep both»')).toBeDefined();
    expect(listUntranslated(document.body)).toEqual([]);
    expect(findUntranslated(describeReplaced(training, work, PSEUDO))).toEqual([]);
  });
});

describe('copies of files', () => {
  let app: FakeApp;

  beforeEach(async () => {
    app = new FakeApp();
    training.set({ jobs: [aJob({ phase: 'done', finished_at: 5 })] });
    await copies.activate(app.frontEnd, training, null, PSEUDO_TRANSLATOR);
  });
  afterEach(() => copies.deactivate?.(app.frontEnd));

  const copy = (): Promise<void> =>
    perform(() => void app.commands.execute(CommandIDs.copyFiles, { job: 'job-1' }).catch(() => undefined));
  const answer = (news: Partial<CopyNews>): void =>
    training.server.answer('POST jobs/job-1/copies', `${JSON.stringify(someNews(news))}\n`);
  const copied = (unchanged: boolean): NonNullable<CopyNews['copied']>[number] => ({
    path: 'a',
    target: '«a»',
    unchanged
  });

  it('ask in it about files that differ', async () => {
    const kinds = ['folder', 'link', 'special file', ...Array<string>(9).fill('file')];
    const files = kinds.map((kind, place) => ({
      path: `«${place}»`,
      kind,
      bytes: 12,
      changed_at: 7,
      newer: place % 2 === 0,
      version: 'v1'
    }));
    training.server.answer('POST jobs/job-1/copies', { code: 'files_exist', message: SAID, files }, 409);
    await copy();
    expect(all('.jp-gq-differing li')).toHaveLength(11);
    expect(all('.jp-Dialog-footer button').map(words)).toEqual(['«Cancel»', '«Keep both»', '«Replace»']);
    expect(listUntranslated(document.body)).toEqual([]);
    await press('«Cancel»');
  });

  it.each([
    [{ copied: [copied(false)] }, '«“«a»” was copied.»'],
    [{ copied: [copied(true)] }, '«“«a»” was there already, with the same content.»'],
    [
      { copied: [copied(false), copied(true)], left_out: [SAID] },
      '«2 files are beside the notebook.» «Left out'
    ],
    [{ copied: [], left_out: [SAID, SAID] }, '«0 files are beside the notebook.» «Left out'],
    [{ problem: SAID }, SAID]
  ])('end in it: %#', async (news, said) => {
    answer(news);
    await copy();
    await perform(() => undefined);
    expect(told()[0]).toContain(said);
    expect(told().flatMap(findUntranslated)).toEqual([]);
  });

  it('list in it what was left out', async () => {
    answer({ copied: [], left_out: [SAID, SAID] });
    await copy();
    await perform(() => undefined);
    const [{ options }] = Notification.manager.notifications;
    await perform(() => options.actions?.[0].callback(new MouseEvent('click')));
    expect(all('.jp-Dialog li').map(words)).toEqual([SAID, SAID]);
    expect(listUntranslated(document.body)).toEqual([]);
    await press('«Close»');
  });

  it('say in it how far they are', async () => {
    jest.useFakeTimers();
    const copying = jest.spyOn(training.client, 'copyFiles').mockReturnValue(new Promise(() => undefined));
    void app.commands.execute(CommandIDs.copyFiles, { job: 'job-1' });
    await settle();
    jest.advanceTimersByTime(1100);
    expect(told()).toEqual(['«Copying files of “digits”…»', '«Cancel»', '']);
    jest.advanceTimersByTime(600);
    copying.mock.calls[0][2](someNews({ path: '«a»', done: 3_000_000, total: 12_000_000 }));
    expect(told()).toEqual(['«Copying “«a»”: 3.0 MB of 12 MB»', '«Cancel»', '']);
    await copies.deactivate?.(app.frontEnd);
    jest.advanceTimersByTime(DRAWN);
  });
});
