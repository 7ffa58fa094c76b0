/**
 * The cells that ran in each kernel, in run order, as this page saw them, in the form of the server's own history.
 *
 * Rules
 * -----
 * 1. A run keeps the source that was run. The cell may be edited, moved or deleted afterwards.
 * 2. A restart, or another kernel, starts a new history: earlier runs are not in that kernel's memory.
 * 3. A cell that ran twice has two entries: the second run found what the first run left.
 * 4. Only what has begun ran: a cell that still waits for the kernel has no entry, nor has one that never ran because a
 *    cell before it failed.
 * 5. The history is complete if the kernel's own counter agrees with it: 1, 2, 3 and so on. After a reload of the page,
 *    or if a console shares the kernel, the history is incomplete.
 */

import type { RanCell } from '../wire';

/** The end of a run. */
export interface IRunEnd {
  readonly cellId: string;
  readonly success: boolean;
  /** The kernel's counter; null if the kernel did not run the cell. */
  readonly executionCount: number | null;
  /** Seconds since the epoch. */
  readonly at: number;
}

/** A run and the time from which its duration counts. */
interface ITimedRun {
  run: RanCell;
  isOver: boolean;
  /** When the cell was handed to the kernel. The run starts then, or at the end of the run before it. */
  scheduled: number;
}

/** The histories of all kernels that this page knows. */
export class RunHistory {
  /** Record that a cell was handed to the kernel. */
  recordStart(kernelId: string, cellId: string, source: string, at: number): void {
    const runs = this._kernels.get(kernelId) ?? [];
    const run: RanCell = {
      cell_id: cellId,
      code: source,
      seconds: null,
      failed: false,
      execution_count: 0,
      began: at
    };
    this._kernels.set(kernelId, [...runs, { run, isOver: false, scheduled: at }]);
  }

  /** Record the end of the cell's oldest unfinished run. Does nothing if there is none: the kernel restarted. */
  recordEnd(kernelId: string, end: IRunEnd): void {
    const runs = this._kernels.get(kernelId) ?? [];
    const index = runs.findIndex(({ run, isOver }) => run.cell_id === end.cellId && !isOver);
    if (index < 0) {
      return;
    }
    const { run, scheduled } = runs[index];
    const began = Math.max(scheduled, this._lastEnd.get(kernelId) ?? 0);
    const ended: ITimedRun = {
      run: {
        ...run,
        began,
        seconds: Math.max(0, end.at - began),
        failed: !end.success,
        execution_count: end.executionCount ?? 0
      },
      isOver: true,
      scheduled
    };
    const neverRan = end.executionCount === null && !end.success;
    this._lastEnd.set(kernelId, end.at);
    this._kernels.set(kernelId, [
      ...runs.slice(0, index),
      ...(neverRan ? [] : [ended]),
      ...runs.slice(index + 1)
    ]);
  }

  /** Forget the runs of a kernel: a restart has emptied its memory. */
  recordRestart(kernelId: string): void {
    this._kernels.set(kernelId, []);
    this._lastEnd.delete(kernelId);
  }

  /** Return the runs of a kernel in run order; the one that still runs, without a duration, is the last. */
  listRuns(kernelId: string): readonly RanCell[] {
    const runs = this._kernels.get(kernelId) ?? [];
    const running = runs.find(({ isOver }) => !isOver);
    return [...runs.filter(({ isOver }) => isOver), ...(running === undefined ? [] : [running])].map(
      ({ run }) => run
    );
  }

  /** Return whether every run of the kernel's present session is known, by the kernel's own counter. */
  isComplete(kernelId: string): boolean {
    const over = (this._kernels.get(kernelId) ?? []).filter(({ isOver }) => isOver);
    return over.length > 0 && over.every(({ run }, index) => run.execution_count === index + 1);
  }

  private readonly _kernels = new Map<string, readonly ITimedRun[]>();
  private readonly _lastEnd = new Map<string, number>();
}
