import { Signal } from '@lumino/signaling';

import type { IPrefixEntry } from '../bundle/prefix';
import { RequestError } from '../client';
import { REPLAYED, selectReplayed, selectRunning, summarizeVariables } from '../send/carry';
import type { IChosenCells } from '../send/carry';
import type { ISendOptions } from '../send/options';
import { SendDialog } from '../send/dialog';
import { NEW_JOB } from '../send/opening';
import { proposeValues } from '../send/values';
import type { Captured, CapturedVariable, CellWarning } from '../wire';
import { ENGLISH, aJob, aMe, aPlan, aQueue } from './builders';
import { all, clearScreen, enter, perform, press, words } from './screen';

const A_WRONG_NAME = { code: 'invalid_request', message: '“my-model” is no name.', field: 'more_variables' };
const OFFER = { offered: true, suggested: true };

function anEntry(name: string): IPrefixEntry {
  const state = { ran: true, included: true, fixed: false, note: null };
  return { key: name, cellId: name, source: `${name} = 1`, seconds: 90, ...state };
}

function aVariable(name: string, why = ''): CapturedVariable {
  return { name, type: 'int', bytes: 2000, on_gpu: false, why };
}

function aCapture(...variables: CapturedVariable[]): Captured {
  return { id: 'capture-1', variables, bytes: 2000, replayed: [], notes: [] };
}

describe('the choice between cells and their variables', () => {
  const asked: [number, string[], string[]][] = [];
  const sent: IChosenCells[] = [];
  let answer: () => Promise<Captured>;

  beforeEach(() => {
    jest.useFakeTimers();
    asked.length = 0;
    sent.length = 0;
  });
  afterEach(() => {
    clearScreen();
    jest.useRealTimers();
  });

  /** Open the dialog for a cell with two cells before it. */
  async function open(offer = OFFER, warnings: CellWarning[] = []): Promise<void> {
    const me = aMe({ queues: [aQueue()] });
    const options: ISendOptions = {
      values: proposeValues({}, me, 'a.ipynb', 'a'),
      queues: me.queues,
      pools: me.pools,
      largest: me.largest_request,
      secrets: me,
      trans: ENGLISH,
      targets: [{ id: 'train', source: 'train(a, b)' }],
      prefix: { from: 'history', entries: [anEntry('a'), anEntry('b')] },
      start: NEW_JOB,
      notes: [],
      check: () => Promise.resolve(aPlan({ carry: offer, warnings })),
      capture: (prefix, { leftOut, also }) => {
        asked.push([prefix.length, [...leftOut], [...also]]);
        return answer();
      },
      client: { slowChanged: new Signal<unknown, boolean>({}), now: 1000 },
      preview: () =>
        Promise.resolve({ starts_now: true, sentence: 'Starts now.', alternatives: [] } as never),
      send: (_request, cells) => {
        sent.push(cells);
        return Promise.resolve(aJob());
      }
    };
    await perform(() => {
      new SendDialog(options).ask().catch(() => undefined);
    });
    await wait();
  }

  const wait = (): Promise<void> => perform(() => jest.advanceTimersByTimeAsync(300));
  const radio = (at: number): HTMLElement => all('[name=jp-gq-send-way]')[at];

  it('is not offered where no variable can go along', async () => {
    await open({ offered: false, suggested: false });
    expect(all('[name=jp-gq-send-way]')).toEqual([]);
  });

  it('counts no cell that the job leaves out among those that run first, nor its time', async () => {
    await open(OFFER, [
      { code: 'edited', message: 'was edited since', cell_id: 'a', index: 0 },
      { code: 'needs_target', message: 'needs net: left out', cell_id: 'b', index: 1 }
    ]);
    const headline = all('[aria-label="Cells that run first"] h3')[0];
    expect(words(headline)).toBe('Runs first: 1 cell, which took 1 min 30 s here');
    expect(all('.jp-gq-replay .jp-gq-mod-left-out code').map(words)).toEqual(['b = 1']);
  });

  it.each([
    ['It is an open file.', '0'],
    ['', null]
  ])('shows variables in a list that keys can scroll, also if all stay: %p', async (why, tabindex) => {
    answer = () => Promise.resolve(aCapture(aVariable('a', why)));
    await open();
    await perform(() => radio(1).click());
    await wait();
    expect(all('ul.jp-gq-replay')[0].getAttribute('tabindex')).toBe(tabindex);
  });

  it('sends the capture in place of the cells, with the cells of what stays', async () => {
    answer = () =>
      Promise.resolve({ ...aCapture(aVariable('a'), aVariable('b', 'It is an open file.')), replayed: [1] });
    await open();
    expect(words(all('.jp-gq-ways')[0])).toContain('suggested, because these cells took long');
    await perform(() => radio(1).click());
    await wait();
    expect(asked).toEqual([[2, [], []]]);
    const section = all('[aria-label="Cells or variables"]')[0];
    expect(words(section)).toContain('1 variable, 2.0 kB, goes along; 1 stays');
    expect(words(section)).toContain('It is an open file.');
    expect(words(section)).toContain('Runs first: 1 cell');
    await press('Send to training');
    expect(sent.map(cells => [cells.capture, cells.prefix.map(cell => cell.cell_id)])).toEqual([
      ['capture-1', ['b']]
    ]);
  });

  it('asks again without a variable that the user leaves out', async () => {
    answer = () => Promise.resolve(aCapture(aVariable('a'), aVariable('b')));
    await open();
    await perform(() => radio(1).click());
    await wait();
    await perform(() => all('[aria-label="Take b along"]')[0].click());
    await wait();
    expect(asked).toEqual([
      [2, [], []],
      [2, ['b'], []]
    ]);
  });

  it('asks again with the variables that the user adds, once they are written, and sends nothing at Enter', async () => {
    answer = () => Promise.resolve(aCapture(aVariable('a')));
    await open();
    expect(all('#jp-gq-send-more_variables')).toEqual([]);
    await perform(() => radio(1).click());
    await wait();
    const [field] = all('#jp-gq-send-more_variables');
    expect(words(all('label[for=jp-gq-send-more_variables]')[0])).toBe('Also take variables');
    await enter(field, 'scaler,  rate');
    await wait();
    expect(asked.length).toBe(1);
    await perform(() => {
      field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
    });
    await wait();
    expect(asked.slice(1)).toEqual([[2, [], ['scaler', 'rate']]]);
    await perform(() => field.dispatchEvent(new FocusEvent('focusout', { bubbles: true })));
    await wait();
    expect([asked.length, sent]).toEqual([2, []]);
  });

  it('asks again once after typing, without Enter and without leaving the field', async () => {
    answer = () => Promise.resolve(aCapture(aVariable('a')));
    await open();
    await perform(() => radio(1).click());
    await wait();
    const [field] = all('#jp-gq-send-more_variables');
    await enter(field, 'scal');
    await wait();
    await enter(field, 'scaler');
    await perform(() => jest.advanceTimersByTimeAsync(1000));
    expect(asked.slice(1)).toEqual([[2, [], ['scaler']]]);
  });

  it('sends with the names that were typed just before, after one question to the kernel', async () => {
    const written = { ...aCapture(aVariable('a'), aVariable('scaler')), id: 'capture-2' };
    answer = () => Promise.resolve(aCapture(aVariable('a')));
    await open();
    await perform(() => radio(1).click());
    await wait();
    answer = () => Promise.resolve(written);
    const [field] = all('#jp-gq-send-more_variables');
    await enter(field, 'scaler');
    await perform(() => field.dispatchEvent(new FocusEvent('focusout', { bubbles: true })));
    await press('Send to training');
    expect(asked.slice(1)).toEqual([[2, [], ['scaler']]]);
    expect(sent.map(cells => cells.capture)).toEqual(['capture-2']);
  });

  it('sends with the names that are still in the field with the cursor', async () => {
    answer = () => Promise.resolve(aCapture(aVariable('a')));
    await open();
    await perform(() => radio(1).click());
    await wait();
    await enter(all('#jp-gq-send-more_variables')[0], 'scaler');
    await press('Send to training');
    expect(asked.slice(1)).toEqual([[2, [], ['scaler']]]);
    expect(sent.length).toBe(1);
  });

  it('sends nothing before the user has seen which variables stay', async () => {
    answer = () => Promise.resolve(aCapture(aVariable('a'), aVariable('b', 'It is an open file.')));
    await open();
    await perform(() => radio(1).click());
    await enter(all('#jp-gq-send-more_variables')[0], 'b');
    await press('Send to training');
    expect(sent).toEqual([]);
    expect(all('[role=alert]').map(words)[0]).toContain('Send again to send without them.');
    await press('Send to training');
    expect(sent.length).toBe(1);
  });

  it('asks a kernel again that was busy when the user chose the variables', async () => {
    answer = () => Promise.reject(Object.assign(new Error('The kernel is busy.'), { field: null }));
    await open();
    await perform(() => radio(1).click());
    await wait();
    answer = () => Promise.resolve(aCapture(aVariable('a')));
    await press('Send to training');
    expect(sent.map(({ capture }) => capture !== null)).toEqual([true]);
  });

  it('sends nothing if the user cancels while the kernel is asked', async () => {
    let finish: (captured: Captured) => void = () => undefined;
    answer = () => new Promise(resolve => (finish = resolve));
    await open();
    await perform(() => radio(1).click());
    await press('Send to training');
    await press('Cancel');
    expect(all('.jp-Dialog')).toEqual([]);
    await perform(() => finish(aCapture(aVariable('a'))));
    expect([sent, all('.jp-Dialog')]).toEqual([[], []]);
  });

  it('names the time of the cells that are replayed, also once the variables are taken along', async () => {
    answer = () => Promise.resolve(aCapture(aVariable('a')));
    await open(OFFER, [{ code: 'needs_target', message: 'needs net: left out', cell_id: 'b', index: 1 }]);
    const hint = (): string => words(all('.jp-gq-ways .jp-gq-hint')[0]);
    expect(hint()).toBe('the job runs them again, which took 1 min 30 s here');
    await perform(() => radio(1).click());
    await wait();
    expect(hint()).toBe('the job runs them again, which took 1 min 30 s here');
  });

  it('shows at the field why a name cannot go along', async () => {
    answer = () => Promise.resolve(aCapture(aVariable('a')));
    await open();
    await perform(() => radio(1).click());
    await wait();
    answer = () => Promise.reject(new RequestError(422, A_WRONG_NAME));
    const [field] = all('#jp-gq-send-more_variables');
    await enter(field, 'my-model');
    await perform(() => field.dispatchEvent(new FocusEvent('focusout', { bubbles: true })));
    await wait();
    expect(all('[role=alert]').map(words)).toEqual([A_WRONG_NAME.message]);
    expect(field.getAttribute('aria-invalid')).toBe('true');
  });

  it('says why the kernel could not be asked, and sends nothing', async () => {
    answer = () => Promise.reject(Object.assign(new Error('The kernel is busy.'), { field: null }));
    await open();
    await perform(() => radio(1).click());
    await wait();
    await press('Send to training');
    expect(words(all('[aria-label="Cells or variables"] [role=alert]')[0])).toContain('The kernel is busy.');
    expect(sent).toEqual([]);
    await perform(() => radio(0).click());
    await press('Send to training');
    expect(sent.map(cells => [cells.capture, cells.prefix.length])).toEqual([[null, 2]]);
  });
});

it('sends a cell that sends itself to the server, but does not list it as one that runs', () => {
  const sender = { ...anEntry('s'), source: '%%train --wait --returns model\nmodel = fit()', seconds: null };
  const entries = [anEntry('a'), sender];
  expect(selectReplayed(entries, REPLAYED)).toEqual([entries[0]]);
  expect(selectRunning(entries, REPLAYED)).toEqual(entries);
});

it('counts what goes along and what stays', () => {
  expect(summarizeVariables(aCapture(), ENGLISH)).toBe('No variable goes along');
  expect(summarizeVariables(aCapture(aVariable('a'), aVariable('b')), ENGLISH)).toBe(
    '2 variables, 2.0 kB, go along'
  );
});
