/** How much of a log is shown, in words, and the search for lines with a text. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Client, ILogPlace } from './client';
import { formatBytes } from './results';
import type { JobLog } from './wire';

/** Most characters of a text that the service looks for. */
export const LONGEST_TEXT = 200;
/** Lines after which a search waits for the user. */
const MOST_LINES = 500;

/** Return which part of a log is shown and what is not kept; "" if the whole log is shown. */
export function describeShown(
  text: string,
  log: JobLog,
  task: number | null,
  trans: TranslationBundle
): string {
  const tasks = log.tasks.filter(each => task === null || each.task === task);
  const written = tasks.reduce((sum, each) => sum + each.end, 0);
  const shown = new Blob([text]).size;
  const told =
    written > shown ? trans.__('The last %1 of %2 are shown.', formatBytes(shown), formatBytes(written)) : '';
  return [told, log.note].filter(part => part !== '').join(' ');
}

/** Return how many lines a search has found so far. */
export function describeFound(search: LogSearch, trans: TranslationBundle): string {
  const { lines, text, isOver } = search;
  if (lines.length === 0) {
    return isOver ? trans.__('No line of the log has “%1” in it.', text) : '';
  }
  const found = trans._n('%1 line has “%2” in it.', '%1 lines have “%2” in them.', lines.length, text);
  return isOver ? found : `${found} ${trans.__('There may be more.')}`;
}

/** A search for the lines of a job's log with a text, part by part. */
export class LogSearch {
  /** `task` is the task whose log is searched; null = all tasks. */
  constructor(
    private readonly _client: Client,
    private readonly _job: string,
    readonly text: string,
    private readonly _task: number | null
  ) {}

  /** The lines that were found so far, with their numbers. */
  readonly lines: string[] = [];

  /** Whether the whole log has been searched. */
  get isOver(): boolean {
    return this._places !== null && this._places.length === 0;
  }

  /** Search until some hundred more lines are found, or the log is at its end. */
  async searchOn(): Promise<void> {
    const places = (this._places ??= await this._begin());
    const most = this.lines.length + MOST_LINES;
    while (places.length > 0 && this.lines.length < most) {
      const at = places[0];
      const found = await this._client.findLogLines(this._job, this.text, at);
      const prefix = this._several ? `${at.task}:` : '';
      this.lines.push(...found.lines.map(each => `${prefix}${each.line}: ${each.text}`));
      if (found.next === null) {
        places.shift();
      } else {
        places[0] = { task: at.task, start: found.next, line: found.next_line };
      }
    }
  }

  /** Return the beginning of the log of each task. */
  private async _begin(): Promise<ILogPlace[]> {
    const { tasks } = await this._client.getLogSize(this._job);
    const chosen = tasks.filter(each => this._task === null || each.task === this._task);
    this._several = chosen.length > 1;
    return chosen.map(each => ({ task: each.task, start: 0, line: 1 }));
  }

  /** Where the search goes on, for each task that is not over; null before the search. */
  private _places: ILogPlace[] | null = null;
  private _several = false;
}
