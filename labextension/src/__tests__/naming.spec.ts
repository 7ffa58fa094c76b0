import { proposeName } from '../send/naming';
import { aJob } from './builders';

describe('the proposed name of a job', () => {
  const names = (...given: string[]): ReturnType<typeof aJob>[] =>
    given.map((name, index) => aJob({ id: `job-${index}`, name, phase: 'waiting' }));

  it('is that of the notebook, with a number if jobs that are not over have it', () => {
    expect(proposeName('small', [])).toBe('small');
    expect(proposeName('small', names('other', 'small'))).toBe('small 2');
    expect(proposeName('small', names('small 3', 'small', 'small 2'))).toBe('small 4');
    expect(proposeName('small', names('small 2'))).toBe('small');
    expect(proposeName('small', [aJob({ name: 'small', phase: 'done' })])).toBe('small');
  });

  it('is another one than that of a sweep', () => {
    const sweep = names('small lr=1', 'small lr=2').map(job => ({ ...job, group: 'sweep-1' }));
    expect(proposeName('small', sweep)).toBe('small 2');
    expect(proposeName('small', names('small lr=1'))).toBe('small');
  });

  it('has at most 100 characters', () => {
    const long = 'n'.repeat(120);
    expect(proposeName(long, [])).toBe('n'.repeat(100));
    expect(proposeName(long, names('n'.repeat(100)))).toBe(`${'n'.repeat(98)} 2`);
  });
});
