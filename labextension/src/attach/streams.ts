import type { IDisposable } from '@lumino/disposable';

import type { OutputPage } from '../wire';
import { JobStream } from './stream';

/** The streams of jobs: one for each job, which all notebooks that show it share until the last releases it. */
export class JobStreams implements IDisposable {
  constructor(private readonly _fetch: (job: string, after: number) => Promise<OutputPage>) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Dispose every stream. */
  dispose(): void {
    this._isDisposed = true;
    this._shared.forEach(({ stream }) => stream.dispose());
    this._shared.clear();
  }

  /** Return the stream of a job, to be released by the caller. */
  acquire(job: string): JobStream {
    const known = this._shared.get(job);
    const stream = known?.stream ?? new JobStream(after => this._fetch(job, after));
    this._shared.set(job, { stream, users: (known?.users ?? 0) + 1 });
    return stream;
  }

  /** Give back the stream of a job, which is disposed with its last user. */
  release(job: string): void {
    const known = this._shared.get(job);
    if (known !== undefined && known.users > 1) {
      this._shared.set(job, { ...known, users: known.users - 1 });
    } else {
      known?.stream.dispose();
      this._shared.delete(job);
    }
  }

  private readonly _shared = new Map<string, { readonly stream: JobStream; readonly users: number }>();
  private _isDisposed = false;
}
