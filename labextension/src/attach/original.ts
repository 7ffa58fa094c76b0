/**
 * Copies of notebooks, told from the notebook that shows a job.
 *
 * See docs/decisions/0313-take-the-line-of-a-job-off-copies.md,
 * docs/decisions/0328-ask-the-notebook-at-the-old-path.md and
 * docs/decisions/0330-ask-the-server-whether-two-paths-are-one-file.md.
 */

import type { Contents } from '@jupyterlab/services';

import type { Client } from '../client';
import type { JobSummary } from '../wire';
import { METADATA_KEY, readBinding } from './metadata';

/** The check whether a notebook is a copy of the original, which the metadata of its cells name. */
export class Originals {
  constructor(
    private readonly _contents: Contents.IManager,
    private readonly _client: Pick<Client, 'isSameFile'>
  ) {}

  /** Forget the answers so far; each question is asked once until then. */
  clear(): void {
    this._same.clear();
    this._jobs.clear();
  }

  /**
   * Return whether the notebook at `path` is a copy of the notebook at `home`, which shows the job.
   *
   * False if both paths lead to one file, or if `home` cannot be read as a notebook or has no cell of the job: then the
   * original was moved, and another file took its path. Also false if the server cannot say, since a copy loses its line.
   */
  async isCopy(path: string, home: string, job: JobSummary): Promise<boolean> {
    if (home === path || (await this._isSameFile(path, home))) {
      return false;
    }
    return (await this._listJobs(home)).has(job.id);
  }

  private _isSameFile(path: string, home: string): Promise<boolean> {
    return recall(this._same, JSON.stringify([path, home]), () =>
      this._client.isSameFile(path, home).catch(() => true)
    );
  }

  /** Return the ids of the jobs to which cells of a notebook are bound; none if it cannot be read. */
  private _listJobs(path: string): Promise<ReadonlySet<string>> {
    return recall(this._jobs, path, () =>
      this._contents.get(path, { content: true, type: 'notebook' }).then(
        file => findJobs(file.content),
        () => new Set<string>()
      )
    );
  }

  /** Whether two paths lead to one file, by both. */
  private readonly _same = new Map<string, Promise<boolean>>();
  /** The jobs of other notebooks by path. The notebooks themselves may be large. */
  private readonly _jobs = new Map<string, Promise<ReadonlySet<string>>>();
}

/** Return the answer to a question that was asked before, or ask it. */
function recall<T>(answers: Map<string, Promise<T>>, key: string, ask: () => Promise<T>): Promise<T> {
  const answer = answers.get(key) ?? ask();
  answers.set(key, answer);
  return answer;
}

/** Return the ids of the jobs to which the cells in the content of a notebook are bound. */
function findJobs(content: unknown): ReadonlySet<string> {
  const cells =
    (content as { cells?: readonly { metadata?: Record<string, unknown> }[] } | null)?.cells ?? [];
  const bindings = cells.map(({ metadata }) => readBinding(metadata?.[METADATA_KEY]));
  return new Set(bindings.flatMap(binding => binding?.job ?? []));
}
