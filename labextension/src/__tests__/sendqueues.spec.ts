import type { IRunHistory } from '../tokens';
import { aMe, aQueue, WOULD_WAIT } from './builders';
import { press, words } from './screen';
import { pause, SendingPage } from './sending';

let page: SendingPage;

beforeEach(async () => {
  jest.useFakeTimers();
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  page = new SendingPage('load()', 'train()');
  page.notebook.content.selected = [1];
  page.training.server.answer('GET me', aMe({ queues: [aQueue({ used: '0' })] }));
  const runs: IRunHistory = { isComplete: () => false, listRuns: () => [] };
  await page.activate(runs, { fetch: () => Promise.resolve(undefined), save: () => Promise.resolve() });
});
afterEach(async () => {
  await page.close();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

const totals = (): string => words(document.querySelector('#jp-gq-send-queue-totals'));
const previews = (): number => page.training.server.asked.filter(asked => asked === 'POST preview').length;

describe('a queue of the open dialog', () => {
  it('shows what is in use by now, and the forecast is asked for again', async () => {
    await page.choose();
    await pause(300);
    expect(totals()).toContain('0 in use');
    const before = previews();
    page.training.server.answer('POST preview', WOULD_WAIT);
    page.training.set({ queues: [aQueue({ used: '1' })] });
    await pause(300);
    expect(totals()).toContain('1 in use');
    expect(previews()).toBe(before + 1);
    expect(words(document.querySelector('[aria-label="Forecast"]'))).toContain('2nd in line.');
    page.training.set({ jobs: [] });
    await pause(300);
    expect(previews()).toBe(before + 1);
    await press('Cancel');
  });

  it('stays as it was while nothing is known of it', async () => {
    await page.choose();
    await pause(300);
    page.training.set({ queues: [] });
    await pause(300);
    expect(totals()).toContain('0 in use');
    await press('Cancel');
  });
});
