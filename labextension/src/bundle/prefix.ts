/**
 * The cells that a job replays before the target cells: proposed from what is known, changed by the user.
 *
 * Where the proposal comes from, best first: the page's own history of the kernel, the server's history of it, the order of
 * the document. Targets never replay themselves.
 */

import type { RanCell, PrefixCell } from '../wire';
import type { IRun } from './history';

export type PrefixSource = 'history' | 'server' | 'document';

/** A code cell of the notebook as it is now. */
export interface ICodeCell {
  readonly id: string;
  readonly source: string;
  readonly tags: readonly string[];
}

/** A cell that may be replayed. */
export interface IPrefixEntry {
  /** Unique in the list: a cell may be there several times. */
  readonly key: string;
  readonly cellId: string;
  readonly source: string;
  readonly seconds: number | null;
  /** Proposed to be replayed. */
  readonly included: boolean;
  /** It runs in any case, by its tag. */
  readonly fixed: boolean;
  /** What the user should know about it, or null. */
  readonly note: string | null;
}

export interface IPrefix {
  readonly from: PrefixSource;
  readonly entries: readonly IPrefixEntry[];
}

/** Cells with this tag always run, in document order, before all others. */
const SETUP = 'gq-setup';
/** Cells with this tag are never replayed. */
const SKIP = 'gq-skip';
const FAILED = 'ended with an error here';

export function fromRuns(
  runs: readonly IRun[],
  cells: readonly ICodeCell[],
  targets: ReadonlySet<string>
): IPrefix {
  const entries = runs
    .filter(run => !targets.has(run.cellId) && run.source.trim() !== '')
    .map(run => ({
      ...entry(run.cellId, run.source, run.seconds, runNote(run, cells)),
      included: run.status !== 'error'
    }));
  return { from: 'history', entries: finished(entries, cells, targets) };
}

/** Matched to cells by their source; code without a cell (a console's, a deleted cell's) is replayed too. */
export function fromServer(
  executions: readonly RanCell[],
  cells: readonly ICodeCell[],
  targets: ReadonlySet<string>
): IPrefix {
  const target = cells.filter(cell => targets.has(cell.id)).map(cell => cell.source.trim());
  const entries = executions
    .filter(execution => execution.code.trim() !== '' && !target.includes(execution.code.trim()))
    .map((execution, index) => serverEntry(execution, index, cells));
  return { from: 'server', entries: finished(entries, cells, targets) };
}

function serverEntry(execution: RanCell, index: number, cells: readonly ICodeCell[]): IPrefixEntry {
  const cell = cells.find(candidate => candidate.source.trim() === execution.code.trim());
  const cellId = cell?.id ?? `history-${index + 1}`;
  if (execution.failed) {
    return { ...entry(cellId, execution.code, execution.seconds, FAILED), included: false };
  }
  const note = cell === undefined ? 'as it was run; the cell was changed or deleted since' : null;
  return entry(cellId, execution.code, execution.seconds, note);
}

/** All code cells above the first target. */
export function fromDocument(cells: readonly ICodeCell[], targets: ReadonlySet<string>): IPrefix {
  const first = cells.findIndex(cell => targets.has(cell.id));
  const entries = cells
    .slice(0, Math.max(0, first))
    .filter(cell => cell.source.trim() !== '')
    .map(cell => entry(cell.id, cell.source, null, null));
  return { from: 'document', entries: finished(entries, cells, targets) };
}

function entry(cellId: string, source: string, seconds: number | null, note: string | null): IPrefixEntry {
  return { key: '', cellId, source, seconds, included: true, fixed: false, note: note ?? sourceNote(source) };
}

function runNote(run: IRun, cells: readonly ICodeCell[]): string | null {
  if (run.status === 'error') {
    return FAILED;
  }
  if (run.status === 'running') {
    return 'still running here; the job runs it again from the start';
  }
  const cell = cells.find(candidate => candidate.id === run.cellId);
  if (cell === undefined) {
    return 'as it was run; the cell was deleted since';
  }
  return cell.source === run.source ? null : 'as it was run; the cell was edited since';
}

const WARNINGS: readonly [RegExp, string][] = [
  [/(^|[^.\w])input\s*\(/, 'asks for input, which nobody can answer in a job'],
  [/^\s*[%!]\s*(pip|conda|mamba)\s+install/m, 'installs packages each time'],
  [/^\s*%?%?(system|sx|bash|sh)\b|^\s*!/m, 'runs shell commands again']
];

/** What a source does that a replay should be warned about, or null. */
export function sourceNote(source: string): string | null {
  return WARNINGS.find(([pattern]) => pattern.test(source))?.[1] ?? null;
}

function finished(
  entries: readonly IPrefixEntry[],
  cells: readonly ICodeCell[],
  targets: ReadonlySet<string>
): IPrefixEntry[] {
  const skipped = new Set(cells.filter(cell => cell.tags.includes(SKIP)).map(cell => cell.id));
  const known = new Set(entries.map(item => item.cellId));
  const setup = cells
    .filter(cell => cell.tags.includes(SETUP) && !known.has(cell.id) && !targets.has(cell.id))
    .map(cell => ({ ...entry(cell.id, cell.source, null, `tagged ${SETUP}: always runs`), fixed: true }));
  const listed = entries.filter(item => !skipped.has(item.cellId));
  return [...setup, ...listed].map((item, index) => ({ ...item, key: `${index}-${item.cellId}` }));
}

/** Leaves one entry in or out. */
export function toggled(entries: readonly IPrefixEntry[], key: string): IPrefixEntry[] {
  return entries.map(item =>
    item.key === key && !item.fixed ? { ...item, included: !item.included } : item
  );
}

/** Some cell is there more than once. */
export function hasRepeats(entries: readonly IPrefixEntry[]): boolean {
  const included = entries.filter(item => item.included);
  return new Set(included.map(item => item.cellId)).size < included.length;
}

/** Leaves out all but the last run of each cell. */
export function lastRuns(entries: readonly IPrefixEntry[]): IPrefixEntry[] {
  const last = new Map(entries.filter(item => item.included).map(item => [item.cellId, item.key]));
  return entries.map(item => ({ ...item, included: item.included && last.get(item.cellId) === item.key }));
}

/** What goes along with the request. */
export function chosen(entries: readonly IPrefixEntry[]): PrefixCell[] {
  return entries
    .filter(item => item.included)
    .map(item => ({ cell_id: item.cellId, source: item.source, seconds: item.seconds }));
}

/** Seconds that the chosen cells took here; null when none is known. */
export function knownSeconds(entries: readonly IPrefixEntry[]): number | null {
  const known = entries.filter(item => item.included && item.seconds !== null);
  return known.length === 0 ? null : known.reduce((sum, item) => sum + (item.seconds ?? 0), 0);
}

/** The first line that says something, for a list. */
export function title(source: string): string {
  const lines = source.split('\n').map(line => line.trim());
  return lines.find(line => line !== '' && !line.startsWith('#')) ?? lines.find(line => line !== '') ?? '';
}
