import type { NotebookPanel } from '@jupyterlab/notebook';

import { waitForKernel } from '../send/kernel';
import { sumConnections } from './fakes';
import { FakePanel } from './notebooks';

const SECOND = 1000;

let notebook: FakePanel;
let isOver: boolean;
/** Timers that a notebook has anyway. */
let timers: number;

beforeEach(() => {
  jest.useFakeTimers();
  notebook = new FakePanel();
  [isOver, timers] = [false, jest.getTimerCount()];
});
afterEach(() => jest.useRealTimers());

/** Begin to wait for the kernel, and let some milliseconds pass. */
async function wait(milliseconds: number): Promise<void> {
  void waitForKernel(notebook as unknown as NotebookPanel).then(() => (isOver = true));
  await jest.advanceTimersByTimeAsync(milliseconds);
}

describe('the wait for the kernel of a notebook', () => {
  it('is over at once if there is one, and leaves no timer behind', async () => {
    await wait(0);
    expect([isOver, jest.getTimerCount()]).toEqual([true, timers]);
  });

  it('lasts until the kernel that is on its way is there', async () => {
    let arrive: () => void = () => undefined;
    notebook.sessionContext.ready = new Promise(resolve => (arrive = resolve));
    await wait(5 * SECOND);
    expect(isOver).toBe(false);
    arrive();
    await jest.advanceTimersByTimeAsync(0);
    expect([isOver, jest.getTimerCount()]).toEqual([true, timers]);
  });

  it('is over at once if the user has chosen no kernel in place of one that is not installed', async () => {
    notebook.sessionContext.stayWithoutKernel();
    await wait(0);
    expect([isOver, jest.getTimerCount()]).toEqual([true, timers]);
  });

  it('lasts if the user has chosen a kernel, which is on its way', async () => {
    notebook.sessionContext.ready = new Promise(() => undefined);
    notebook.sessionContext.needsChoice = true;
    await wait(SECOND);
    expect(isOver).toBe(false);
  });

  it('ends with the notebook, and listens to it no more', async () => {
    notebook.sessionContext.ready = new Promise(() => undefined);
    await wait(SECOND);
    notebook.disposed.emit();
    await jest.advanceTimersByTimeAsync(0);
    expect([isOver, jest.getTimerCount(), sumConnections(notebook.connections)]).toEqual([true, timers, 0]);
  });

  it.each([
    ['never comes', () => Promise.resolve(false)],
    ['does not start', () => Promise.reject(new Error('no such program'))],
    ['is still looked for', () => new Promise<boolean>(() => undefined)]
  ])('ends if the kernel %s', async (_, initialize) => {
    notebook.sessionContext.ready = new Promise(() => undefined);
    notebook.sessionContext.initialize = initialize;
    await wait(9 * SECOND);
    expect(isOver).toBe(false);
    await jest.advanceTimersByTimeAsync(2 * SECOND);
    expect(isOver).toBe(true);
  });
});
