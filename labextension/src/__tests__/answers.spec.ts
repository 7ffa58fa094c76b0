/** What the send dialog shows of the answers to its questions: refusals of the cells, and an outage of the service. */

import { Signal } from '@lumino/signaling';

import type { IPrefixEntry } from '../bundle/prefix';
import { RequestError } from '../client';
import { SendDialog } from '../send/dialog';
import { NEW_JOB } from '../send/opening';
import { proposeValues } from '../send/values';
import type { JobView, Plan } from '../wire';
import { ENGLISH, aJob, aMe, aPlan, aQueue, captureNothing } from './builders';
import { all, button, clearScreen, enter, perform, press, words } from './screen';

const AWAY = new RequestError(503, {
  code: 'service_unavailable',
  message: 'The GPU scheduler does not answer.',
  field: null
});
const LOAD: IPrefixEntry = {
  key: 'load',
  cellId: 'load',
  source: 'load()',
  seconds: 1,
  ran: true,
  included: true,
  fixed: false,
  note: null
};

/** Why a question is not answered; null = it is. */
let problem: RequestError | null;
/** The plan of the cells, or why they are refused. */
let plan: Plan | RequestError;
/** Questions, in their order. */
let asked: string[];
/** Send the job. */
let send: () => Promise<JobView>;

beforeEach(() => {
  jest.useFakeTimers();
  problem = null;
  plan = aPlan();
  asked = [];
  send = () => Promise.resolve(aJob());
});
afterEach(() => {
  clearScreen();
  jest.useRealTimers();
});

/** Note a question, and answer it if anybody does. */
function answer<T>(question: string, given: T | RequestError): Promise<T> {
  asked.push(question);
  const refusal = problem ?? (given instanceof RequestError ? given : null);
  return refusal === null ? Promise.resolve(given as T) : Promise.reject(refusal);
}

async function open(): Promise<void> {
  const me = aMe({ queues: [aQueue()] });
  const dialog = new SendDialog({
    values: proposeValues({}, me, 'a.ipynb', 'a'),
    queues: me.queues,
    pools: me.pools,
    largest: me.largest_request,
    secrets: me,
    targets: [{ id: 'train', source: '# soon' }],
    prefix: { from: 'history', entries: [LOAD] },
    start: NEW_JOB,
    notes: [],
    trans: ENGLISH,
    check: () => answer('check', plan),
    client: { slowChanged: new Signal<unknown, boolean>({}), now: 1000 },
    capture: captureNothing,
    preview: () =>
      answer('preview', { starts_now: true, sentence: 'Starts now.', alternatives: [] } as never),
    send: () => send()
  });
  await perform(() => {
    // A dialog that is left open at the end of a test rejects.
    dialog.ask().catch(() => undefined);
  });
  await pause(300);
}

const pause = (milliseconds: number): Promise<void> =>
  perform(() => jest.advanceTimersByTimeAsync(milliseconds));
const forecast = (): string => words(document.querySelector('[aria-label="Forecast"]'));
const alerts = (): string[] => all('[role=alert]').map(words);
const submit = (): Promise<void> =>
  perform(() => document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-accept')?.click());

describe('a refusal of the cells', () => {
  it('stands without a forecast until the cell is left out', async () => {
    const message = 'The replayed cell “for” would fail.';
    plan = new RequestError(422, { code: 'syntax_error', message, field: 'prefix' });
    await open();
    expect([alerts(), forecast()]).toEqual([[message], '']);
    plan = aPlan();
    await perform(() => all('[aria-label="Replay cell 1"]')[0].click());
    await pause(300);
    expect([alerts(), forecast()]).toEqual([[], 'Starts now.']);
  });

  it('has the focus if the user sends all the same', async () => {
    const message = 'Cell 2 has only comments.';
    const refusal = new RequestError(422, { code: 'empty_cell', message, field: 'targets' });
    plan = refusal;
    send = () => Promise.reject(refusal);
    await open();
    expect([alerts(), forecast()]).toEqual([[message], '']);
    await submit();
    expect(words(document.activeElement)).toBe(message);
  });
});

it.each([
  ['a failure', new RequestError(500, { code: 'internal_error', message: 'Odd.', field: null })],
  ['a missing right', new RequestError(403, { code: 'forbidden', message: 'Odd.', field: null })]
])('the dialog says that the cells were not checked because of %s', async (_, failure) => {
  plan = failure;
  await open();
  const gap = 'The cells could not be checked, so warnings and names to bring back are missing.';
  expect([alerts(), forecast()]).toEqual([[`${gap} Odd.`], 'Starts now.']);
  plan = aPlan();
  await perform(() => all('[aria-label="Replay cell 1"]')[0].click());
  await pause(300);
  expect(alerts()).toEqual([]);
});

it('the dialog names the first variables of a long cell, and the others on request', async () => {
  plan = aPlan({ makes: ['z', 'y', 'x', 'w', 'v', 'u', 'model'] });
  await open();
  const hint = (): string => words(document.querySelector('#jp-gq-send-returns-hint'));
  expect(hint()).toBe('variables of this cell: z, y, x, w, v, u and 1 more');
  button('and 1 more').focus();
  await press('and 1 more');
  expect(hint()).toBe('variables of this cell: z, y, x, w, v, u, model (show fewer)');
  expect(words(document.activeElement)).toBe('(show fewer)'); // the keys of the dialog need a focus inside of it
  await press('(show fewer)');
  expect(hint()).toBe('variables of this cell: z, y, x, w, v, u and 1 more');
});

it('a click on a variable of the cell adds it to those that come back, and one more click removes it', async () => {
  plan = aPlan({ makes: ['loss', 'model'], returns: ['model'] });
  await open();
  const returned = (): string => document.querySelector<HTMLInputElement>('#jp-gq-send-returns')?.value ?? '';
  const chosen = (): (string | null)[] =>
    ['loss', 'model'].map(name => button(name).getAttribute('aria-pressed'));
  expect(chosen()).toEqual(['false', 'true']);
  await press('loss');
  expect([returned(), chosen()]).toEqual(['model, loss', ['true', 'true']]);
  await press('model');
  expect([returned(), chosen()]).toEqual(['loss', ['true', 'false']]);
});

describe('while the service does not answer, the dialog', () => {
  beforeEach(() => {
    problem = AWAY;
  });

  it('asks until the service is back, and then no more', async () => {
    await open();
    await pause(20_000);
    expect(alerts()).toEqual(['The GPU scheduler does not answer.']);
    problem = null;
    plan = aPlan({ makes: ['model'], returns: ['model'] });
    await pause(10_000);
    const returns = document.querySelector<HTMLInputElement>('#jp-gq-send-returns')?.value;
    expect([alerts(), forecast(), returns]).toEqual([[], 'Starts now.', 'model']);
    const before = asked.length;
    await pause(60_000);
    expect(asked.length).toBe(before);
  });

  it('asks nothing while the job is on its way, and says what an answer that was lost may mean', async () => {
    let fail: (reason: Error) => void = () => undefined;
    send = () =>
      new Promise((_, reject) => {
        fail = reject;
      });
    await open();
    await submit();
    const before = asked.length;
    await pause(30_000);
    expect(asked.length).toBe(before);
    await perform(() => fail(AWAY));
    const told =
      'The GPU scheduler does not answer. If the job was accepted all the same, it is shown as soon as that is known. ' +
      'Send again to have one job, or cancel to have none.';
    await pause(10_000);
    problem = null;
    await pause(10_000);
    expect([alerts(), forecast()]).toEqual([[told], 'Starts now.']);
    await enter(all('#jp-gq-send-name')[0], 'other');
    expect(alerts()).toEqual([]);
  });

  it('asks no more once it is closed', async () => {
    await open();
    await press('Cancel');
    const before = asked.length;
    await pause(30_000);
    expect(asked.length).toBe(before);
  });
});
