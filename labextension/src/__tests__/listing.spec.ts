import { ALL_JOBS, isRestricting, listValues, nameNotebooks, selectJobs } from '../panel/listing';
import type { JobSummary } from '../wire';
import { aSummary } from './builders';

const JOBS: readonly JobSummary[] = [
  aSummary({ id: 'new', phase: 'waiting', position: 2, queue: 'nlp', submitted_at: 9, name: 'Bert 10' }),
  aSummary({ id: 'held', phase: 'waiting', held_since: 5, submitted_at: 8, name: 'bert 9' }),
  aSummary({ id: 'next', phase: 'waiting', position: 1, submitted_at: 7, notebook_path: 'a/cats.ipynb' }),
  aSummary({ id: 'over', phase: 'done', submitted_at: 6, gpus: '0.5', tasks: 4 }),
  aSummary({ id: 'bad', phase: 'failed', submitted_at: 5, sentence: 'Cell 3 raised ValueError.' }),
  aSummary({ id: 'old', phase: 'running', submitted_at: 1 })
];

const found = (query: Partial<typeof ALL_JOBS>): string[] =>
  selectJobs(JOBS, { ...ALL_JOBS, ...query }).map(job => job.id);

describe('the list of jobs', () => {
  it('begins with what runs, however old, then what waits in its order, then what is over', () => {
    expect(found({})).toEqual(['old', 'next', 'new', 'held', 'over', 'bad']);
  });

  it.each([
    ['newest', ['new', 'held', 'next', 'over', 'bad', 'old']],
    ['name', ['held', 'new', 'next', 'over', 'bad', 'old']],
    ['notebook', ['next', 'new', 'held', 'over', 'bad', 'old']],
    ['queue', ['new', 'held', 'next', 'over', 'bad', 'old']],
    ['gpus', ['over', 'new', 'held', 'next', 'bad', 'old']]
  ] as const)('can be sorted by %s, and turned around', (sort, order) => {
    expect(found({ sort })).toEqual(order);
    expect(found({ sort, reversed: true })).toEqual([...order].reverse());
  });

  it.each([
    ['active', ['old', 'next', 'new', 'held']],
    ['running', ['old']],
    ['waiting', ['next', 'new']],
    ['held', ['held']],
    ['done', ['over']],
    ['failed', ['bad']],
    ['cancelled', []]
  ] as const)('can be filtered by the state %s', (state, ids) => {
    expect(found({ state })).toEqual(ids);
  });

  it('can be filtered by queue and notebook', () => {
    expect(found({ queue: 'nlp' })).toEqual(['new']);
    expect(found({ notebook: 'a/cats.ipynb' })).toEqual(['next']);
  });

  it('offers each value once', () => {
    expect(listValues(['vision', '', 'nlp', 'vision'])).toEqual(['nlp', 'vision']);
  });

  it('is searched for all words, in name, notebook, queue, sentence and id, in small and capital letters', () => {
    expect(found({ search: ' BERT nlp ' })).toEqual(['new']);
    expect(found({ search: 'cats' })).toEqual(['next']);
    expect(found({ search: 'valueerror' })).toEqual(['bad']);
    const [byId] = selectJobs([aSummary({ id: 'job-5c1e03' })], { ...ALL_JOBS, search: '5c1e' });
    expect(byId.id).toBe('job-5c1e03');
    expect(selectJobs([aSummary({ id: 'job-5c1e03' })], { ...ALL_JOBS, search: '3' })).toEqual([]);
    expect(found({ search: 'bert cats' })).toEqual([]);
  });

  it('says whether something is left out', () => {
    expect(
      [{}, { search: ' ' }, { sort: 'name' as const }].map(part => isRestricting({ ...ALL_JOBS, ...part }))
    ).toEqual([false, false, false]);
    expect(isRestricting({ ...ALL_JOBS, state: 'held' })).toBe(true);
  });

  it.each([
    [['a/b/x\u202e.ipynb', ''], ['x.ipynb']],
    [
      ['a/x.ipynb', 'b/x.ipynb', 'b/x.ipynb', 'b/y.ipynb'],
      ['a/x.ipynb', 'b/x.ipynb', 'y.ipynb']
    ],
    [
      ['x.ipynb', 'a/x.ipynb'],
      ['a/x.ipynb', 'x.ipynb']
    ],
    [
      ['home/a/run/x.ipynb', 'home/b/run/x.ipynb', 'home/c/x.ipynb'],
      ['a/run/x.ipynb', 'b/run/x.ipynb', 'c/x.ipynb']
    ]
  ])('names notebooks without hidden characters and without folders that they share: %j', (paths, names) => {
    const jobs = paths.map(path => ({ notebook_path: path }));
    expect([...nameNotebooks(jobs).values()]).toEqual(names);
  });
});
