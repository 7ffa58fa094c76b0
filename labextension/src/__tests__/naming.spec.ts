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

  it('has at most 100 characters, and keeps the end by which long names differ', () => {
    const long = `${'n'.repeat(120)}-b`;
    const proposed = proposeName(long, []);
    expect(proposed).toBe(`${'n'.repeat(66)}…${'n'.repeat(31)}-b`);
    expect(proposeName(long, names(proposed))).toBe(`${'n'.repeat(65)}…${'n'.repeat(30)}-b 2`);
  });

  it('has no half of a character, which the service could not read', () => {
    for (let before = 50; before < 100; before++) {
      for (const long of ['n'.repeat(before) + '😀'.repeat(40), '😀'.repeat(before) + 'n']) {
        const proposed = proposeName(long, []);
        expect(proposed.length).toBeLessThanOrEqual(100);
        expect(encodeURIComponent(proposed)).toContain('%E2%80%A6'); // it throws an error for a half
      }
    }
  });
});
