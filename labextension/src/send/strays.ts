/**
 * Jobs of a dialog to whose request no answer came: the service may have accepted them.
 *
 * See docs/decisions/0495-find-a-job-whose-answer-was-lost-by-its-key.md.
 */

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import { cancelAll } from '../acts';
import { nameSweep } from '../attach/sweep';
import { isCancellable } from '../jobs';
import { fitToast, quoteName } from '../toasts';
import type { ITraining } from '../tokens';
import type { JobSummary } from '../wire';

/** The news of the jobs that were sent with one key. */
export interface IArrival {
  /** Emitted when one of them may have become known. */
  readonly changed: ISignal<unknown, unknown>;
  /** Return whether one of them is known. */
  isKnown(): boolean;
}

/** Return the news of the jobs that a dialog sends with this key. */
export function watchArrival(training: ITraining, key: string): IArrival {
  return {
    changed: training.stateChanged,
    isKnown: () => training.state.jobs.some(job => isSentWith(job, key))
  };
}

/** Return whether a dialog sent the job with this key. */
function isSentWith(job: JobSummary, key: string): boolean {
  // An earlier release of the service does not send the field.
  return ((job.idempotency_key as string | undefined) ?? '').startsWith(key);
}

/** The jobs that nobody wants any more: each is cancelled once it is known. */
export class Strays implements IDisposable {
  constructor(
    private readonly _training: ITraining,
    private readonly _trans: TranslationBundle
  ) {
    _training.stateChanged.connect(this._look, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._training.stateChanged.disconnect(this._look, this);
  }

  /** Cancel each job that a dialog has sent with this key, now or later, without those in `kept`. */
  cancel(key: string, kept: readonly string[]): void {
    this._settled.set(key, new Set(kept));
    this._look();
  }

  private _look(): void {
    for (const [key, settled] of this._settled) {
      const strays = this._training.state.jobs.filter(
        job => isSentWith(job, key) && !settled.has(job.id) && isCancellable(job)
      );
      const ids = strays.map(({ id }) => id);
      ids.forEach(id => settled.add(id));
      if (ids.length > 0) {
        void withdraw(this._training, nameSweep(strays), ids, this._trans).then(cancelled => {
          if (!cancelled) {
            ids.forEach(id => settled.delete(id)); // the next news of the jobs is another attempt
          }
        });
      }
    }
  }

  private _isDisposed = false;
  /** The ids of the jobs that are kept or cancelled already, by key. */
  private readonly _settled = new Map<string, Set<string>>();
}

/** Cancel what was accepted after the user had given it up, and say so; return false if that fails. */
export async function withdraw(
  training: ITraining,
  name: string,
  ids: readonly string[],
  trans: TranslationBundle
): Promise<boolean> {
  if (!(await cancelAll(training, ids, trans))) {
    return false;
  }
  const message = trans.__('%1 was sent already, and is cancelled now.', quoteName(name));
  Notification.info(fitToast(message), { autoClose: 8000 });
  return true;
}
