import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';

import { LOG_MIME, LogView, makeTaskChoice } from '../panel/log';
import { ENGLISH, aJob } from './builders';
import { FakeTraining, setVisibility, sumConnections } from './fakes';

const SECOND = 1000;

let training: FakeTraining;

/** The log of job-1 on the page. */
async function aLog(text = 'epoch 1\n'): Promise<LogView> {
  training.server.answer('GET jobs/job-1/log', text);
  const registry = new RenderMimeRegistry({ initialFactories: standardRendererFactories });
  const view = new LogView('job-1', training, registry.createRenderer(LOG_MIME), ENGLISH);
  Widget.attach(view, document.body);
  await jest.advanceTimersByTimeAsync(SECOND);
  return view;
}

const asked = (): number => training.server.asked.length;

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

  it('is that of all tasks or of the one that the user chooses', async () => {
    const view = await aLog('== task 0 ==');
    const choice = makeTaskChoice(view, 2, ENGLISH).node.querySelector('select') as HTMLSelectElement;
    expect(Array.from(choice.options, option => option.text)).toEqual(['All tasks', 'Task 0', 'Task 1']);
    training.server.answer('GET jobs/job-1/log', 'rank 1\n');
    choice.value = '1';
    choice.dispatchEvent(new Event('change'));
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(training.server.asked.at(-1)).toBe('GET jobs/job-1/log?task=1');
    expect(view.node.textContent).toContain('rank 1');
    choice.value = '';
    choice.dispatchEvent(new Event('change'));
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(training.server.asked.at(-1)).toBe('GET jobs/job-1/log');
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

  it('is fetched every few seconds while the job runs, and no more when it is over', async () => {
    const view = await aLog();
    const before = asked();
    await jest.advanceTimersByTimeAsync(11 * SECOND);
    expect(asked()).toBe(before + 2);
    training.state = { ...training.state, jobs: [aJob({ phase: 'done', finished_at: 2000 })] };
    await jest.advanceTimersByTimeAsync(60 * SECOND);
    expect(asked()).toBe(before + 2);
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
    expect(sumConnections(training.connections)).toBe(3);
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
