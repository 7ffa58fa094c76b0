import type { JobView } from '../wire';
import { aJob, aSummary } from './builders';
import { FakeServer } from './fakes';
import { opened, SECOND, useFakePages } from './livepage';

useFakePages();

describe('a job by its id', () => {
  it('comes from the state without a request', async () => {
    const page = await opened();
    page.send('job', aJob());
    expect((await page.live.findJob('job-1'))?.id).toBe('job-1');
    expect(page.count('GET jobs/')).toBe(0);
  });

  it('comes from the server once, with the cells that the list leaves out', async () => {
    const server = new FakeServer();
    server.answer('GET jobs', { jobs: [aSummary({ phase: 'done' })], next: null });
    const targets = [{ cell_id: 'x', source_hash: '', seconds: null }];
    server.answer('GET jobs/job-1', aJob({ phase: 'done', targets }));
    const page = await opened(server);
    expect((await page.live.findJob('job-1'))?.targets).toEqual(targets);
    expect((await page.live.findJob('job-1'))?.targets).toEqual(targets);
    expect(page.count('GET jobs/')).toBe(1);
  });

  it.each<[JobView['phase'], number]>([
    ['running', 1],
    ['done', 0]
  ])('comes from the server; if it is %s, the list gets %s of it', async (phase, listed) => {
    const page = await opened();
    page.server.answer('GET jobs/job-7', aJob({ id: 'job-7', phase }));
    expect((await page.live.findJob('job-7'))?.phase).toBe(phase);
    expect(page.live.state.jobs).toHaveLength(listed);
  });

  it('is null if the server does not know it', async () => {
    const page = await opened();
    page.server.answer('GET jobs/job-7', { code: 'not_found', message: 'No such job.' }, 404);
    expect(await page.live.findJob('job-7')).toBeNull();
    expect([...page.live.state.unknown]).toEqual(['job-7']);
  });

  it('that was deleted does not come back with an answer that was on its way', async () => {
    const [job, other] = [aJob({ id: 'job-7', phase: 'done' }), aJob({ id: 'job-6' })];
    const page = await opened();
    page.server.answer('GET jobs', { jobs: [job, other], next: null });
    await page.refresh();
    page.server.hold();
    await page.refresh();
    page.live.forgetJob('job-7');
    page.server.release();
    await jest.advanceTimersByTimeAsync(SECOND);
    expect(page.live.state.jobs.map(({ id }) => id)).toEqual(['job-6']);
  });

  it('that was deleted elsewhere does not keep older ones from the list', async () => {
    const page = await opened();
    const [first, second, third] = [3, 2, 1].map(at => aJob({ id: `job-${at}`, submitted_at: at }));
    page.server.answer('GET jobs', { jobs: [first, second], next: 'job-2' });
    await page.refresh();
    const gone = { code: 'not_found', message: 'No such job.', field: null };
    page.server.answer('GET jobs?limit=50&before=job-2', gone, 404);
    page.server.answer('GET jobs?limit=50&before=job-3', { jobs: [third], next: null });
    await page.live.loadMore();
    expect(page.live.state.jobs.map(({ id }) => id)).toEqual(['job-3', 'job-1']);
  });

  it('is forgotten again if it came back meanwhile', async () => {
    const page = await opened();
    page.live.forgetJob('job-7');
    page.live.recordJob(aJob({ id: 'job-7', phase: 'done' }));
    page.live.forgetJob('job-7');
    expect(page.live.state.jobs).toEqual([]);
  });

  it('is not called unknown by a server that does not have the extension', async () => {
    const page = await opened();
    page.server.answer('GET jobs/job-7', '<html>404</html>', 404);
    expect(await page.live.findJob('job-7')).toBeNull();
    expect(page.live.state.unknown.size).toBe(0);
  });

  it('fails if the server cannot say', async () => {
    const page = await opened();
    page.server.answer('GET jobs/job-7', { code: 'service_unavailable', message: 'Later.' }, 503);
    await expect(page.live.findJob('job-7')).rejects.toThrow('Later.');
  });
});
