/**
 * Which cells ran in a kernel, in run order, as the page saw it.
 *
 * Rules
 * -----
 * 1. A run keeps the source as it was run; the cell may be edited, moved or deleted afterwards.
 * 2. A restart, or another kernel, begins anew: what ran before is not in that kernel's memory.
 * 3. A cell that ran twice is there twice: its second run found what the first one left.
 * 4. The history is complete when the kernel's own counter agrees with it: 1, 2, 3 and so on. It is not after a reload
 *    of the page, or when a console shares the kernel.
 */

/** One run of one cell. */
export interface IRun {
  readonly cellId: string;
  readonly source: string;
  /** How long it took; null while it runs, or when unknown. */
  readonly seconds: number | null;
  readonly status: 'running' | 'ok' | 'error';
  /** The kernel's counter; null while it runs, or when unknown. */
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

interface IOpenRun {
  run: IRun;
  /** When it was scheduled: its start, or the end of the run before it in the kernel's line. */
  scheduled: number;
}

/** The history of every kernel that this page knows. */
export class RunHistory {
  /** A cell was handed to the kernel. */
  scheduled(kernelId: string, cellId: string, source: string, at: number): void {
    const runs = this._kernels.get(kernelId) ?? [];
    const run: IRun = { cellId, source, seconds: null, status: 'running', executionCount: null };
    this._kernels.set(kernelId, [...runs, { run, scheduled: at }]);
  }

  /** The oldest unfinished run of that cell ended. Unknown ones (the kernel restarted meanwhile) are ignored. */
  executed(kernelId: string, end: IRunEnd): void {
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

  /** The kernel restarted: its memory is empty. */
  restarted(kernelId: string): void {
    this._kernels.set(kernelId, []);
    this._lastEnd.delete(kernelId);
  }

  /** In run order. */
  runs(kernelId: string): readonly IRun[] {
    return (this._kernels.get(kernelId) ?? []).map(({ run }) => run);
  }

  /**
   * Nothing ran in that kernel that is not here. `executionCount` is the kernel's counter when it is known from elsewhere
   * (the largest number in the notebook).
   */
  isComplete(kernelId: string): boolean {
    const counts = this.runs(kernelId)
      .filter(run => run.status !== 'running')
      .map(run => run.executionCount);
    return counts.length > 0 && counts.every((count, index) => count === index + 1);
  }

  private readonly _kernels = new Map<string, readonly IOpenRun[]>();
  private readonly _lastEnd = new Map<string, number>();
}
