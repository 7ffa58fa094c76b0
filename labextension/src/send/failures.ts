/** The cells that did not succeed when they last ran, here or in a job, by what they show and what the service knows. */

import type { ICodeCellModel } from '@jupyterlab/cells';

import { showsError } from '../attach/locate';
import type { IPlaceholder } from '../attach/metadata';
import { findPlaceholder } from '../attach/metadata';
import type { Failure } from '../bundle/prefix';
import { isFinal, type JobPhase } from '../jobs';

/** Returns a job as the service knows it; null if the service does not know it, or cannot be asked. */
export type FindJob = (id: string) => Promise<{ readonly phase: JobPhase } | null>;

/**
 * Return why cells did not succeed, by their id. The cells are in document order.
 *
 * A job may fail without an error under its cells, as by `exit(1)`. If one of its cells shows an error, the cells before
 * that one succeeded; otherwise nobody can tell which of its cells did.
 */
export async function findFailures(
  cells: readonly ICodeCellModel[],
  findJob: FindJob
): Promise<ReadonlyMap<string, Failure>> {
  const failures = new Map<string, Failure>();
  for (const [job, shown] of groupByJob(cells)) {
    const failure = FAILURES[await findPhase(job, findJob)];
    const first = shown.findIndex(showsError);
    shown.slice(Math.max(0, first)).forEach(cell => failure && failures.set(cell.id, failure));
  }
  cells.filter(showsError).forEach(cell => failures.set(cell.id, 'failed-before'));
  return failures;
}

const FAILURES: Partial<Record<JobPhase, Failure>> = { failed: 'job-failed', cancelled: 'job-cancelled' };

/** Return the cells that show each job, with the placeholder of the first one. */
function groupByJob(cells: readonly ICodeCellModel[]): [IPlaceholder, ICodeCellModel[]][] {
  const groups = new Map<string, [IPlaceholder, ICodeCellModel[]]>();
  cells.forEach(cell => {
    const placeholder = findPlaceholder(cell.outputs.toJSON());
    if (placeholder !== null) {
      const group = groups.get(placeholder.job) ?? [placeholder, []];
      group[1].push(cell);
      groups.set(placeholder.job, group);
    }
  });
  return [...groups.values()];
}

/** Return the phase of a job; a file that was closed before the job ended tells an earlier one than the service. */
async function findPhase({ job, phase }: IPlaceholder, findJob: FindJob): Promise<JobPhase> {
  return isFinal(phase) ? phase : ((await findJob(job).catch(() => null))?.phase ?? phase);
}
