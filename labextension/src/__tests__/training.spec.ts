import { cancelAll, changeJob } from '../acts';
import type { JobView } from '../wire';
import { ENGLISH, aJob, aSummary, aMe, aNotebook, aQueue, aStatus } from './builders';
import { FakeServer, ListenerCount, setVisibility } from './fakes';
import type { Page } from './livepage';
import { opened, SECOND, useFakePages } from './livepage';

const MINUTE = 60 * SECOND;

useFakePages();

describe('the live view', () => {
  it('fetches every list at the start', async () => {
    const server = new FakeServer();
    server.answer('GET status', aStatus({ server: 'gpu' }));
    server.answer('GET jobs', { jobs: [aJob()], next: 'job-1' });
    server.answer('GET notebooks', { notebooks: [aNotebook({ server: 'gpu' })] });
    server.answer('GET me', aMe({ queues: [aQueue({ name: 'nlp' })] }));
    const { live, changed } = await opened(server);
    expect([live.state.available, live.state.loaded, live.state.next]).toEqual([true, true, 'job-1']);
    expect(live.state.jobs.map(job => job.id)).toEqual(['job-1']);
    expect(live.state.queues.map(queue => queue.name)).toEqual(['nlp']);
    expect(live.notebookHere?.server).toBe('gpu');
    expect(changed).toEqual(['job-1']);
  });

  it('changes with events, without another request', async () => {
    const page = await opened();
    const before = page.server.asked.length;
    page.send('job', aJob({ phase: 'waiting' }));
    page.send('notebook', aNotebook());
    expect(page.live.state.jobs[0].phase).toBe('waiting');
    expect(page.live.state.notebooks).toHaveLength(1);
    expect(page.changed).toEqual(['job-1']);
    expect(page.server.asked).toHaveLength(before);
  });

  it('has the present path of a notebook in all that it tells of its jobs, whatever is fetched', async () => {
    const page = await opened();
    page.server.answer('GET jobs/old', aJob({ id: 'old', phase: 'done', finished_at: 2000 }));
    ['job-1', 'old'].forEach(id => page.live.recordPath(id, 'moved/renamed.ipynb'));
    page.send('job', aJob());
    expect(page.live.state.jobs[0].notebook_path).toBe('moved/renamed.ipynb');
    page.server.answer('GET jobs', { jobs: [aJob({ last_seq: 9 })], next: null });
    await page.refresh();
    expect(page.live.state.jobs[0]).toMatchObject({ last_seq: 9, notebook_path: 'moved/renamed.ipynb' });
    expect((await page.live.findJob('old'))?.notebook_path).toBe('moved/renamed.ipynb');
  });

  it('tells of no change if a notebook is where it was', async () => {
    const page = await opened();
    page.send('job', aJob());
    const { state } = page.live;
    page.live.recordPath('job-1', 'digits.ipynb');
    expect(page.live.state).toBe(state);
  });

  it('never goes back to an earlier version of a job', async () => {
    const page = await opened();
    page.send('job', aJob({ phase: 'done', finished_at: 2000 }));
    page.live.recordJob(aJob({ phase: 'running' }));
    expect(page.live.state.jobs[0].phase).toBe('done');
  });

  it('knows of a job that was just sent what an event told before the answer came', async () => {
    const page = await opened();
    const first = { position: null, sentence: 'Waiting: it is considered next.' };
    page.send('job', aJob({ id: 'sent', phase: 'waiting', position: 1, sentence: 'Waiting: one is ahead.' }));
    page.live.recordSent(aJob({ id: 'sent', phase: 'waiting', ...first }));
    page.live.recordSent(aJob({ id: 'quick', phase: 'waiting', ...first }));
    const jobs = page.live.state.jobs.filter(({ id }) => ['sent', 'quick'].includes(id));
    expect(new Map(jobs.map(job => [job.id, job.position]))).toEqual(
      new Map([
        ['sent', 1],
        ['quick', null]
      ])
    );
  });

  it('tells that a job has more output', async () => {
    const page = await opened();
    const told: unknown[] = [];
    page.live.outputArrived.connect((_, notice) => told.push(notice));
    page.send('output', { job: 'job-1', last_seq: 7 });
    expect(told).toEqual([{ job: 'job-1', last_seq: 7 }]);
  });

  it('ignores the events of other extensions', async () => {
    const page = await opened();
    page.events.stream.emit({ schema_id: 'https://other.org/v1', kind: 'job', data: aJob() });
    expect(page.live.state.jobs).toEqual([]);
  });

  it('fetches the queues once for many events', async () => {
    const page = await opened();
    page.server.answer('GET queues', { queues: [aQueue({ used: '0.5' })] });
    page.send('queues');
    page.send('queues');
    await jest.advanceTimersByTimeAsync(3 * SECOND);
    expect(page.count('GET queues')).toBe(1);
    expect(page.live.state.queues[0].used).toBe('0.5');
  });

  it('does not fetch the queues for a page that nobody sees', async () => {
    const page = await opened();
    setVisibility('hidden');
    page.send('queues');
    await jest.advanceTimersByTimeAsync(3 * SECOND);
    expect(page.count('GET queues')).toBe(0);
  });

  it('keeps the queues that it knows if they cannot be fetched', async () => {
    const page = await opened();
    page.server.answer('GET queues', {}, 500);
    page.send('queues');
    await jest.advanceTimersByTimeAsync(3 * SECOND);
    expect(page.live.state.queues).toHaveLength(1);
  });

  it('looks for lost events once a minute', async () => {
    const page = await opened();
    await jest.advanceTimersByTimeAsync(50 * SECOND);
    expect(page.count('GET status')).toBe(1);
    await jest.advanceTimersByTimeAsync(MINUTE);
    expect(page.count('GET status')).toBe(2);
  });

  it('adds a page of older jobs, and none if there is none', async () => {
    const server = new FakeServer();
    server.answer('GET jobs', { jobs: [aJob({ id: 'b', submitted_at: 2 })], next: 'b' });
    const { live } = await opened(server);
    server.answer('GET jobs', { jobs: [aJob({ id: 'a', submitted_at: 1 })], next: null });
    await live.loadMore();
    await live.loadMore();
    expect(live.state.jobs.map(job => job.id)).toEqual(['b', 'a']);
    expect(server.asked.filter(asked => asked.includes('before='))).toEqual(['GET jobs?limit=50&before=b']);
  });
});

describe('a gap in the events', () => {
  it.each([
    ['a reset', (page: Page): void => page.send('reset')],
    ['a new connection', (page: Page): void => page.send('connection', { available: true, message: '' })],
    ['a page that is shown again', (): void => setVisibility('visible')]
  ])('after %s everything is fetched again, and listeners are told', async (_, cause) => {
    const page = await opened();
    page.server.answer('GET jobs', { jobs: [aJob({ phase: 'done', finished_at: 2000 })], next: null });
    cause(page);
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(page.live.state.jobs[0].phase).toBe('done');
    expect(page.resumed).toBe(1);
  });

  it('is told once, not again with each refresh', async () => {
    const page = await opened();
    page.send('reset');
    await jest.advanceTimersByTimeAsync(3 * MINUTE);
    expect(page.resumed).toBe(1);
  });
});

describe('an event while the lists are on their way', () => {
  /** Answer a refresh with these lists after the event. */
  async function refreshedAround(page: Page, lists: object, event: () => void): Promise<void> {
    Object.entries(lists).forEach(([route, body]) => page.server.answer(route, body as object));
    page.server.hold();
    const refreshed = page.live.refresh();
    await jest.advanceTimersByTimeAsync(SECOND);
    event();
    page.server.release();
    await jest.advanceTimersByTimeAsync(SECOND);
    await refreshed;
  }

  it.each<[JobView['phase'], JobView['phase']]>([
    ['running', 'done'],
    ['waiting', 'running']
  ])(
    'is newer: a job that was listed as %s and is %s does not go back for any listener',
    async (old, now) => {
      const page = await opened();
      page.send('job', aJob({ phase: old }));
      const phases: string[] = [];
      page.live.jobChanged.connect((_, job) => phases.push(job.phase));
      await refreshedAround(page, { 'GET jobs': { jobs: [aSummary({ phase: old })], next: null } }, () =>
        page.send('job', aJob({ phase: now }))
      );
      expect(phases).toEqual([now, now]);
      expect(page.live.state.jobs[0].phase).toBe(now);
    }
  );

  it('is newer: a notebook keeps its warning, and one that has stopped does not come back', async () => {
    const page = await opened();
    const [gpu, old] = [aNotebook({ id: 'gpu' }), aNotebook({ id: 'old' })];
    await refreshedAround(page, { 'GET notebooks': { notebooks: [gpu, old] } }, () => {
      page.send('notebook', { ...gpu, sentence: 'Idle: it ends soon.' });
      page.send('notebook', { ...old, phase: 'stopped' });
    });
    expect(page.live.state.notebooks.map(({ id, sentence }) => [id, sentence])).toEqual([
      ['gpu', 'Idle: it ends soon.']
    ]);
    await page.refresh();
    expect(page.live.state.notebooks).toHaveLength(2);
  });
});

describe('an event while an act on a job is on its way', () => {
  /** Let the page hear of a job after the server has made its answer, and before the answer is there. */
  async function heardAround(page: Page, request: () => Promise<unknown>, event: JobView): Promise<void> {
    page.server.hold();
    const answered = request();
    await jest.advanceTimersByTimeAsync(SECOND);
    page.send('job', event);
    page.server.release();
    await answered;
  }

  async function aPage(): Promise<Page> {
    const page = await opened();
    page.send('job', aJob({ phase: 'waiting' }));
    page.server.answer('PATCH jobs/job-1', aJob({ phase: 'waiting', held_since: 5 }));
    return page;
  }

  it('is newer than the answer', async () => {
    const page = await aPage();
    const hold = (): Promise<unknown> => changeJob(page.live, 'job-1', { held: true });
    await heardAround(page, hold, aJob({ phase: 'waiting', queue: 'nlp' }));
    expect(page.live.state.jobs.map(job => [job.queue, job.held_since])).toEqual([['nlp', null]]);
    await changeJob(page.live, 'job-1', { held: true });
    expect(page.live.state.jobs[0].held_since).toBe(5);
  });

  it('is newer only for the job that it is about', async () => {
    const page = await aPage();
    page.send('job', aJob({ id: 'job-2', phase: 'waiting' }));
    const jobs = ['job-1', 'job-2'].map(id => aJob({ id, phase: 'waiting', sentence: 'old' }));
    page.server.answer('POST cancel', { jobs, refused: [] });
    const cancel = (): Promise<unknown> => cancelAll(page.live, ['job-1', 'job-2'], ENGLISH);
    await heardAround(page, cancel, aJob({ phase: 'waiting', sentence: 'new' }));
    expect(Object.fromEntries(page.live.state.jobs.map(job => [job.id, job.sentence]))).toEqual({
      'job-1': 'new',
      'job-2': 'old'
    });
  });

  it('is newer than a page of older jobs', async () => {
    const server = new FakeServer();
    server.answer('GET status', aStatus());
    server.answer('GET jobs', { jobs: [aSummary({ phase: 'waiting', queue: 'old' })], next: 'job-1' });
    server.answer('GET notebooks', { notebooks: [] });
    server.answer('GET me', aMe());
    const page = await opened(server);
    await heardAround(page, () => page.live.loadMore(), aJob({ phase: 'waiting', queue: 'new' }));
    expect(page.live.state.jobs.map(({ queue }) => queue)).toEqual(['new']);
  });
});

describe('two answers about a job that overtake each other', () => {
  /** Begin to record two answers; return how each of them arrives. */
  function begun(page: Page): ((sentence: string) => Promise<void>)[] {
    page.send('job', aJob({ sentence: 'first' }));
    return [0, 1].map(() => {
      let arrive: (job: JobView) => void = () => undefined;
      void page.live.recordAnswer(new Promise<JobView>(resolve => (arrive = resolve)), job => [job]);
      return async (sentence: string) => {
        arrive(aJob({ sentence }));
        await jest.advanceTimersByTimeAsync(0);
      };
    });
  }

  it('leave the job as the later request found it, whatever comes first', async () => {
    const page = await opened();
    const told = (): string => page.live.state.jobs[0].sentence;
    const [older, newer] = begun(page);
    await older('older');
    expect(told()).toBe('older');
    await newer('newer');
    expect(told()).toBe('newer');
    const [late, early] = begun(page);
    await early('newer');
    await late('older');
    expect(told()).toBe('newer');
  });

  it('leave the job as a refresh found it that began after both', async () => {
    const page = await opened();
    const [older] = begun(page);
    page.server.answer('GET jobs', { jobs: [aSummary({ sentence: 'listed' })], next: null });
    await page.refresh();
    await older('older');
    expect(page.live.state.jobs[0].sentence).toBe('listed');
  });
});

describe('a service that is down', () => {
  it('leaves the lists as they were, and says why', async () => {
    const page = await opened();
    page.send('job', aJob());
    page.send('connection', { available: false, message: 'The GPU scheduler cannot be reached.' });
    expect(page.live.state.available).toBe(false);
    expect(page.live.state.message).toBe('The GPU scheduler cannot be reached.');
    expect(page.live.state.jobs).toHaveLength(1);
  });

  it('is asked again within seconds, and found when it is back', async () => {
    const page = await opened();
    page.server.answer('GET status', aStatus({ available: false, message: 'Restarting.' }));
    page.send('connection', { available: false, message: 'Gone.' });
    await jest.advanceTimersByTimeAsync(6 * SECOND);
    expect(page.count('GET status')).toBeGreaterThan(1);
    expect(page.live.state.message).toBe('Restarting.');
    page.server.answer('GET status', aStatus());
    await jest.advanceTimersByTimeAsync(MINUTE);
    expect(page.live.state.available).toBe(true);
    expect(page.resumed).toBe(1);
  });

  it('is said in words if the Jupyter server itself does not answer', async () => {
    const server = new FakeServer();
    server.isDown = true;
    const { live } = await opened(server);
    expect([live.state.available, live.state.loaded]).toEqual([false, false]);
    expect(live.state.message).toMatch(/does not answer/);
  });

  it('takes the server of the page out of the list if it is stopped, and no other one', async () => {
    const page = await opened();
    const names = (): string[] => page.live.state.notebooks.map(({ id }) => id);
    page.live.recordNotebook(aNotebook({ id: 'here', server: page.live.state.server }));
    page.live.recordNotebook(aNotebook({ id: 'elsewhere', server: 'big' }));
    const before = names();
    page.server.answer('GET jobs/job-1/outputs', '<html>424</html>', 424);
    await page.live.client.listOutputs('job-1', 0).catch(() => undefined);
    expect(page.live.state.message).toMatch(/^Your server is not running/);
    expect(page.live.notebookHere).toBeNull();
    expect([before.includes('elsewhere'), names()]).toEqual([true, ['elsewhere']]);
  });

  it('is said once any request finds that the user is logged out, and asked for until it is over', async () => {
    const page = await opened();
    const refused = { code: 'forbidden', message: 'Forbidden' };
    page.server.answer('GET status', refused, 403);
    page.server.answer('GET jobs/job-1/outputs', refused, 403);
    await page.live.client.listOutputs('job-1', 0).catch(() => undefined);
    expect([page.live.state.available, page.live.state.message]).toEqual([
      false,
      expect.stringContaining('You are logged out.')
    ]);
    const before = page.count('GET status');
    for (let second = 0; second < 60; second++) {
      await page.live.client.listOutputs('job-1', 0).catch(() => undefined);
      await jest.advanceTimersByTimeAsync(SECOND);
    }
    expect(page.count('GET status') - before).toBeGreaterThan(1); // failures do not put it off
    expect(page.count('GET status') - before).toBeLessThan(10);
    page.server.answer('GET status', aStatus());
    await jest.advanceTimersByTimeAsync(MINUTE);
    expect([page.live.state.available, page.resumed]).toEqual([true, 1]);
  });

  it('does not make a refresh by the user fail', async () => {
    const page = await opened();
    page.server.isDown = true;
    const refreshed = page.live.refresh();
    await jest.advanceTimersByTimeAsync(SECOND);
    await expect(refreshed).resolves.toBeUndefined();
    expect(page.live.state.available).toBe(false);
  });
});

describe('a live view that is disposed', () => {
  it('leaves no connection, no listener and no timer behind', async () => {
    const listeners = new ListenerCount();
    const page = await opened();
    page.send('queues');
    expect(page.connections.now + listeners.now).toBeGreaterThan(0);
    page.live.dispose();
    expect([page.connections.now, listeners.now, page.live.isDisposed]).toEqual([0, 0, true]);
    await jest.advanceTimersByTimeAsync(5 * MINUTE);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('asks for nothing any more', async () => {
    const page = await opened();
    page.send('queues');
    page.live.dispose();
    page.live.dispose();
    const before = page.server.asked.length;
    page.send('reset');
    setVisibility('visible');
    await jest.advanceTimersByTimeAsync(5 * MINUTE);
    expect(page.server.asked).toHaveLength(before);
  });

  it('tells nobody of an answer that was under way', async () => {
    const server = new FakeServer();
    const page = await opened(server);
    const states: unknown[] = [];
    page.live.stateChanged.connect((_, state) => states.push(state));
    server.hold();
    page.send('reset');
    await jest.advanceTimersByTimeAsync(SECOND);
    page.live.dispose();
    server.release();
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(states).toEqual([]);
  });
});
