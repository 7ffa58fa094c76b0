import { Notification } from '@jupyterlab/apputils';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import * as React from 'react';

import { RequestError } from '../client';
import { describeCopied, describeProgress, listDiffering } from '../copies';
import { BroughtBack, ResultList } from '../panel/results';
import { DRAWN } from '../notice';
import { copies } from '../plugins/copies';
import { CommandIDs } from '../tokens';
import type { CopyNews } from '../wire';
import { aJob, ENGLISH, someNews, someResults } from './builders';
import { FakeApp, FakeTraining, NOTHING_LOADED, settle } from './fakes';
import { all, button, clearScreen, perform, press, show, words } from './screen';

const ROUTE = 'POST jobs/job-1/copies';
const COPIED = { path: 'ü/model.pt', target: 'work/ü/model.pt', unchanged: false };

let app: FakeApp;
/** Path of the notebook of the job. */
const PATH = 'work/digits.ipynb';
let training: FakeTraining;
let opened: unknown[];

beforeEach(async () => {
  app = new FakeApp();
  training = new FakeTraining();
  training.state = {
    ...training.state,
    jobs: [aJob({ phase: 'done', finished_at: 5, notebook_path: PATH })]
  };
  opened = [];
  const documents = { openOrReveal: (path: string) => void opened.push(path) } as unknown as IDocumentManager;
  await copies.activate(app.frontEnd, training, documents);
});
afterEach(async () => {
  await copies.deactivate?.(app.frontEnd);
  clearScreen();
  jest.restoreAllMocks();
});

/** Let the server answer with these lines. */
function answers(...news: Partial<CopyNews>[]): void {
  training.server.answer(ROUTE, news.map(line => `${JSON.stringify(someNews(line))}\n`).join(''));
}

/** Let the server answer that these files differ; a path that ends with a slash is a folder. */
function differs(...paths: string[]): void {
  const files = paths.map(path => ({
    path,
    kind: path.endsWith('/') ? 'folder' : 'file',
    bytes: 12_000,
    changed_at: 7,
    newer: true,
    version: 'v1'
  }));
  training.server.answer(ROUTE, { code: 'files_exist', message: 'They differ.', files }, 409);
}

async function execute(id: string, args: { job: string; path?: string }): Promise<void> {
  await perform(() => void app.commands.execute(id, args).catch(() => undefined));
  await settle();
}

/** A copy of files that a test ends. */
interface ISlowCopy {
  aborted: boolean;
  onNews: (news: CopyNews) => void;
  resolve: (news: CopyNews) => void;
  reject: (reason: Error) => void;
}

/** Let the next copy last until the test ends it. */
function aSlowCopy(): ISlowCopy {
  const nothing = (): void => undefined;
  const copy: ISlowCopy = { aborted: false, onNews: nothing, resolve: nothing, reject: nothing };
  jest.spyOn(training.client, 'copyFiles').mockImplementation((_, __, onNews, signal) => {
    copy.onNews = onNews;
    return new Promise((resolve, reject) => {
      Object.assign(copy, { resolve, reject });
      signal.addEventListener('abort', () => {
        copy.aborted = true;
        reject(new Error('aborted'));
      });
    });
  });
  return copy;
}

/** Press the first button of the only notification. */
function pressFirstAction(): void {
  const [{ options }] = Notification.manager.notifications;
  options.actions?.[0].callback(new MouseEvent('click'));
}

const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);

describe('to copy files beside the notebook', () => {
  it('says in the end what was copied, and opens a single file', async () => {
    answers({ path: 'ü/model.pt', done: 3_000_000, total: 12_000_000 }, { copied: [COPIED] });
    await execute(CommandIDs.copyFiles, { job: 'job-1', path: 'ü/model.pt' });
    expect(training.server.bodies).toEqual([
      { paths: ['ü/model.pt'], existing: 'ask', agreed: null, notebook_path: PATH }
    ]);
    expect(told()).toEqual(['“work/ü/model.pt” was copied.']);
    pressFirstAction();
    expect(opened).toEqual(['work/ü/model.pt']);
  });

  it('copies all files without a path', async () => {
    answers({ copied: [COPIED, { ...COPIED, path: 'a' }], left_out: ['.b: It is hidden.'] });
    await execute(CommandIDs.copyFiles, { job: 'job-1' });
    expect(training.server.bodies).toEqual([
      { paths: [], existing: 'ask', agreed: null, notebook_path: PATH }
    ]);
    expect(told()).toEqual(['2 files are beside the notebook. Left out: .b: It is hidden.']);
  });

  it.each([
    ['Replace', { existing: 'replace', agreed: { 'model.pt': 'v1', 'log.txt': 'v1' } }],
    ['Keep both', { existing: 'keep_both', agreed: null }]
  ])('asks once about files that differ: %s', async (label, fate) => {
    differs('model.pt', 'log.txt');
    await execute(CommandIDs.copyFiles, { job: 'job-1' });
    expect(words(document.querySelector('.jp-Dialog'))).toContain('2 files beside the notebook differ');
    expect(all('.jp-gq-differing li').map(words)).toEqual([
      'model.pt (12 kB, changed after the job had ended)',
      'log.txt (12 kB, changed after the job had ended)'
    ]);
    answers({ copied: [COPIED] });
    await press(label);
    await settle();
    expect(training.server.bodies).toEqual([
      { paths: [], existing: 'ask', agreed: null, notebook_path: PATH },
      { paths: [], ...fate, notebook_path: PATH }
    ]);
    expect(told()).toEqual(['“work/ü/model.pt” was copied.']);
  });

  it('asks again about a file that differs since the question, and replaces what was named', async () => {
    differs('model.pt');
    await execute(CommandIDs.copyFiles, { job: 'job-1' });
    differs('log.txt');
    await press('Replace');
    await settle();
    expect(all('.jp-gq-differing li').map(words)).toEqual([
      'log.txt (12 kB, changed after the job had ended)'
    ]);
    answers({ copied: [COPIED] });
    await press('Replace');
    await settle();
    expect(training.server.bodies.at(-1)).toMatchObject({
      existing: 'replace',
      agreed: { 'model.pt': 'v1', 'log.txt': 'v1' }
    });
  });

  it('offers to replace files only', async () => {
    differs('a/', 'b/');
    await execute(CommandIDs.copyFiles, { job: 'job-1' });
    expect(all('.jp-gq-differing li').map(words)).toEqual([
      'a/ (a folder here, which is never replaced)',
      'b/ (a folder here, which is never replaced)'
    ]);
    expect(all('.jp-Dialog-footer button').map(words)).toEqual(['Cancel', 'Keep both']);
    await press('Cancel');
    await settle();
    differs('a/', 'model.pt');
    await execute(CommandIDs.copyFiles, { job: 'job-1' });
    expect(all('.jp-Dialog-footer button').map(words)).toEqual(['Cancel', 'Keep both', 'Replace']);
    await press('Cancel');
  });

  it('lists on demand why files were left out', async () => {
    answers({ copied: [], left_out: ['‘a’ is a folder here.', '‘b’ is a link here.'] });
    await execute(CommandIDs.copyFiles, { job: 'job-1' });
    expect(Notification.manager.notifications.map(({ type }) => type)).toEqual(['warning']);
    await perform(pressFirstAction);
    await settle();
    expect(all('.jp-Dialog li').map(words)).toEqual(['‘a’ is a folder here.', '‘b’ is a link here.']);
    await press('Close');
  });

  it('copies nothing if the user thinks better of it', async () => {
    differs('model.pt');
    await execute(CommandIDs.openFile, { job: 'job-1', path: 'model.pt' });
    await press('Cancel');
    expect(training.server.bodies).toHaveLength(1);
    expect([told(), opened]).toEqual([[], []]);
  });

  it.each([
    [
      'a refusal',
      () => training.server.answer(ROUTE, { code: 'disk_full', message: 'No room.' }, 507),
      'No room.'
    ],
    [
      'an end in between',
      () => answers({ done: 1, total: 2 }, { problem: 'The disk is full.' }),
      'The disk is full.'
    ],
    [
      'a lost connection',
      () => answers({ done: 1, total: 2 }),
      /^The connection to your Jupyter server was lost/
    ],
    [
      'half a line',
      () => training.server.answer(ROUTE, '{"copied": ['),
      /^The connection to your Jupyter server/
    ]
  ])('tells %s in one sentence', async (_, prepare, sentence) => {
    prepare();
    await execute(CommandIDs.copyFiles, { job: 'job-1' });
    expect(told()).toEqual([expect.stringMatching(sentence)]);
  });

  it('ends with the plugin, and leaves no notification', async () => {
    const copy = aSlowCopy();
    await execute(CommandIDs.copyFiles, { job: 'job-1' });
    await copies.deactivate?.(app.frontEnd);
    await settle();
    expect([copy.aborted, told()]).toEqual([true, []]);
  });
});

describe('a copy that takes a while', () => {
  let copy: ISlowCopy;
  const wait = async (milliseconds: number): Promise<void> => {
    jest.advanceTimersByTime(milliseconds);
    await settle();
  };
  const shown = (): unknown[] =>
    Notification.manager.notifications.map(({ message, type }) => [message, type]);

  beforeEach(() => {
    jest.useFakeTimers();
    copy = aSlowCopy();
    void app.commands.execute(CommandIDs.openFile, { job: 'job-1', path: 'a' });
  });
  afterEach(() => jest.useRealTimers());

  it('shows how far it is, a few times a second, and how it ended', async () => {
    await wait(900);
    expect(shown()).toEqual([]);
    await wait(200);
    expect(shown()).toEqual([['Copying files of “digits”…', 'in-progress']]);
    await wait(500);
    copy.onNews(someNews({ path: 'a', done: 3_000_000, total: 12_000_000 }));
    copy.onNews(someNews({ path: 'a', done: 6_000_000, total: 12_000_000 }));
    expect(shown()).toEqual([['Copying “a”: 3.0 MB of 12 MB', 'in-progress']]);
    copy.resolve(someNews({ copied: [COPIED] }));
    await wait(0);
    expect(shown()).toEqual([['“work/ü/model.pt” was copied.', 'success']]);
    expect(opened).toEqual(['work/ü/model.pt']);
  });

  it('ends when the user cancels it, without an error', async () => {
    await wait(1000);
    pressFirstAction();
    await wait(0);
    // A notification that is removed before its last change is drawn would be drawn anew, and stay.
    expect([copy.aborted, told()]).toEqual([true, ['Copying files of “digits”…']]);
    await wait(DRAWN);
    expect([told(), opened]).toEqual([[], []]);
  });

  it('says in the same notification what went wrong', async () => {
    await wait(1000);
    copy.reject(new RequestError(507, { code: 'disk_full', message: 'No room.', field: null }));
    await wait(0);
    expect(shown()).toEqual([['No room.', 'error']]);
  });
});

it('a file of a job is copied, then opened', async () => {
  answers({ copied: [COPIED] });
  await execute(CommandIDs.openFile, { job: 'job-1', path: 'ü/model.pt' });
  expect([opened, told()]).toEqual([['work/ü/model.pt'], []]);
});

describe('what a job brought back', () => {
  const files = [
    { path: 'model.pt', bytes: 12, reason: '' },
    { path: 'a/log.txt', bytes: 5, reason: '' },
    { path: 'huge.bin', bytes: 1e12, reason: 'It is too large.' }
  ];
  let asked: unknown[];
  const props = (): React.ComponentProps<typeof ResultList> => ({
    job: training.state.jobs[0],
    client: training.client,
    loaded: NOTHING_LOADED,
    onLoad: () => void asked.push('load'),
    onCopy: path => void asked.push(['copy', path]),
    onOpen: path => void asked.push(['open', path]),
    trans: ENGLISH
  });

  beforeEach(() => {
    asked = [];
    training.server.answer('GET jobs/job-1/results', someResults('model', { variables: [], files }));
  });

  it('is offered file by file and at once in the details, but not what was not kept', async () => {
    const node = await show(<ResultList {...props()} />);
    await press('Open a/log.txt', node);
    await press('Copy beside the notebook model.pt', node);
    await press('Copy files beside the notebook of digits', node);
    expect(asked).toEqual([
      ['open', 'a/log.txt'],
      ['copy', 'model.pt'],
      ['copy', undefined]
    ]);
    expect(() => button('Open huge.bin', node)).toThrow('There is no button');
  });

  it('says how many files are not listed, in the details and under the cell', async () => {
    const many = someResults('model', { variables: [], files, omitted_files: 101 });
    training.server.answer('GET jobs/job-1/results', many);
    const details = words(await show(<ResultList {...props()} />));
    expect(details).toContain('101 more files are not listed. On one machine, copy them by name');
    expect(words(await show(<BroughtBack {...props()} />))).toContain('2 files; 101 more are not listed');
  });

  it('is counted in the line under the cell, with one button for all files', async () => {
    const node = await show(<BroughtBack {...props()} />);
    expect(words(node)).toContain('2 files');
    await press('Copy files beside the notebook of job digits', node);
    expect(asked).toEqual([['copy', undefined]]);
  });

  it.each([
    ['all files were', [], 'Copy again of job digits'],
    ['one file was', ['model.pt'], 'Copy files beside the notebook of job digits']
  ])('is offered after %s copied', async (_, paths, offered) => {
    const node = await show(<BroughtBack {...props()} />);
    training.server.answer('POST jobs/job-1/copies', `${JSON.stringify(someNews({ copied: [COPIED] }))}\n`);
    const { signal } = new AbortController();
    await perform(async () => {
      await training.client.copyFiles('job-1', { paths, existing: 'ask' }, () => undefined, signal);
    });
    await press(offered, node);
    expect(asked).toEqual([['copy', undefined]]);
  });
});

it('says how far copies are and what they left, in short sentences', () => {
  expect(describeProgress(someNews({ path: 'a', done: 5, total: 10 }), ENGLISH)).toBe(
    'Copying “a”: 5 B of 10 B'
  );
  expect(describeCopied(someNews({ copied: [{ ...COPIED, unchanged: true }] }), ENGLISH)).toBe(
    '“work/ü/model.pt” was there already, with the same content.'
  );
  const files = Array.from({ length: 12 }, (_, n) => ({
    path: `${n}`,
    kind: 'file' as const,
    bytes: 1,
    changed_at: 1,
    newer: false,
    version: 'v1'
  }));
  const lines = listDiffering({ code: '', message: '', files }, ENGLISH);
  expect([lines.length, lines[0], lines[10]]).toEqual([11, '0 (1 B)', 'and 2 more']);
});
