/**
 * The names that are proposed for jobs. Pure.
 *
 * See docs/decisions/0274-number-the-jobs-of-a-notebook.md.
 */

import { nameSweep } from '../attach/sweep';
import { isFinal } from '../jobs';
import { cutMiddle } from '../plain';
import type { JobSummary } from '../wire';

/** Most characters of a proposed name. */
const LONGEST = 100;

/** Return the name, with the first number from 2 on that makes it another one than those of jobs that are not over. */
export function proposeName(name: string, jobs: readonly JobSummary[]): string {
  const taken = listNames(jobs.filter(job => !isFinal(job.phase)));
  let proposed = cutMiddle(name, LONGEST);
  for (let number = 2; taken.has(proposed); number++) {
    const end = ` ${number}`;
    proposed = cutMiddle(name, LONGEST - end.length) + end;
  }
  return proposed;
}

/** Return the names of the jobs, and those of the sweeps whose jobs they are. */
function listNames(jobs: readonly JobSummary[]): Set<string> {
  const groups = new Set(jobs.map(job => job.group).filter(group => group !== ''));
  const sweeps = [...groups].map(group => nameSweep(jobs.filter(job => job.group === group)));
  return new Set([...jobs.map(job => job.name), ...sweeps]);
}
