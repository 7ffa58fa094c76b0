import {
  markUnavailable,
  findNotebookHere,
  INITIAL_STATE,
  applyJob,
  applyNotebook,
  appendPage,
  applyFirstPage,
  markUnknown
} from '../live/state';
import type { JobList } from '../wire';
import { aJob, aNotebook } from './builders';

const page = (ids: number[], next: string | null = null): JobList => ({
  jobs: ids.map(id => aJob({ id: `job-${id}`, submitted_at: id })),
  next,
  disk: `${ids.length} GiB`,
  database: ''
});

describe('the live state', () => {
  it('keeps older jobs and the way to still older ones when the first page is fetched again', () => {
    const first = applyFirstPage(INITIAL_STATE, page([9, 8], 'job-8'));
    const older = appendPage(first, page([7, 6], 'job-6'));
    const again = applyFirstPage(older, page([10, 9], 'job-9'));
    expect(again.jobs.map(job => job.id)).toEqual(['job-10', 'job-9', 'job-8', 'job-7', 'job-6']);
    expect(again.next).toBe('job-6');
    expect(again.disk).toBe('2 GiB');
  });

  it('starts over when there is a gap', () => {
    const first = applyFirstPage(INITIAL_STATE, page([2, 1]));
    const again = applyFirstPage(first, page([99, 98], 'job-98'));
    expect(again.jobs.map(job => job.id)).toEqual(['job-99', 'job-98']);
    expect(again.next).toBe('job-98');
  });

  it('keeps what it knows while the service is away', () => {
    const state = markUnavailable(applyFirstPage(INITIAL_STATE, page([1])), 'away');
    expect([state.available, state.message, state.jobs.length]).toEqual([false, 'away', 1]);
    expect(markUnavailable(state, 'away')).toBe(state);
    expect(applyJob(state, aJob({ id: 'job-2', submitted_at: 2 })).jobs).toHaveLength(2);
  });

  it('forgets stopped notebooks', () => {
    const state = applyNotebook(INITIAL_STATE, aNotebook());
    expect(state.notebooks).toHaveLength(1);
    expect(applyNotebook(state, aNotebook({ phase: 'stopped' })).notebooks).toEqual([]);
  });

  it('knows the notebook of this page by its server, whatever the default server is called', () => {
    const state = applyNotebook({ ...INITIAL_STATE, server: '-' }, aNotebook({ server: '' }));
    expect(findNotebookHere(state)?.id).toBe('nb-1');
    expect(findNotebookHere({ ...state, server: 'second' })).toBeNull();
  });
});

describe('a job that the server does not know any more', () => {
  it('leaves the list, and the next page begins behind one that is known', () => {
    const jobs = ['c', 'b', 'a'].map((id, age) => aJob({ id, submitted_at: 100 - age }));
    const state = applyFirstPage(INITIAL_STATE, { jobs, next: 'a', disk: '', database: '' });
    const left = markUnknown(state, 'a');
    expect(left.jobs.map(({ id }) => id)).toEqual(['c', 'b']);
    expect([left.next, [...left.unknown]]).toEqual(['b', ['a']]);
    expect(markUnknown(left, 'c').next).toBe('b');
    expect(markUnknown(markUnknown(left, 'c'), 'b').next).toBeNull();
  });
});
