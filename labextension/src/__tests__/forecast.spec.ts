/** The forecast of the dialog is for the present values, or says that it is being asked for. */

import { readFileSync } from 'fs';
import { resolve } from 'path';

import { send } from '../plugins/send';
import type { ICellOutputs, IRunHistory } from '../tokens';
import { CommandIDs } from '../tokens';
import { aJob, aMe, aPlan, aQueue, WOULD_WAIT } from './builders';
import { FakeApp, FakeTraining } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { all, clearScreen, enter, perform, press, words } from './screen';

/** Milliseconds after which a change has been asked about. */
const ASKED = 300;

let app: FakeApp;
let training: FakeTraining;

beforeEach(async () => {
  jest.useFakeTimers();
  const style = document.createElement('style');
  style.textContent = readRules('jp-gq-mod-stale');
  document.head.append(style);
  [app, training] = [new FakeApp(), new FakeTraining()];
  const tracker = new FakeTracker();
  tracker.open(new FakePanel(['train()']));
  const { server } = training;
  server.answer('GET me', aMe({ queues: [aQueue({ name: 'vision' }), aQueue({ name: 'nlp' })] }));
  server.answer('GET kernels/kernel-1/history', { cells: [], complete: false });
  server.answer('POST preview', NOW);
  server.answer('POST check', aPlan());
  server.answer('POST send', aJob({ id: 'new', phase: 'waiting' }));
  const outputs: ICellOutputs = { bind: () => Promise.resolve(), showSweep: () => Promise.resolve() };
  const history: IRunHistory = { isComplete: () => false, listRuns: () => [] };
  await send.activate(app.frontEnd, tracker, training, history, outputs, null);
  await perform(() => {
    app.commands.execute(CommandIDs.sendCell).catch(() => undefined);
  });
  await pause(0);
});
afterEach(async () => {
  await send.deactivate?.(app.frontEnd);
  clearScreen();
  document.head.replaceChildren();
  jest.useRealTimers();
});

/** Return the rules of the style for a class: the parser of the page here does not know all rules. */
function readRules(name: string): string {
  const all = readFileSync(resolve(__dirname, '../../style/base.css'), 'utf-8');
  return (all.match(/[^{}]*\{[^{}]*\}/g) ?? []).filter(rule => rule.includes(name)).join('\n');
}

const NOW = { starts_now: true, sentence: 'Starts now.', alternatives: [] };
const pause = (time: number): Promise<void> => perform(() => jest.advanceTimersByTimeAsync(time));
const field = (name: string): HTMLInputElement =>
  document.querySelector(`#jp-gq-send-${name}`) as HTMLInputElement;
const submit = (): Promise<void> =>
  perform(() => document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-accept')?.click());
const isSeen = (node: HTMLElement): boolean => getComputedStyle(node).visibility !== 'hidden';
/** Return what can be read in the forecast. */
const seen = (): string =>
  all('.jp-gq-forecast p, .jp-gq-forecast .jp-gq-answer')
    .filter(node => node.children.length === 0 && isSeen(node))
    .map(words)
    .join(' ')
    .trim();

describe('a forecast for earlier values', () => {
  it.each([
    ['gpus', '0.5'],
    ['queue', 'nlp'],
    ['tasks', '2'],
    ['max_seconds', '2 h']
  ])('is not shown once %s is another one', async (name, value) => {
    expect(seen()).toBe('Starts now.');
    await enter(field(name), value);
    expect(seen()).toBe('Asking the GPU scheduler again…');
    training.server.answer('POST preview', { ...NOW, sentence: 'Starts now, with less.' });
    await pause(ASKED);
    expect(seen()).toBe('Starts now, with less.');
  });

  it('keeps its room, and only the answer is spoken', async () => {
    const region = document.querySelector('[role=status][aria-label="Forecast"]');
    await enter(field('gpus'), '0.5');
    expect(document.querySelector('[role=status][aria-label="Forecast"]')).toBe(region);
    expect(words(region)).toBe('Starts now.');
    expect(document.querySelector('.jp-gq-forecast')?.getAttribute('aria-busy')).toBe('true');
    await pause(ASKED);
    expect(document.querySelector('.jp-gq-forecast')?.getAttribute('aria-busy')).toBe('false');
  });

  it('stays for another name, on which it does not depend', async () => {
    await enter(field('name'), 'night run');
    expect(seen()).toBe('Starts now.');
  });

  it('does not come back with an answer that is late', async () => {
    await enter(field('gpus'), '0.5');
    training.server.hold();
    await pause(ASKED);
    await enter(field('gpus'), '2');
    training.server.release();
    await pause(0);
    expect(seen()).toBe('Asking the GPU scheduler again…');
    await pause(ASKED);
    expect(seen()).toBe('Starts now.');
  });
});

it('a forecast counts by the clock of the server, to which its times belong', async () => {
  const ahead = Date.now() + 7_200_000;
  training.server.date = new Date(ahead).toUTCString();
  const expected_start = { p50: ahead / 1000 + 200, p90: ahead / 1000 + 850 };
  training.server.answer('POST preview', { ...WOULD_WAIT, expected_start });
  await enter(field('gpus'), '0.5');
  await pause(ASKED);
  expect(seen()).toContain('Probably starts within 4 min, almost surely within 15 min.');
});

describe('sending before the forecast is there', () => {
  it('sends the present values', async () => {
    await enter(field('gpus'), '0.5');
    await submit();
    expect(training.server.bodies.at(-1)).toMatchObject({ gpus: '0.5', queue: 'vision' });
  });

  it('asks again if sending is refused', async () => {
    training.server.answer('POST send', { code: 'limit', message: 'No.', field: 'returns' }, 422);
    await enter(field('gpus'), '0.5');
    training.server.hold();
    await submit();
    expect(seen()).toBe('Sending…');
    training.server.release();
    await pause(ASKED);
    await enter(field('returns'), 'model');
    expect(seen()).toBe('Starts now.');
    await press('Cancel');
  });
});

describe('a forecast beside a refusal', () => {
  it('is shown if sending is refused for another field', async () => {
    training.server.answer('POST send', { code: 'limit', message: 'No such name.', field: 'returns' }, 422);
    await submit();
    await pause(ASKED);
    expect([seen(), all('[role=alert]').map(words)]).toEqual(['Starts now.', ['No such name.']]);
    await press('Cancel');
  });

  it('is had without the name, if the name is refused', async () => {
    training.server.answer('POST preview', NOW);
    training.server.refuse('POST preview', body => (body as { name: string }).name === 'wrong', {
      code: 'invalid',
      message: 'No.',
      field: 'name'
    });
    await enter(field('name'), 'wrong');
    await pause(ASKED);
    expect([seen(), all('[role=alert]').map(words)]).toEqual(['Starts now.', ['No.']]);
    await press('Cancel');
  });
});

it('the user is asked about each job that another page has sent meanwhile, and about each once', async () => {
  const said = 'This cell was sent from another tab or window.';
  const known = (): unknown =>
    (training.server.bodies.at(-1) as { known_jobs: readonly string[] | null }).known_jobs;
  const refuse = (...other_jobs: string[]): void =>
    training.server.answer('POST send', { code: 'already_sent', message: said, other_jobs }, 409);
  refuse('theirs');
  await submit();
  expect(known()).toEqual([]);
  expect(all('[role=alert]').map(words)).toEqual([said]);
  refuse('swept-1', 'swept-2');
  await submit();
  expect(known()).toEqual(['theirs']);
  expect(all('[role=alert]').map(words)).toEqual([said]);
  training.server.answer('POST send', aJob({ id: 'new', phase: 'waiting' }));
  await submit();
  expect(known()).toEqual(['theirs', 'swept-1', 'swept-2']);
  expect(all('.jp-Dialog')).toEqual([]);
});

describe('a forecast that could not be had', () => {
  const fails = async (): Promise<void> => {
    training.server.answer('POST preview', { code: 'busy', message: 'No.', field: null }, 503);
    await enter(field('gpus'), '0.5');
    await pause(ASKED);
    training.server.answer('POST preview', NOW);
    expect(seen()).toBe('');
  };

  it('is asked for again with the next change, also of what it does not depend on', async () => {
    await fails();
    await enter(field('returns'), 'model');
    expect(seen()).toBe('Asking the GPU scheduler…');
    await pause(ASKED);
    expect(seen()).toBe('Starts now.');
    await press('Cancel');
  });

  it('is not said to be asked for while the job is sent', async () => {
    await fails();
    training.server.answer('POST send', { code: 'limit', message: 'No.', field: 'returns' }, 422);
    training.server.hold();
    await submit();
    expect(seen()).toBe('Sending…');
    training.server.release();
    await pause(ASKED);
    await enter(field('returns'), 'model');
    await pause(ASKED);
    expect(seen()).toBe('Starts now.');
    await press('Cancel');
  });
});
