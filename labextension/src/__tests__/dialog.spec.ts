import { Signal } from '@lumino/signaling';

import type { IPrefixEntry } from '../bundle/prefix';
import { RequestError } from '../client';
import type { IStart } from '../send/opening';
import { NEW_JOB } from '../send/opening';
import type { ISendOptions } from '../send/options';
import { SendDialog } from '../send/dialog';
import type { IFileChoice } from '../send/files';
import { describeChoice } from '../send/files';
import { proposeValues } from '../send/values';
import { ENGLISH, aJob, aMe, aPlan, aQueue, captureNothing } from './builders';
import { all, button, clearScreen, enter, perform, press, words } from './screen';

const GOING = [{ path: 'net.py', bytes: 10, why: 'imported' as const }];
const STAYING = [{ path: '/x.csv', bytes: 5, message: 'is not reachable', reached: false }];

interface IAsked {
  /** Choices of files about which the dialog asked. */
  readonly checked: IFileChoice[];
  /** Choices of files with which it sent. */
  readonly sent: IFileChoice[];
  /** All else that it sent. */
  readonly requests: unknown[];
}

/** Open a dialog; return what it asks and sends. */
async function open(
  start: IStart = NEW_JOB,
  patternNotes: string[] = [],
  refusal: Error | null = null
): Promise<IAsked> {
  const asked: IAsked = { checked: [], sent: [], requests: [] };
  const me = aMe({ queues: [aQueue()] });
  const options: ISendOptions = {
    values: proposeValues({}, me, 'a.ipynb', 'a'),
    queues: me.queues,
    pools: me.pools,
    largest: me.largest_request,
    secrets: me,
    targets: [{ id: 'train', source: 'train()' }],
    prefix: { from: 'history', entries: [] },
    start,
    notes: [],
    trans: ENGLISH,
    check: (_, files) => {
      asked.checked.push(files);
      const notes = { notes: ['Runs alone.'], pattern_notes: patternNotes };
      return Promise.resolve(
        aPlan({ files: { going: GOING, staying: STAYING, own_folder: false, ...notes } })
      );
    },
    client: { slowChanged: new Signal<unknown, boolean>({}), now: 1000 },
    capture: captureNothing,
    preview: () => Promise.resolve({ starts_now: true, sentence: 'Starts now.', alternatives: [] } as never),
    send: (request, { leftOut }, returns, environment, files) => {
      asked.requests.push({ ...request, leftOut, returns, ...environment });
      asked.sent.push(files);
      return refusal === null ? Promise.resolve(aJob()) : Promise.reject(refusal);
    }
  };
  await perform(() => {
    // A dialog that is left open at the end of a test rejects.
    new SendDialog(options).ask().catch(() => undefined);
  });
  await perform(() => jest.advanceTimersByTimeAsync(300));
  return asked;
}

beforeEach(() => jest.useFakeTimers());
afterEach(() => {
  clearScreen();
  jest.useRealTimers();
});

describe('the files in the dialog', () => {
  const section = (): HTMLElement => all('[aria-label="Files"]')[0];
  const details = (): HTMLElement => all('#jp-gq-send-files')[0];

  it('are one line until the user opens it, and what no job finds is always said', async () => {
    await open();
    expect(words(section())).toContain('1 file, 10 B, goes along; /x.csv (5 B) stays');
    expect(words(section())).toContain('/x.csv: is not reachable');
    expect(details().hidden).toBe(true);
    await perform(() => section().querySelector('button')?.click());
    expect(details().hidden).toBe(false);
    expect(words(details())).toContain('Runs alone.');
  });

  it('have a note at the patterns that take none along, which is not folded away', async () => {
    await open(NEW_JOB, ['“*.yam” matches no file.']);
    const notes = (): string[] => all('.jp-gq-field [role=status]', details()).map(words);
    expect([details().hidden, notes()]).toEqual([false, ['“*.yam” matches no file.']]);
  });

  it('are sent as the ticks, the patterns and the live folder say', async () => {
    const { checked, sent } = await open();
    await perform(() => all('[aria-label="Take net.py along"]')[0].click());
    await enter(all('#jp-gq-send-file_patterns')[0], '*.yaml');
    await perform(() => all('#jp-gq-send-files > label input')[0].click());
    await perform(() => jest.advanceTimersByTimeAsync(300));
    const chosen = { file_patterns: ['*.yaml'], left_out_files: ['net.py'], live_folder: true };
    expect(describeChoice(checked[checked.length - 1])).toEqual(chosen);
    await press('Send to training');
    expect(sent.map(describeChoice)).toEqual([chosen]);
  });
});

describe('a refusal to send', () => {
  const field = (name: string): HTMLElement => all(`#jp-gq-send-${name}`)[0];
  const folded = (): boolean => all('#jp-gq-send-more')[0].hidden;

  it.each([
    ['priority', 'high', '0'],
    ['expected_seconds', 'long', '1 h'],
    ['max_seconds', 'long', '1 h']
  ])('leads to the field with the problem, which is not folded away: %s', async (name, wrong, right) => {
    await open();
    const into = jest.spyOn(Element.prototype, 'scrollIntoView');
    expect(folded()).toBe(true);
    await enter(field(name), wrong);
    await perform(() => jest.advanceTimersByTimeAsync(300));
    await press('More');
    button('Send to training').focus();
    await press('Send to training');
    expect([folded(), document.activeElement?.id]).toEqual([false, `jp-gq-send-${name}`]);
    expect(into.mock.contexts).toContain(field(name).closest('.jp-gq-field'));
    expect(field(name).getAttribute('aria-describedby')).toContain(`jp-gq-send-${name}-problem`);
    await enter(field(name), right);
    expect([folded(), field(name).getAttribute('aria-invalid')]).toEqual([false, 'false']);
  });

  it('leads to the field that the service refuses', async () => {
    const refusal = new RequestError(422, { code: 'taken', message: 'Not this name.', field: 'name' });
    await open(NEW_JOB, [], refusal);
    button('Send to training').focus();
    await press('Send to training');
    expect(document.activeElement?.id).toBe('jp-gq-send-name');
    expect(field('name').getAttribute('aria-invalid')).toBe('true');
  });
});

/** A cell that the user has left out. */
const left = (cellId: string): IPrefixEntry => ({
  key: cellId,
  cellId,
  source: 'load()',
  seconds: 1,
  ran: true,
  included: false,
  fixed: false,
  note: null
});

it('sends what it started with, also what has no field', async () => {
  const { requests } = await open({
    returns: 'model, loss',
    environment: { variables: null, secrets: [] },
    unshown: { within: 'rack', preferred_gpu_models: ['H100'] },
    earlier: null,
    entries: [left('load')]
  });
  expect((all('#jp-gq-send-returns')[0] as HTMLInputElement).value).toBe('model, loss');
  await perform(() => all('.jp-Dialog .jp-mod-accept')[0].click());
  expect(requests).toMatchObject([
    { within: 'rack', preferred_gpu_models: ['H100'], returns: ['model', 'loss'], leftOut: ['load'] }
  ]);
});

it('goes on at its first field with the key Tab on its last button', async () => {
  await open();
  const last = button('Send to training');
  last.focus();
  await perform(() =>
    last.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', bubbles: true, cancelable: true }))
  );
  expect(document.activeElement).toBe(all('#jp-gq-send-name')[0]);
});
