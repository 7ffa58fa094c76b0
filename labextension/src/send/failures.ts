/** The cells that did not succeed when they last ran, here or in a job, by what they show and what the service knows. */

import type { ICodeCellModel } from '@jupyterlab/cells';

import { showsError } from '../attach/locate';
import type { IPlaceholder } from '../attach/metadata';
import { METADATA_KEY, findPlaceholder, readBinding } from '../attach/metadata';
import type { Failure } from '../bundle/prefix';
import { isFinal, type JobPhase } from '../jobs';
import { forEachPaced } from '../paced';

/** Returns a job as the service knows it, null if the service does not know it; rejects if it cannot be asked. */
export type FindJob = (id: string) => Promise<{ readonly phase: JobPhase } | null>;

/**
 * Return why cells did not succeed, by their id. The cells are in document order.
 *
 * A cell that ran to its end in its job has not failed, whatever it shows and however the job ended: the error of a cell
 * with the tag `raises-exception` stops nothing. The metadata of the cell say so, unless the file was closed when the cell
 * ended. Of the other cells of a job, those before the last one that shows an error have ended too.
 *
 * See docs/decisions/0497-note-in-the-file-which-cells-ran-to-their-end.md.
 */
export async function findFailures(
  cells: readonly ICodeCellModel[],
  findJob: FindJob
): Promise<ReadonlyMap<string, Failure>> {
  const failures = new Map<string, Failure>();
  const ended = new Set<string>();
  const groups = groupByJob(cells);
  const phases = await findPhases(
    groups.map(([placeholder]) => placeholder),
    findJob
  );
  for (const [{ job, phase }, shown] of groups) {
    const failure = FAILURES[phases.get(job) ?? phase];
    const last = shown.map(showsError).lastIndexOf(true);
    for (const [index, cell] of shown.entries()) {
      if (index < last || hasEnded(cell, job)) {
        ended.add(cell.id);
      } else if (failure !== undefined) {
        failures.set(cell.id, failure);
      }
    }
  }
  cells
    .filter(cell => showsError(cell) && !ended.has(cell.id))
    .forEach(cell => failures.set(cell.id, 'failed-before'));
  return failures;
}

/** Return whether the metadata of a cell say that it ran to its end in this job. */
function hasEnded(cell: ICodeCellModel, job: string): boolean {
  const binding = readBinding(cell.getMetadata(METADATA_KEY) as unknown);
  return binding?.job === job && binding.ended;
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

/**
 * Return the phases of jobs whose placeholders do not show the last one: the file was closed before these jobs ended. A
 * few are asked for at one time, and none any more once one cannot be asked for, since the dialog waits.
 */
async function findPhases(
  placeholders: readonly IPlaceholder[],
  findJob: FindJob
): Promise<ReadonlyMap<string, JobPhase>> {
  const phases = new Map<string, JobPhase>();
  const unsure = placeholders.filter(({ phase }) => !isFinal(phase));
  const ask = async ({ job }: IPlaceholder): Promise<void> => {
    const found = await findJob(job);
    if (found !== null) {
      phases.set(job, found.phase);
    }
  };
  await forEachPaced(unsure, ask).catch(() => undefined);
  return phases;
}
