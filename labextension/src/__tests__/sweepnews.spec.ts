/** What the user is told at the end of a sweep. */

import { Notification } from '@jupyterlab/apputils';

import { nameSweep } from '../attach/sweep';
import type { JobPhase } from '../jobs';
import { NewsFeed } from '../news';
import { notify } from '../plugins/notify';
import type { JobView } from '../wire';
import { ENGLISH, aJob, someResults } from './builders';
import { FakeApp, FakeTraining, settle } from './fakes';
import { clearScreen } from './screen';

let app: FakeApp;
let training: FakeTraining;
let feed: NewsFeed;

beforeEach(() => {
  jest.useFakeTimers({ now: 1_000_000 });
  app = new FakeApp();
  training = new FakeTraining();
  feed = new NewsFeed(training, ENGLISH);
});
afterEach(() => {
  feed.dispose();
  clearScreen();
  jest.useRealTimers();
});

const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);

describe('a sweep', () => {
  const swept = (at: number, phase: JobPhase): JobView =>
    aJob({ id: `job-${at}`, name: `digits lr=0.${at}`, group: 'sweep-1', phase, finished_at: 1120 });
  const [variable] = someResults('accuracy').variables;
  const result = (number: number): unknown => someResults('', { variables: [{ ...variable, number }] });

  const questions = (): string[] => training.server.asked.filter(asked => asked.startsWith('GET jobs?'));

  function serverKnows(...phases: JobPhase[]): void {
    training.server.answer('GET jobs', { jobs: phases.map((phase, at) => swept(at, phase)), next: null });
  }

  /** Let jobs run that end one after the other, each in its phase. */
  async function runs(...phases: JobPhase[]): Promise<void> {
    phases.forEach((_, at) => training.recordJob(swept(at, 'running')));
    for (const [at, phase] of phases.entries()) {
      training.recordJob(swept(at, phase));
      await settle();
    }
  }

  beforeEach(async () => {
    await notify.activate(app.frontEnd, feed, null);
  });
  afterEach(() => notify.deactivate?.(app.frontEnd));

  it('is told once when all of its jobs are over, with the best of them', async () => {
    serverKnows('done', 'done', 'failed');
    training.server.answer('GET jobs/job-0/results', result(0.9));
    training.server.answer('GET jobs/job-1/results', result(0.95));
    await runs('done', 'done', 'failed');
    expect(Notification.manager.notifications.map(({ type, message }) => [type, message])).toEqual([
      ['error', '“digits”: 3 jobs: 2 done, 1 failed. Best: accuracy 0.95 in “digits lr=0.1”.']
    ]);
  });

  it('is asked for once, for all who want to be told of it', async () => {
    const others: string[] = [];
    const other = feed.listen({
      isWanted: () => true,
      tell: ({ describe }) => void describe().then(text => others.push(text))
    });
    feed.listen({ isWanted: () => false, tell: () => others.push('not wanted') });
    feed.listen({
      isWanted: () => Promise.reject(new Error('no settings')),
      tell: () => others.push('cannot say')
    });
    serverKnows('done');
    training.server.answer('GET jobs/job-0/results', result(0.9));
    await runs('done');
    expect(others).toEqual(['1 job: 1 done. Best: accuracy 0.9 in “digits lr=0.0”.']);
    expect(told()).toEqual([`“digits lr=0.0”: ${others[0]}`]);
    expect(training.server.asked.map(asked => asked.split('?')[0])).toEqual([
      'GET jobs',
      'GET jobs/job-0/results'
    ]);
    other.dispose();
    training.recordJob(swept(0, 'running'));
    training.recordJob(swept(0, 'done'));
    await settle();
    expect([others.length, told().length]).toEqual([1, 2]);
  });

  it('is told without a best one if no job brings a number back', async () => {
    serverKnows('done', 'cancelled');
    await runs('done', 'cancelled');
    expect(told()).toEqual(['“digits”: 2 jobs: 1 done, 1 cancelled.']);
  });

  it('is not over while jobs run that this page does not know, and is told if it grew', async () => {
    serverKnows('done', 'done', 'running');
    await runs('done', 'done');
    expect(told()).toEqual([]);
    serverKnows('done', 'done', 'done');
    training.recordJob(swept(2, 'running'));
    training.recordJob(swept(2, 'done'));
    await settle();
    expect(told()).toEqual(['“digits”: 3 jobs: 3 done.']);
    serverKnows('done', 'done', 'done', 'failed');
    training.recordJob(swept(3, 'running'));
    training.recordJob(swept(3, 'failed'));
    await settle();
    expect(told()).toHaveLength(2);
  });

  it('is told once if the end of several jobs is heard of late', async () => {
    serverKnows('done', 'done', 'done');
    training.recordJob(swept(0, 'running'));
    [0, 1, 2].forEach(at => training.recordJob(swept(at, 'done')));
    await settle();
    expect(told()).toEqual(['“digits”: 3 jobs: 3 done.']);
  });

  it('is told once if it was sent from this page and most of its jobs still wait when the first ones end', async () => {
    const phases = Array<JobPhase>(60).fill('waiting');
    phases.forEach((phase, at) => training.recordSent(swept(at, phase)));
    for (const at of phases.keys()) {
      phases[at] = 'done';
      serverKnows(...phases);
      training.recordJob(swept(at, 'done'));
      await settle();
      expect(told()).toHaveLength(at === 59 ? 1 : 0);
    }
  });

  it('is asked for once while many of its jobs end, and once more for those that ended meanwhile', async () => {
    const end = (...ends: number[]): void => ends.forEach(at => training.recordJob(swept(at, 'done')));
    serverKnows('done', 'done', 'done', 'running');
    training.server.hold();
    training.recordJob(swept(0, 'running'));
    end(0, 1, 2);
    await settle();
    end(3, 4, 5);
    await settle();
    expect(questions()).toHaveLength(1);
    training.server.release();
    await settle();
    expect([questions().length, told()]).toEqual([2, []]);
  });

  it('is not told from what the page knows if the server cannot say, but later', async () => {
    training.server.answer('GET jobs', { code: 'service_unavailable', message: 'Later.' }, 503);
    await runs('done', 'done');
    expect(told()).toEqual([]);
    serverKnows('done', 'done', 'failed');
    training.recordJob(swept(1, 'done'));
    await settle();
    expect(told()).toEqual(['“digits”: 3 jobs: 2 done, 1 failed.']);
  });

  it('has no best job if not all that are done could be compared', async () => {
    serverKnows('done', 'done');
    training.server.answer('GET jobs/job-0/results', result(0.9));
    training.server.answer('GET jobs/job-1/results', { code: 'internal', message: 'Later.' }, 500);
    await runs('done', 'done');
    expect(told()).toEqual(['“digits”: 2 jobs: 2 done.']);
  });

  it('has no best job if more are done than are compared', async () => {
    const phases = Array<JobPhase>(101).fill('done');
    phases.forEach((_, at) => training.server.answer(`GET jobs/job-${at}/results`, result(at)));
    serverKnows(...phases);
    await runs('done');
    expect(told()).toEqual(['“digits”: 101 jobs: 101 done.']);
  });

  it('is not told to a page that did not know it before', async () => {
    serverKnows('done');
    training.recordJob(swept(0, 'done'));
    await settle();
    expect([told(), training.server.asked]).toEqual([[], []]);
  });

  it('is not told when its jobs are paused or the user has cancelled all of them', async () => {
    serverKnows('cancelled', 'cancelled');
    await runs('paused', 'paused');
    await runs('cancelled', 'cancelled');
    expect(told()).toEqual([]);
  });

  it('is named by its id if the names of its jobs have nothing in common', () => {
    const jobs = [aJob({ name: 'a', group: 'sweep-1' }), aJob({ name: 'b', group: 'sweep-1' })];
    expect([nameSweep(jobs), nameSweep([jobs[0], jobs[0]])]).toEqual(['sweep-1', 'a']);
  });
});
