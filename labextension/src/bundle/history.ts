/**
 * The cells that ran in each kernel, in run order, as this page saw them.
 *
 * Rules
 * -----
 * 1. A run keeps the source that was run. The cell may be edited, moved or deleted afterwards.
 * 2. A restart, or another kernel, starts a new history: earlier runs are not in that kernel's memory.
 * 3. A cell that ran twice has two entries: the second run found what the first run left.
 * 4. The history is complete if the kernel's own counter agrees with it: 1, 2, 3 and so on. After a reload of the page,
 *    or if a console shares the kernel, the history is incomplete.
 */

/** One run of one cell. */
export interface IRun {
  readonly cellId: string;
  readonly source: string;
  /** Duration; null while the cell runs or if unknown. */
  readonly seconds: number | null;
  readonly status: 'running' | 'ok' | 'error';
  /** The kernel's counter; null while the cell runs or if unknown. */
  readonly executionCount: number | null;
}

/** The end of a run. */
export interface IRunEnd {
  readonly cellId: string;
  readonly success: boolean;
  readonly executionCount: number | null;
  /** Seconds since the epoch. */
  readonly at: number;
}

/** A run and the time from which its duration counts. */
interface ITimedRun {
  run: IRun;
  /** When the cell was handed to the kernel. The run starts then, or at the end of the run before it. */
  scheduled: number;
}

/** The histories of all kernels that this page knows. */
export class RunHistory {
  /** Record that a cell was handed to the kernel. */
  recordStart(kernelId: string, cellId: string, source: string, at: number): void {
    const runs = this._kernels.get(kernelId) ?? [];
    const run: IRun = { cellId, source, seconds: null, status: 'running', executionCount: null };
    this._kernels.set(kernelId, [...runs, { run, scheduled: at }]);
  }

  /** Record the end of the cell's oldest unfinished run. Does nothing if there is none: the kernel restarted. */
  recordEnd(kernelId: string, end: IRunEnd): void {
    const runs = this._kernels.get(kernelId) ?? [];
    const index = runs.findIndex(({ run }) => run.cellId === end.cellId && run.status === 'running');
    if (index < 0) {
      return;
    }
    const { run, scheduled } = runs[index];
    const began = Math.max(scheduled, this._lastEnd.get(kernelId) ?? 0);
    const ended: IRun = {
      ...run,
      seconds: Math.max(0, end.at - began),
      status: end.success ? 'ok' : 'error',
      executionCount: end.executionCount
    };
    this._lastEnd.set(kernelId, end.at);
    this._kernels.set(kernelId, [
      ...runs.slice(0, index),
      { run: ended, scheduled },
      ...runs.slice(index + 1)
    ]);
  }

  /** Forget the runs of a kernel: a restart has emptied its memory. */
  recordRestart(kernelId: string): void {
    this._kernels.set(kernelId, []);
    this._lastEnd.delete(kernelId);
  }

  /** Return the runs of a kernel in run order. */
  listRuns(kernelId: string): readonly IRun[] {
    return (this._kernels.get(kernelId) ?? []).map(({ run }) => run);
  }

  /** Return whether every run of the kernel's present session is known, by the kernel's own counter. */
  isComplete(kernelId: string): boolean {
    const counts = this.listRuns(kernelId)
      .filter(run => run.status !== 'running')
      .map(run => run.executionCount);
    return counts.length > 0 && counts.every((count, index) => count === index + 1);
  }

  private readonly _kernels = new Map<string, readonly ITimedRun[]>();
  private readonly _lastEnd = new Map<string, number>();
}
