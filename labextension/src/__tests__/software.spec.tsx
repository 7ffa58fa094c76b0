import { Signal } from '@lumino/signaling';

import { listDetails } from '../panel/facts';
import type { IChosenCells } from '../send/carry';
import type { ISendOptions } from '../send/options';
import { SendDialog } from '../send/dialog';
import { NEW_JOB } from '../send/opening';
import { addChosen, listSoftware } from '../send/software';
import { proposeValues } from '../send/values';
import { RequestError } from '../client';
import type { JobRequest, Plan } from '../wire';
import { ENGLISH, aJob, aMe, aPlan, aQueue, captureNothing } from './builders';
import { all, clearScreen, enter, perform, press, words } from './screen';

const KERNELS = [{ name: 'py311', title: 'Python 3 (ipykernel)' }];

describe('the software in the dialog', () => {
  const checked: IChosenCells[] = [];
  const previewed: JobRequest[] = [];
  const sent: [JobRequest, IChosenCells][] = [];

  beforeEach(() => {
    jest.useFakeTimers();
    [checked, previewed, sent].forEach(list => list.splice(0));
  });
  afterEach(() => {
    clearScreen();
    jest.useRealTimers();
  });

  const wait = (): Promise<void> => perform(() => jest.advanceTimersByTimeAsync(300));
  const field = (): HTMLSelectElement | undefined =>
    all('#jp-gq-send-software')[0] as HTMLSelectElement | undefined;

  /** Open the dialog where these kernels and images are offered; variables can go along unless an image is chosen. */
  async function open(
    kernels: Plan['kernels'],
    images: string[],
    software = '',
    check?: () => Promise<Plan>
  ): Promise<void> {
    const me = aMe({ queues: [aQueue()], images });
    const ran = { seconds: 90, ran: true, included: true, fixed: false, note: null };
    const options: ISendOptions = {
      values: { ...proposeValues({}, me, 'a.ipynb', 'a'), software },
      queues: me.queues,
      pools: me.pools,
      largest: me.largest_request,
      secrets: me,
      images: me.images,
      trans: ENGLISH,
      targets: [{ id: 'train', source: 'train(a)' }],
      prefix: { from: 'history', entries: [{ key: 'a', cellId: 'a', source: 'a = 1', ...ran }] },
      start: NEW_JOB,
      notes: [],
      check: cells => {
        checked.push(cells);
        const offered = !images.includes(cells.software);
        return check?.() ?? Promise.resolve(aPlan({ kernels, carry: { offered, suggested: false } }));
      },
      capture: captureNothing,
      client: { slowChanged: new Signal<unknown, boolean>({}), now: 1000 },
      preview: request => {
        previewed.push(request);
        return Promise.resolve({ starts_now: true, sentence: 'Starts now.', alternatives: [] } as never);
      },
      send: (request, cells) => {
        sent.push([request, cells]);
        return Promise.resolve(aJob());
      }
    };
    await perform(() => {
      new SendDialog(options).ask().catch(() => undefined);
    });
    await wait();
  }

  it('has no field where there is no choice', async () => {
    await open([], []);
    expect(field()).toBeUndefined();
    await press('Send to training');
    expect(sent.map(([request]) => request.software)).toEqual(['']);
  });

  it('is that of the notebook until the user chooses a kernel or an image', async () => {
    await open(KERNELS, ['PyTorch 2.9']);
    expect(all('#jp-gq-send-software option').map(option => words(option))).toEqual([
      'as in this notebook',
      'Python 3 (ipykernel) (py311)',
      'PyTorch 2.9'
    ]);
    expect(field()?.value).toBe('');
    await enter(field() ?? null, 'py311');
    await wait();
    expect(checked[checked.length - 1].software).toBe('py311');
    expect(previewed[previewed.length - 1].software).toBe('py311');
    await press('Send to training');
    expect(sent.map(([request, cells]) => [request.software, cells.software])).toEqual([['py311', 'py311']]);
  });

  it('of an image lets the cells run, whose variables would go along', async () => {
    await open(KERNELS, ['PyTorch 2.9']);
    await perform(() => all('[name=jp-gq-send-way]')[1].click());
    await wait();
    expect(checked[checked.length - 1].capture).toBe('c');
    await enter(field() ?? null, 'PyTorch 2.9');
    await wait();
    expect(all('[name=jp-gq-send-way]')).toEqual([]);
    expect(words(all('#jp-gq-send-software-hint')[0])).toContain('variables of this kernel cannot go along');
    await press('Send to training');
    expect(sent.map(([, cells]) => [cells.capture, cells.prefix.length])).toEqual([[null, 1]]);
  });

  it('that is not offered any more is shown with the reason', async () => {
    const message = "There is no software 'gone' here.";
    const problem = { code: 'unknown_software', field: 'software', message };
    await open([], [], 'gone', () => Promise.reject(new RequestError(422, problem)));
    expect(field()?.value).toBe('gone');
    expect(words(all('#jp-gq-send-software-problem')[0])).toBe(message);
    expect(all('#jp-gq-send-more')[0].hidden).toBe(false);
  });
});

it('lists a kernel before an image of its name, and images for Python only', () => {
  const offered = { kernels: KERNELS, takes_images: true };
  expect(listSoftware(offered, ['py311', 'JAX']).map(({ name, isImage }) => [name, isImage])).toEqual([
    ['py311', false],
    ['JAX', true]
  ]);
  expect(listSoftware({ kernels: [], takes_images: false }, ['JAX'])).toEqual([]);
  expect(listSoftware(null, undefined)).toEqual([]);
  expect(addChosen([], '')).toEqual([]);
});

it('is in the details of a job that has another one', () => {
  const value = (software: string): string | undefined =>
    listDetails(aJob({ software }), 2000, ENGLISH).find(([term]) => term === 'Software')?.[1];
  expect(value('PyTorch 2.9')).toBe('PyTorch 2.9');
  expect(value('')).toBeUndefined();
});
