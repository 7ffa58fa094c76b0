import { Notification } from '@jupyterlab/apputils';

import { PanelWidget } from '../panel/widget';
import { selection } from '../plugins/selection';
import { CommandIDs } from '../tokens';
import type { JobView } from '../wire';
import { ENGLISH, aJob, aQueue } from './builders';
import { FakeApp, FakeTraining, NOTHING_LOADED } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { all, attach, button, clearScreen, draw, enter, perform, press, words } from './screen';

let app: FakeApp;
let training: FakeTraining;
let panel: PanelWidget;

beforeEach(async () => {
  app = new FakeApp();
  training = new FakeTraining();
  await selection.activate(app.frontEnd, training, null);
  panel = await attach(new PanelWidget(training, NOTHING_LOADED, app.commands, ENGLISH));
});
afterEach(async () => {
  panel.dispose();
  await selection.deactivate?.(app.frontEnd);
  clearScreen();
});

async function list(...jobs: JobView[]): Promise<void> {
  training.state = { ...training.state, jobs };
  await draw(panel);
}

const someJobs = (count: number): JobView[] =>
  Array.from({ length: count }, (_, index) =>
    aJob({ id: `job-${index}`, name: `run ${index}`, phase: 'waiting', position: index + 1 })
  );

const rows = (): string[] => all('[data-job]').map(row => row.dataset.job ?? '');
const box = (name: string): HTMLElement => all(`[aria-label="Choose ${name}"]`)[0];
const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);

async function choose(...names: string[]): Promise<void> {
  for (const name of names) {
    await perform(() => box(name).click());
  }
}

describe('a long list of jobs', () => {
  it('is drawn in parts', async () => {
    await list(...someJobs(1000));
    expect(rows()).toHaveLength(40);
    await press('Show 40 more jobs');
    expect(rows()).toHaveLength(80);
  });

  it('is searched and filtered, and starts over then', async () => {
    await list(...someJobs(1000), aJob({ id: 'other', queue: 'nlp', phase: 'done' }));
    await press('Show 40 more jobs');
    await enter(document.querySelector('[aria-label="Search jobs"]'), 'run 998');
    expect(rows()).toEqual(['job-998']);
    await enter(document.querySelector('[aria-label="Search jobs"]'), '');
    expect(rows()).toHaveLength(40);
    await enter(document.querySelector('[aria-label="Queue"]'), 'nlp');
    expect(rows()).toEqual(['other']);
    await enter(document.querySelector('[aria-label="State"]'), 'failed');
    expect(words(panel.node)).toContain('No job matches.');
    await press('Show all jobs');
    expect(rows()).toHaveLength(40);
  });

  it('has filters, of which each can restrict something', async () => {
    const labels = (): (string | null)[] =>
      all('.jp-gq-filters select').map(choice => choice.getAttribute('aria-label'));
    await list(...someJobs(5));
    expect(labels()).toEqual([]);
    await list(...someJobs(6));
    expect(labels()).toEqual(['State', 'Sort by']);
    await list(...someJobs(6), aJob({ id: 'other', queue: 'nlp', group: 'grid' }));
    expect(labels()).toEqual(['State', 'Queue', 'Sweep', 'Sort by']);
    await enter(document.querySelector('[aria-label="Queue"]'), 'nlp');
    await list(aJob({ id: 'other', queue: 'nlp' }));
    expect(labels()).toContain('Queue');
  });

  it('has filters that say on hover what may be cut', async () => {
    const path = 'a/long/way/to/digits.ipynb';
    await list(...someJobs(6), aJob({ id: 'other', notebook_path: path }));
    const titles = (): string[] => all('.jp-gq-filters select').map(choice => choice.title);
    expect(titles()).toEqual(['State', 'Notebook', 'Sort by']);
    await enter(document.querySelector('[aria-label="Notebook"]'), path);
    await enter(document.querySelector('[aria-label="State"]'), 'active');
    expect(titles()).toEqual(['State: Not ended', `Notebook: ${path}`, 'Sort by']);
  });

  it('names the sweeps by which it can be filtered, and not their ids', async () => {
    const swept = [1, 2].map(rate =>
      aJob({ id: `swept-${rate}`, name: `rates rate=${rate}`, group: 'sweep-5ceab755' })
    );
    await list(...someJobs(6), ...swept);
    expect(all('[aria-label="Sweep"] option').map(words)).toEqual(['All sweeps', 'rates']);
    await enter(document.querySelector('[aria-label="Sweep"]'), 'sweep-5ceab755');
    expect(rows()).toEqual(['swept-1', 'swept-2']);
  });

  it('tells sweeps of one name apart by the time when they were sent', async () => {
    const times = { 'sweep-1': 1000, 'sweep-2': 1007 };
    const swept = Object.entries(times).flatMap(([group, sent]) =>
      [1, 2].map(rate =>
        aJob({ id: `${group}-${rate}`, name: `rates rate=${rate}`, group, submitted_at: sent + rate })
      )
    );
    await list(...someJobs(6), ...swept, aJob({ id: 'other', name: 'tune x=1', group: 'sweep-3' }));
    const options = all('[aria-label="Sweep"] option').map(words);
    const time = (seconds: number): string => new Date(seconds * 1000).toLocaleString();
    expect(options).toEqual([
      'All sweeps',
      `rates, sent ${time(1001)}`,
      `rates, sent ${time(1008)}`,
      'tune x=1'
    ]);
  });

  it('reaches to the job that is shown', async () => {
    await list(...someJobs(100));
    panel.reveal('job-90');
    await draw(panel);
    expect(rows()).toContain('job-90');
  });

  it('is fetched as a whole when somebody looks at it, once', async () => {
    jest.useFakeTimers();
    training.set({ jobs: someJobs(50), next: 'job-49' });
    await perform(() => jest.advanceTimersByTimeAsync(100));
    expect(training.fills).toBe(1);
    training.set({ next: null });
    await perform(() => jest.advanceTimersByTimeAsync(100));
    expect(training.fills).toBe(1);
    jest.useRealTimers();
  });

  it('has a notebook in each row', async () => {
    await list(aJob({ notebook_path: 'work/cats.ipynb' }));
    expect(words(document.querySelector('.jp-gq-row-sentence'))).toMatch(/^cats\.ipynb/);
  });
});

describe('several jobs', () => {
  it('are cancelled at once after a question, and who is refused is said', async () => {
    training.server.answer('POST cancel', {
      jobs: [aJob({ id: 'job-0', phase: 'cancelled' })],
      refused: [{ job: 'job-2', code: 'conflict', message: 'The job is done already.' }]
    });
    await list(...someJobs(4));
    await choose('run 0', 'run 2');
    await press('Cancel 2 chosen jobs');
    expect(words(document.querySelector('.jp-Dialog'))).toContain('Cancel 2 jobs?');
    await press('Cancel jobs');
    expect(training.server.bodies).toEqual([{ jobs: ['job-0', 'job-2'] }]);
    expect(training.state.jobs.find(job => job.id === 'job-0')?.phase).toBe('cancelled');
    expect(told()).toEqual(['1 of 2 jobs were refused. The job is done already.']);
  });

  it('are only those that the list shows', async () => {
    await list(...someJobs(6));
    await choose('run 0', 'run 2');
    await enter(document.querySelector('[aria-label="Search jobs"]'), 'run 2');
    await enter(document.querySelector('[aria-label="Search jobs"]'), 'run');
    expect(words(document.querySelector('[aria-label="Chosen jobs"]'))).toContain('2 chosen');
    await list(...someJobs(6).map(job => (job.id === 'job-0' ? { ...job, phase: 'done' as const } : job)));
    expect(words(document.querySelector('[aria-label="Chosen jobs"]'))).toContain('1 chosen');
    expect(box('run 0')).toBeUndefined();
  });

  it('can all be chosen, and none', async () => {
    await list(...someJobs(60));
    await tick('Choose all 60 listed jobs that have not ended');
    expect(button('Cancel 60 chosen jobs')).not.toBeNull();
    await tick('Choose all 60 listed jobs that have not ended');
    expect(words(document.querySelector('[aria-label="Chosen jobs"]'))).toBe('Choose all 60');
  });

  it('are held and released, each as far as that applies', async () => {
    const [first, second] = someJobs(2);
    training.server.answer('PATCH jobs/job-0', { ...first, held_since: 5 });
    training.server.answer('PATCH jobs/job-1', { ...second, held_since: null });
    await list(first, { ...second, held_since: 4 });
    await choose('run 0', 'run 1');
    await press('Hold 1 chosen job');
    await press('Release 1 chosen job');
    expect(training.server.asked).toEqual(['PATCH jobs/job-0', 'PATCH jobs/job-1']);
    expect(training.server.bodies).toEqual([{ held: true }, { held: false }]);
  });

  it('are moved to another queue of the user', async () => {
    training.state = {
      ...training.state,
      queues: [aQueue(), aQueue({ name: 'nlp' }), aQueue({ name: 'x', member: false })]
    };
    const jobs = someJobs(2);
    jobs.forEach(job => training.server.answer(`PATCH jobs/${job.id}`, { ...job, queue: 'nlp' }));
    await list(...jobs);
    await choose('run 0', 'run 1');
    await press('Move… 2 chosen jobs');
    expect(all('.jp-Dialog option').map(words)).toEqual(['nlp']);
    await press('Move');
    expect(training.server.bodies).toEqual([{ queue: 'nlp' }, { queue: 'nlp' }]);
    expect(training.state.jobs.map(job => job.queue)).toEqual(['nlp', 'nlp']);
  });
});

describe('a move', () => {
  const label = (): string => document.querySelector('.jp-Dialog label')?.textContent ?? '';
  const queues = [aQueue(), aQueue({ name: 'nlp' }), aQueue({ name: 'big', pool: 'h100' })];

  it('to another pool is told before, with the name of the queue and of its pool', async () => {
    training.state = { ...training.state, queues };
    await list(...someJobs(1));
    await perform(() => void app.commands.execute(CommandIDs.moveJobs, { jobs: ['job-0'] }));
    expect(label()).toBe('Queue. In another pool, with other GPUs: big (pool h100)');
    await press('Cancel');
  });

  it('to another pool ends a suspended run, which is said as well', async () => {
    training.state = { ...training.state, queues };
    const pause = { way: 'suspended', sentence: 'As the service says.' } as const;
    await list(aJob({ id: 'job-0', phase: 'paused', pause }));
    await perform(() => void app.commands.execute(CommandIDs.moveJobs, { jobs: ['job-0'] }));
    expect(label()).toMatch(
      /big \(pool h100\)\. There, a suspended run ends: what it has not saved is computed again$/
    );
    await press('Cancel');
  });

  it('in the same pool has no warning', async () => {
    training.state = { ...training.state, queues: queues.slice(0, 2) };
    await list(...someJobs(1));
    await perform(() => void app.commands.execute(CommandIDs.moveJobs, { jobs: ['job-0'] }));
    expect(label()).toBe('Queue');
    await press('Cancel');
  });
});

describe('the GPUs and tasks of a job', () => {
  const field = (id: string): HTMLInputElement | null =>
    document.querySelector(`.jp-Dialog #jp-gq-send-${id}`);
  const ask = (job: string): Promise<void> =>
    perform(() => void app.commands.execute(CommandIDs.changeGpus, { job }));

  it('are asked for until they are accepted or the user gives up: a refusal loses nothing', async () => {
    const problem = { code: 'invalid_amount', message: 'That is no amount.', field: 'gpus' };
    training.server.answer('PATCH jobs/job-0', problem, 422);
    await list(...someJobs(1));
    await ask('job-0');
    expect(['gpus', 'tasks', 'min_tasks'].map(id => field(id)?.value)).toEqual(['1', '1', '']);
    await enter(field('gpus'), 'many');
    await press('Change');
    expect(training.server.bodies).toEqual([{ gpus: 'many' }]);
    expect(all('.jp-Dialog [role=alert]').map(words)).toEqual(['That is no amount.']);
    expect(field('gpus')?.value).toBe('many');
    training.server.answer('PATCH jobs/job-0', { ...problem, message: 'Not now.', field: null }, 409);
    await enter(field('gpus'), '0.5');
    expect(all('.jp-Dialog [role=alert]')).toEqual([]);
    await press('Change');
    expect(all('.jp-Dialog [role=alert]').map(words)).toEqual(['Not now.']);
    await press('Cancel');
    expect(all('.jp-Dialog')).toEqual([]);
  });

  it('are GPU memory if the text has a unit', async () => {
    training.server.answer('PATCH jobs/job-0', aJob({ id: 'job-0', gpu_memory: '8 GiB' }));
    await list(aJob({ id: 'job-0', phase: 'waiting', gpus: '0.3', gpu_memory: '12 GiB' }));
    await ask('job-0');
    expect(field('gpus')?.value).toBe('12 GiB');
    await enter(field('gpus'), ' 8 GB ');
    await press('Change');
    expect(training.server.bodies).toEqual([{ gpu_memory: '8 GB' }]);
  });

  it('are numbers of tasks, both of which are asked for', async () => {
    training.server.answer(
      'PATCH jobs/job-0',
      aJob({ id: 'job-0', phase: 'waiting', tasks: 4, min_tasks: 2 })
    );
    await list(aJob({ id: 'job-0', phase: 'waiting', tasks: 2 }));
    await ask('job-0');
    await enter(field('tasks'), '4');
    await enter(field('min_tasks'), '2');
    await press('Change');
    expect(training.server.bodies).toEqual([{ tasks: 4, min_tasks: 2 }]);
    await ask('job-0');
    expect(['tasks', 'min_tasks'].map(id => field(id)?.value)).toEqual(['4', '2']);
    await enter(field('min_tasks'), '');
    await press('Change');
    expect(training.server.bodies.slice(1)).toEqual([{ tasks: 4, min_tasks: 4 }]);
  });

  it('are not sent if the number of GPUs is missing, which is said', async () => {
    await list(aJob({ id: 'job-0', phase: 'waiting', tasks: 2 }));
    await ask('job-0');
    await enter(field('gpus'), ' ');
    await press('Change');
    expect(all('.jp-Dialog [role=alert]').map(words)).toEqual([
      'Write a number of GPUs, such as 0, 0.25 or 1, or GPU memory such as 12 GiB.'
    ]);
    expect(training.server.bodies).toEqual([]);
    await press('Cancel');
  });

  it('are not sent if nothing has changed, or if a text is no number of tasks', async () => {
    await list(aJob({ id: 'job-0', phase: 'waiting', tasks: 2 }));
    await ask('job-0');
    await press('Change');
    await ask('job-0');
    await enter(field('min_tasks'), '3');
    expect(words(document.querySelector('.jp-Dialog [role=alert]'))).toContain('from 1 to 2');
    await press('Change');
    expect(field('min_tasks')?.value).toBe('3');
    expect(training.server.bodies).toEqual([]);
    await press('Cancel');
  });

  it('stand beside the priority, which the service may refuse as well', async () => {
    const problem = { code: 'priority_too_high', message: 'The highest is 5.', field: 'priority' };
    training.server.answer('PATCH jobs/job-0', problem, 403);
    training.state = { ...training.state, queues: [aQueue({ max_priority: 10 })] };
    await list(...someJobs(1));
    await ask('job-0');
    expect(field('priority')?.value).toBe('0');
    expect(words(document.querySelector('#jp-gq-send-priority-hint'))).toContain('at most 10');
    await enter(field('priority'), '11');
    expect(all('.jp-Dialog [role=alert]').map(words)).toEqual([
      'Write a whole number from -100 to 10, the highest priority that you may give in vision.'
    ]);
    await enter(field('priority'), '7');
    await press('Change');
    expect(training.server.bodies).toEqual([{ priority: 7 }]);
    const refused = field('priority')?.closest('.jp-gq-field');
    expect(words(refused?.querySelector('[role=alert]'))).toBe('The highest is 5.');
    training.server.answer('PATCH jobs/job-0', aJob({ id: 'job-0', phase: 'waiting', priority: 5 }));
    await enter(field('priority'), '5');
    await press('Change');
    expect(all('.jp-Dialog')).toEqual([]);
    expect(training.state.jobs[0].priority).toBe(5);
  });

  it('leave a priority alone that is higher than the user may give', async () => {
    const job = aJob({ id: 'job-0', phase: 'waiting', priority: 50 });
    training.server.answer('PATCH jobs/job-0', { ...job, gpus: '0.5' });
    await list(job);
    await ask('job-0');
    await enter(field('gpus'), '0.5');
    await press('Change');
    await ask('job-0');
    await enter(field('priority'), '');
    await press('Change');
    expect(training.server.bodies).toEqual([{ gpus: '0.5' }, { priority: 0 }]);
  });

  it('stand beside the maximum time, which a running job may change as well', async () => {
    training.server.answer('PATCH jobs/job-0', aJob({ id: 'job-0', phase: 'running', max_seconds: 9000 }));
    await list(aJob({ id: 'job-0', phase: 'running', max_seconds: 3600 }));
    await ask('job-0');
    expect([field('gpus'), field('tasks'), field('max_seconds')?.value]).toEqual([null, null, '1 h']);
    await enter(field('max_seconds'), 'soon');
    expect(words(document.querySelector('.jp-Dialog [role=alert]'))).toContain(
      '“soon” is not a length of time.'
    );
    await press('Change');
    await enter(field('max_seconds'), '2 h 30 min');
    await press('Change');
    await ask('job-0');
    expect(field('max_seconds')?.value).toBe('2 h 30 min');
    await enter(field('max_seconds'), '');
    await press('Change');
    expect(training.server.bodies).toEqual([{ max_seconds: 9000 }, { max_seconds: 0 }]);
  });

  it('end the suspended run of a paused job, which is said before', async () => {
    const body = (): string => words(document.querySelector('.jp-Dialog-body'));
    const pause = { way: 'suspended', sentence: 'As the service says.' } as const;
    await list(aJob({ id: 'job-0', phase: 'paused', pause }), aJob({ id: 'job-1', phase: 'paused' }));
    await ask('job-0');
    expect(body()).toMatch(
      /Other GPUs or tasks end its suspended run: what it has not saved is computed again\.$/
    );
    await press('Cancel');
    await ask('job-1');
    expect(body()).not.toContain('suspended');
    await press('Cancel');
  });

  it('and its queue change in an unfolded row while it waits only', async () => {
    await list(aJob({ id: 'a', phase: 'running' }), aJob({ id: 'b', phase: 'waiting' }));
    panel.reveal('a');
    panel.reveal('b');
    await draw(panel);
    const offered = (id: string): string[] => all('button', all(`[data-job=${id}]`)[0]).map(words);
    expect(offered('a')).not.toContain('Move…');
    expect(offered('a')).toContain('Change…');
    expect(offered('b')).toEqual(expect.arrayContaining(['Move…', 'Change…']));
  });

  it('stay in their queue if there is no other one, which the button says', async () => {
    const move = (): HTMLButtonElement => button('Move… run 0');
    await list(...someJobs(2));
    panel.reveal('job-0');
    await choose('run 0');
    await draw(panel);
    expect([move().disabled, move().title]).toEqual([true, 'There is no other queue that you may use.']);
    expect(all('[aria-label="Move… 1 chosen job"]')).toEqual([]);
    training.state = { ...training.state, queues: [aQueue(), aQueue({ name: 'nlp' })] };
    await draw(panel);
    expect(move().disabled).toBe(false);
    expect(all('[aria-label="Move… 1 chosen job"]')).toHaveLength(1);
  });
});

/** Tick or clear the box with this label. */
async function tick(label: string): Promise<void> {
  await perform(() => all(`[aria-label="${label}"]`)[0].click());
}

it('jobs that are cancelled from the table of a sweep give the focus to the notebook', async () => {
  await selection.deactivate?.(app.frontEnd);
  const tracker = new FakeTracker();
  await selection.activate(app.frontEnd, training, tracker.tracker);
  const notebook = tracker.open(new FakePanel());
  document.body.append(notebook.node);
  const line = notebook.node.appendChild(document.createElement('div'));
  line.className = 'jp-gq-status-host';
  line.appendChild(document.createElement('button')).focus();
  await perform(() => void app.commands.execute(CommandIDs.cancelJobs, { jobs: ['job-1'] }));
  await press('Cancel jobs');
  expect(document.activeElement).toBe(notebook.content.node);
  notebook.close();
});
