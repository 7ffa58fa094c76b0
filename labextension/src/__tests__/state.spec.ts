import { lost, notebookHere, UNKNOWN, withJob, withNotebook, withOlder, withPage } from '../live/state';
import type { JobList } from '../wire';
import { aJob, aNotebook } from './builders';

const page = (ids: number[], next: string | null = null): JobList => ({
  jobs: ids.map(id => aJob({ id: `job-${id}`, submitted_at: id })),
  next
});

describe('the live state', () => {
  it('keeps older jobs and the way to still older ones when the first page is fetched again', () => {
    const first = withPage(UNKNOWN, page([9, 8], 'job-8'));
    const older = withOlder(first, page([7, 6], 'job-6'));
    const again = withPage(older, page([10, 9], 'job-9'));
    expect(again.jobs.map(job => job.id)).toEqual(['job-10', 'job-9', 'job-8', 'job-7', 'job-6']);
    expect(again.next).toBe('job-6');
  });

  it('starts over when there is a gap', () => {
    const first = withPage(UNKNOWN, page([2, 1]));
    const again = withPage(first, page([99, 98], 'job-98'));
    expect(again.jobs.map(job => job.id)).toEqual(['job-99', 'job-98']);
    expect(again.next).toBe('job-98');
  });

  it('keeps what it knows while the service is away', () => {
    const state = lost(withPage(UNKNOWN, page([1])), 'away');
    expect([state.available, state.message, state.jobs.length]).toEqual([false, 'away', 1]);
    expect(lost(state, 'away')).toBe(state);
    expect(withJob(state, aJob({ id: 'job-2', submitted_at: 2 })).jobs).toHaveLength(2);
  });

  it('forgets stopped notebooks', () => {
    const state = withNotebook(UNKNOWN, aNotebook());
    expect(state.notebooks).toHaveLength(1);
    expect(withNotebook(state, aNotebook({ phase: 'stopped' })).notebooks).toEqual([]);
  });

  it('knows the notebook of this page by its server, whatever the default server is called', () => {
    const state = withNotebook({ ...UNKNOWN, server: '-' }, aNotebook({ server: '' }));
    expect(notebookHere(state)?.id).toBe('nb-1');
    expect(notebookHere({ ...state, server: 'second' })).toBeNull();
  });
});
