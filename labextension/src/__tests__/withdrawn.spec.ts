import { Notification } from '@jupyterlab/apputils';

import { CommandIDs } from '../tokens';
import type { JobView } from '../wire';
import { aJob } from './builders';
import { enter, perform, press, words } from './screen';
import { pause, SendingPage, submit } from './sending';

let page: SendingPage;
let app: SendingPage['app'];
let training: SendingPage['training'];
let panel: SendingPage['notebook'];
let bound: string[];

beforeEach(async () => {
  jest.useFakeTimers();
  page = new SendingPage('train()');
  ({ app, training, bound, notebook: panel } = page);
  await page.activate();
});
afterEach(async () => {
  await page.close();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

const escape = (): Promise<void> =>
  perform(() => {
    const key = new KeyboardEvent('keydown', { key: 'Escape', bubbles: true });
    document.querySelector('#jp-gq-send-name')?.dispatchEvent(key);
  });

/** Open the dialog, send, and cancel while the answer is on its way; return the result of the command. */
async function cancelWhileSending(cancel: () => Promise<void>): Promise<unknown> {
  let result: Promise<unknown> = Promise.resolve();
  await perform(() => {
    result = app.commands.execute(CommandIDs.sendCell);
  });
  await pause();
  training.server.hold();
  await submit();
  await cancel();
  await submit();
  expect(words(document.querySelector('[aria-label="Forecast"], .jp-gq-forecast'))).toContain('Cancelling');
  training.server.release();
  await pause();
  return result;
}

it('the second click of a double click opens no dialog behind the first one', async () => {
  const results: Promise<unknown>[] = [];
  const click = (): Promise<void> =>
    perform(() => results.push(app.commands.execute(CommandIDs.sendCell))).then(() => pause());
  await click();
  await click();
  expect(await results[1]).toBeNull();
  await press('Cancel');
  expect(await results[0]).toBeNull();
  expect(document.querySelector('.jp-Dialog')).toBeNull();
  await click();
  expect(words(document.querySelector('.jp-Dialog'))).toContain('Send to training');
  await press('Cancel');
});

it.each([true, false])('the dialog says whether the file gets the job: writable %s', async writable => {
  panel.context.contentsModel = { writable };
  await perform(() => void app.commands.execute(CommandIDs.sendCell));
  await pause();
  expect(words(document.querySelector('.jp-Dialog')).includes('This notebook is read-only')).toBe(!writable);
  await press('Cancel');
});

describe('cancelling while the job is being sent', () => {
  it.each<[string, () => Promise<void>]>([
    ['by the button', () => press('Cancel')],
    ['by Escape', escape]
  ])('%s cancels the job once it is accepted, and says so', async (_, cancel) => {
    const toast = jest.spyOn(Notification, 'info');
    const { server } = training;
    server.answer('POST cancel', { jobs: [aJob({ id: 'new', phase: 'cancelled' })], refused: [] });
    expect(await cancelWhileSending(cancel)).toBeNull();
    expect(server.asked.filter(asked => asked === 'POST send')).toHaveLength(1);
    expect(server.bodies.at(-1)).toEqual({ jobs: ['new'] });
    expect(bound).toEqual([]);
    expect(toast.mock.calls.map(([text]) => text)).toEqual([
      '“digits” was sent already, and is cancelled now.'
    ]);
  });

  it('shows the job under its cell if it cannot be cancelled', async () => {
    const refused = [{ job: 'new', code: 'conflict', message: 'The job has ended.' }];
    training.server.answer('POST cancel', { jobs: [], refused });
    expect(await cancelWhileSending(() => press('Cancel'))).toBe('new');
    expect(bound).toEqual(['new']);
  });

  it('closes the dialog if nothing was accepted', async () => {
    training.server.answer('POST send', { code: 'limit_reached', message: 'No.' }, 429);
    expect(await cancelWhileSending(() => press('Cancel'))).toBeNull();
    expect(training.server.asked).not.toContain('POST cancel');
  });
});

const isSend = (body: unknown): body is { key: string } =>
  typeof (body as { key?: unknown } | null)?.key === 'string';
const isCancel = (body: unknown): boolean => Array.isArray((body as { jobs?: unknown } | null)?.jobs);

describe('a job whose answer was lost', () => {
  let result: Promise<unknown>;
  const dialog = (): string => words(document.querySelector('.jp-Dialog'));
  const lost = { code: 'server_unreachable', message: 'Your Jupyter server does not answer.' };
  const sent = (): { key: string }[] => training.server.bodies.filter(isSend);
  const key = (): string => sent()[0].key;
  const jobOf = (id: string): JobView => aJob({ id, name: 'digits', idempotency_key: `${key()} 5f` });
  const cancelled = (): unknown[] => training.server.bodies.filter(isCancel);

  beforeEach(async () => {
    await perform(() => {
      result = app.commands.execute(CommandIDs.sendCell);
    });
    await pause();
    training.server.answer('POST send', lost, 503);
    training.server.answer('POST cancel', { jobs: [], refused: [] });
    await submit();
    await pause();
  });

  it('is said to be perhaps accepted, for as long as nobody knows', async () => {
    await perform(() => jest.advanceTimersByTimeAsync(10_000));
    expect(dialog()).toContain('Your Jupyter server does not answer. If the job was accepted all the same');
    await press('Cancel');
    expect([await result, cancelled()]).toEqual([null, []]);
  });

  it('is shown under its cell as soon as it is known', async () => {
    training.server.answer('POST send', jobOf('new'));
    await perform(() => training.set({ jobs: [aJob({ id: 'other', idempotency_key: undefined as never })] }));
    await pause();
    expect(dialog()).toContain('If the job was accepted');
    await perform(() => training.set({ jobs: [jobOf('new')] }));
    await pause();
    expect([await result, bound, cancelled()]).toEqual(['new', ['new'], []]);
    expect(sent()[1]).toEqual(sent()[0]);
  });

  it('is fetched with pauses while its answer is lost again and again, and the dialog can be left', async () => {
    const tellEachSecond = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second += 1) {
        await perform(() => training.set({ jobs: [jobOf('new')] }));
        await pause(1000);
      }
    };
    const focus = document.activeElement;
    expect(focus?.className).toBe('jp-gq-problem');
    await tellEachSecond(30);
    expect(sent().length).toBeGreaterThan(3);
    expect(sent().length).toBeLessThan(15);
    expect(dialog()).toContain('If the job was accepted all the same');
    expect(document.activeElement).toBe(focus);
    await press('Cancel');
    expect([await result, bound, cancelled()]).toEqual([null, [], [{ jobs: ['new'] }]]);
    const before = sent().length;
    await tellEachSecond(10);
    expect(sent().length).toBe(before);
  });

  it('shows in the button that it is being fetched', async () => {
    const isBusy = (): boolean =>
      document.querySelector('.jp-Dialog .jp-mod-accept')?.getAttribute('aria-disabled') === 'true';
    expect(isBusy()).toBe(false);
    training.server.hold();
    await perform(() => training.set({ jobs: [jobOf('new')] }));
    expect(isBusy()).toBe(true);
    training.server.release();
    await pause();
    expect(isBusy()).toBe(false);
    await press('Cancel');
  });

  it('is cancelled once it is known if the user has cancelled', async () => {
    const toast = jest.spyOn(Notification, 'info');
    await press('Cancel');
    expect(await result).toBeNull();
    await perform(() => training.set({ jobs: [jobOf('new')] }));
    await perform(() => training.set({ jobs: [jobOf('new')] }));
    expect(cancelled()).toEqual([{ jobs: ['new'] }]);
    expect(toast.mock.calls.map(([text]) => text)).toEqual([
      '“digits” was sent already, and is cancelled now.'
    ]);
  });

  it('is cancelled if the user has sent something else instead', async () => {
    await enter(document.querySelector<HTMLElement>('#jp-gq-send-name'), 'better');
    await perform(() => training.set({ jobs: [jobOf('old')] }));
    expect(dialog()).toContain('Send to training');
    training.server.answer('POST send', jobOf('new'));
    await submit();
    await pause();
    expect(await result).toBe('new');
    await perform(() => training.set({ jobs: [jobOf('new'), jobOf('old')] }));
    expect([bound, cancelled()]).toEqual([['new'], [{ jobs: ['old'] }]]);
  });
});
