import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';

import { LOG_MIME, LogView } from '../panel/log';
import { makeLogDownload, makeLogSearch, makeTaskChoice } from '../panel/logtools';
import { ENGLISH, aJob, aLogSize } from './builders';
import { FakeTraining, setVisibility, sumConnections } from './fakes';
import { words } from './screen';

const SECOND = 1000;

let training: FakeTraining;

/** The log of job-1 on the page. */
async function aLog(text = 'epoch 1\n'): Promise<LogView> {
  training.server.answer('GET jobs/job-1/log', text);
  training.server.answer('GET jobs/job-1/log/size', aLogSize(text.length));
  const registry = new RenderMimeRegistry({ initialFactories: standardRendererFactories });
  const view = new LogView('job-1', training, registry.createRenderer(LOG_MIME), ENGLISH);
  Widget.attach(view, document.body);
  await jest.advanceTimersByTimeAsync(SECOND);
  return view;
}

/** The requests for the text of a log. */
const texts = (): string[] => training.server.asked.filter(each => /log(\?|$)/.test(each));
const asked = (): number => texts().length;

beforeEach(() => {
  jest.useFakeTimers();
  training = new FakeTraining();
  training.state = { ...training.state, jobs: [aJob()] };
});
afterEach(() => {
  setVisibility('visible');
  jest.useRealTimers();
});

describe('the log of a job', () => {
  it('is shown with the colours of a terminal', async () => {
    const view = await aLog('\u001b[31mloss: nan\u001b[0m\n');
    expect(view.node.textContent).toContain('loss: nan');
    expect(view.node.querySelector('.ansi-red-fg')).not.toBeNull();
    view.dispose();
  });

  it('says that it is empty, or that it cannot be read', async () => {
    const view = await aLog('');
    expect(view.node.textContent).toContain('The log is empty so far.');
    training.server.answer('GET jobs/job-1/log', { code: 'not_found', message: 'No such job.' }, 404);
    await view.refresh();
    expect(view.node.textContent).toContain('The log could not be read. No such job.');
    view.dispose();
  });

  it('says that its job was deleted, also after a search, and keeps what is shown', async () => {
    const view = await aLog('epoch 1\n');
    const notice =
      /epoch 1\s*This job is not known to you here: it may be deleted.* cannot be read any more\.Search on$/;
    const missing = { code: 'not_found', message: 'There is no job.' };
    ['', '/size', '/lines'].forEach(part =>
      training.server.answer(`GET jobs/job-1/log${part}`, missing, 404)
    );
    training.forgetJob('job-1');
    expect(words(view.node)).toMatch(notice);
    await view.search('epoch');
    expect(words(view.node)).toMatch(notice);
    expect(view.node.querySelector('button.lm-mod-hidden')).not.toBeNull();
    await view.search('');
    expect(words(view.node)).toMatch(notice);
    view.dispose();
  });

  it('has the notice of a failure in sight, unless the user has scrolled up', async () => {
    const view = await aLog();
    const { node } = view;
    Object.defineProperties(node, {
      clientHeight: { value: 100 },
      scrollHeight: { value: 500, writable: true }
    });
    training.server.answer('GET jobs/job-1/log', { code: 'broken', message: 'No disk.' }, 500);
    node.scrollTop = 400;
    await view.refresh();
    expect(node.scrollTop).toBe(500);
    node.scrollTop = 10;
    await view.refresh();
    expect(node.scrollTop).toBe(10);
    view.dispose();
  });

  it('is that of all tasks or of the one that the user chooses', async () => {
    const view = await aLog('== task 0 ==');
    const choice = makeTaskChoice(view, 2, ENGLISH).node.querySelector('select') as HTMLSelectElement;
    expect(Array.from(choice.options, option => option.text)).toEqual(['All tasks', 'Task 0', 'Task 1']);
    training.server.answer('GET jobs/job-1/log', 'rank 1\n');
    choice.value = '1';
    choice.dispatchEvent(new Event('change'));
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(texts().at(-1)).toBe('GET jobs/job-1/log?task=1');
    expect(view.node.textContent).toContain('rank 1');
    choice.value = '';
    choice.dispatchEvent(new Event('change'));
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(texts().at(-1)).toBe('GET jobs/job-1/log');
    view.dispose();
  });

  it('is fetched once for a burst of events, and not for the events of other jobs', async () => {
    const view = await aLog();
    const before = asked();
    training.outputArrived.emit({ job: 'job-1', last_seq: 1 });
    training.jobChanged.emit(aJob());
    training.resumed.emit();
    training.jobChanged.emit(aJob({ id: 'job-2' }));
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(asked()).toBe(before + 1);
    training.outputArrived.emit({ job: 'job-2', last_seq: 1 });
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(asked()).toBe(before + 1);
    view.dispose();
  });

  it('is fetched every few seconds while the job runs and the service answers', async () => {
    const view = await aLog();
    const before = asked();
    await jest.advanceTimersByTimeAsync(11 * SECOND);
    expect(asked()).toBe(before + 2);
    training.state = { ...training.state, available: false };
    await jest.advanceTimersByTimeAsync(60 * SECOND);
    expect(asked()).toBe(before + 2);
    training.state = { ...training.state, available: true };
    await jest.advanceTimersByTimeAsync(6 * SECOND);
    expect(asked()).toBe(before + 3);
    training.state = { ...training.state, jobs: [aJob({ phase: 'done', finished_at: 2000 })] };
    await jest.advanceTimersByTimeAsync(60 * SECOND);
    expect(asked()).toBe(before + 3);
    view.dispose();
  });

  it('is not fetched while nobody sees it, and at once when it is shown again', async () => {
    const view = await aLog();
    const before = asked();
    view.hide();
    training.outputArrived.emit({ job: 'job-1', last_seq: 1 });
    await jest.advanceTimersByTimeAsync(60 * SECOND);
    expect(asked()).toBe(before);
    view.show();
    await jest.advanceTimersByTimeAsync(0);
    expect(asked()).toBe(before + 1);
    setVisibility('hidden');
    await jest.advanceTimersByTimeAsync(60 * SECOND);
    expect(asked()).toBe(before + 1);
    view.dispose();
  });

  it.each([
    ['follows its end', 460, 1000],
    ['stays where the user has scrolled to', 200, 200]
  ])('%s', async (_, from, to) => {
    const view = await aLog();
    Object.defineProperties(view.node, { scrollHeight: { value: 1000 }, clientHeight: { value: 520 } });
    view.node.scrollTop = from;
    await view.refresh();
    expect(view.node.scrollTop).toBe(to);
    view.dispose();
  });
});

describe('the size of a log', () => {
  const MIB = 1024 * 1024;

  it('is in sight in a view that follows the end', async () => {
    const view = await aLog();
    training.server.answer('GET jobs/job-1/log/size', aLogSize(12 * MIB));
    const measure = (): number => view.node.textContent?.length ?? 0;
    Object.defineProperty(view.node, 'scrollHeight', { get: measure });
    await view.refresh();
    expect(view.node.textContent).toContain('of 13 MB are shown.');
    expect(view.node.scrollTop).toBe(measure());
    view.dispose();
  });

  it('is told beside its end', async () => {
    const view = await aLog('x'.repeat(64 * 1024));
    expect(view.node.textContent).not.toContain('The last');
    training.server.answer('GET jobs/job-1/log/size', aLogSize(12 * MIB));
    await view.refresh();
    expect(view.node.textContent).toContain('The last 66 kB of 13 MB are shown.');
    training.server.answer('GET jobs/job-1/log/size', {
      ...aLogSize(12 * MIB),
      complete: false,
      note: 'The first 3 MiB are dropped.'
    });
    await view.refresh();
    expect(view.node.textContent).toContain('of 13 MB are shown. The first 3 MiB are dropped.');
    view.dispose();
  });

  it('is not needed to show its end', async () => {
    const view = await aLog('epoch 1\n');
    training.server.answer('GET jobs/job-1/log/size', { code: 'not_found', message: 'No such path.' }, 404);
    await view.refresh();
    expect(view.node.textContent).toContain('epoch 1');
    expect(view.node.textContent).not.toContain('No such path.');
    view.dispose();
  });
});

describe('the search in a log', () => {
  const LINES = 'GET jobs/job-1/log/lines';
  const line = (number: number): object => ({ line: number, text: `loss ${number}` });

  /** Type a text into the search field of a view, and press Enter. */
  async function searchFor(view: LogView, text: string): Promise<void> {
    const field = makeLogSearch(view, ENGLISH).node.querySelector('input') as HTMLInputElement;
    field.value = text;
    field.dispatchEvent(new Event('input'));
    field.dispatchEvent(new Event('change'));
    await jest.advanceTimersByTimeAsync(SECOND);
  }

  it('shows the lines with a text and their numbers, until the field is empty', async () => {
    const view = await aLog('the end');
    training.server.answer(LINES, { task: 0, lines: [line(3), line(70)], next: null, next_line: 99 });
    await searchFor(view, 'loss: a&b');
    expect(training.server.asked.at(-1)).toBe(`${LINES}?contains=loss%3A+a%26b&task=0&start=0&line=1`);
    expect(view.node.textContent).toContain('3: loss 3\n70: loss 70');
    expect(view.node.textContent).toContain('2 lines have “loss: a&b” in them.');
    expect(view.node.textContent).not.toContain('the end');
    const before = asked();
    training.outputArrived.emit({ job: 'job-1', last_seq: 1 });
    await jest.advanceTimersByTimeAsync(10 * SECOND);
    expect(asked()).toBe(before);
    await searchFor(view, '');
    expect(view.node.textContent).toContain('the end');
    expect(view.node.textContent).not.toContain('loss 70');
    view.dispose();
  });

  it('goes on part by part, and waits for the user after some hundred lines', async () => {
    const view = await aLog('the end');
    const lines = Array.from({ length: 300 }, (_, number) => line(number + 1));
    training.server.answer(LINES, { task: 0, lines, next: 4096, next_line: 301 });
    await searchFor(view, 'loss');
    const button = view.node.querySelector('button') as HTMLButtonElement;
    expect(training.server.asked.slice(-2)).toEqual([
      `${LINES}?contains=loss&task=0&start=0&line=1`,
      `${LINES}?contains=loss&task=0&start=4096&line=301`
    ]);
    expect(view.node.textContent).toContain('600 lines have “loss” in them. There may be more.');
    expect(button.classList.contains('lm-mod-hidden')).toBe(false);
    training.server.answer(LINES, { task: 0, lines: [line(999)], next: null, next_line: 1000 });
    button.click();
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(view.node.textContent).toContain('601 lines have “loss” in them.Search on');
    expect(button.classList.contains('lm-mod-hidden')).toBe(true);
    view.dispose();
  });

  it('names the task of each line, and looks through one task if the user has chosen it', async () => {
    const view = await aLog('the end');
    training.server.answer('GET jobs/job-1/log/size', aLogSize(10, 2));
    training.server.answer(LINES, { task: 0, lines: [line(3)], next: null, next_line: 9 });
    await searchFor(view, 'loss');
    expect(view.node.textContent).toContain('0:3: loss 3\n1:3: loss 3');
    await view.showTask(1);
    expect(training.server.asked.at(-1)).toBe(`${LINES}?contains=loss&task=1&start=0&line=1`);
    expect(view.node.textContent).toContain('1 line has “loss” in it.');
    view.dispose();
  });

  it('says that there is none, or why it failed', async () => {
    const view = await aLog('the end');
    training.server.answer(LINES, { task: 0, lines: [], next: null, next_line: 9 });
    await searchFor(view, 'nan');
    expect(view.node.textContent).toContain('No line of the log has “nan” in it.');
    training.server.answer(LINES, { code: 'not_found', message: 'No such job.' }, 404);
    await searchFor(view, 'inf');
    expect(view.node.textContent).toContain('The log could not be searched. No such job.');
    view.dispose();
  });
});

describe('the download of a log', () => {
  it('is that of all tasks or of the one that is shown', async () => {
    const urls: string[] = [];
    const click = jest.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
      this: HTMLAnchorElement
    ) {
      urls.push(this.href);
    });
    const view = await aLog('the end');
    const button = makeLogDownload(view, training.client, ENGLISH);
    Widget.attach(button, document.body);
    await jest.advanceTimersByTimeAsync(SECOND);
    const press = (): void => (button.node.querySelector('jp-button, button') as HTMLElement).click();
    press();
    await view.showTask(1);
    press();
    const base = 'http://localhost:8888/user/ann/jupyter-gq/jobs/job-1/log/file';
    expect(urls).toEqual([base, `${base}?task=1`]);
    click.mockRestore();
    button.dispose();
    view.dispose();
  });
});

describe('the clock of a log', () => {
  it('stands while the log is hidden', async () => {
    const view = await aLog();
    expect(jest.getTimerCount()).toBe(1);
    view.hide();
    expect(jest.getTimerCount()).toBe(0);
    view.dispose();
  });

  it('is only one, however often the log is moved on the page', async () => {
    const view = await aLog();
    Widget.detach(view);
    Widget.attach(view, document.body);
    await jest.advanceTimersByTimeAsync(0); // the log is fetched again
    expect(jest.getTimerCount()).toBe(1);
    view.dispose();
  });
});

describe('a log that is disposed', () => {
  it('leaves no connection and no timer behind', async () => {
    const view = await aLog();
    expect(sumConnections(training.connections)).toBe(4);
    training.outputArrived.emit({ job: 'job-1', last_seq: 1 });
    view.dispose();
    view.dispose();
    const before = asked();
    await jest.advanceTimersByTimeAsync(60 * SECOND);
    expect([sumConnections(training.connections), jest.getTimerCount(), asked()]).toEqual([0, 0, before]);
  });

  it('is left alone by an answer that was under way', async () => {
    const view = await aLog('old\n');
    training.server.answer('GET jobs/job-1/log', 'new\n');
    training.server.hold();
    const refreshed = view.refresh();
    view.dispose();
    training.server.release();
    await refreshed;
    expect(view.node.textContent).not.toContain('new');
  });
});
