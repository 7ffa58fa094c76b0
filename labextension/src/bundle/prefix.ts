/**
 * The cells that a job replays before its target cells: proposed by this extension, changed by the user.
 *
 * A proposal comes from the best source that is known: the page's own history of the kernel, the server's history of
 * the kernel, or the order of the document. A target cell is never replayed.
 *
 * See docs/decisions/0004-replay-cells-instead-of-pickling.md.
 */

import type { RanCell, PrefixCell } from '../wire';
import type { IRun } from './history';

/** The origin of a proposal. */
export type PrefixSource = 'history' | 'server' | 'document';

/** A code cell of the notebook in its present form. */
export interface ICodeCell {
  readonly id: string;
  readonly source: string;
  readonly tags: readonly string[];
}

/** A cell that may be replayed. */
export interface IPrefixEntry {
  /** Unique in the list, unlike `cellId`: a cell may be listed several times. */
  readonly key: string;
  readonly cellId: string;
  readonly source: string;
  readonly seconds: number | null;
  /** Whether the cell is replayed. */
  readonly included: boolean;
  /** Whether the user cannot leave the cell out, because its tag says that it always runs. */
  readonly fixed: boolean;
  /** A warning for the user, or null. */
  readonly note: string | null;
}

/** A proposal. */
export interface IPrefix {
  readonly from: PrefixSource;
  readonly entries: readonly IPrefixEntry[];
}

/** Cells with this tag always run, in document order, before all others. */
const SETUP = 'gq-setup';
/** Cells with this tag are never replayed. */
const SKIP = 'gq-skip';
const FAILED = 'ended with an error here';

/** Propose the cells that this page saw run in the kernel, in run order; failed runs are listed but not included. */
export function proposeFromRuns(
  runs: readonly IRun[],
  cells: readonly ICodeCell[],
  targets: ReadonlySet<string>
): IPrefix {
  const entries = runs
    .filter(run => !targets.has(run.cellId) && run.source.trim() !== '')
    .map(run => ({
      ...makeEntry(run.cellId, run.source, run.seconds, describeRun(run, cells)),
      included: run.status !== 'error'
    }));
  return { from: 'history', entries: completeEntries(entries, cells, targets) };
}

/**
 * Propose the code that the server saw run in the kernel, in run order; failed runs are listed but not included.
 *
 * Code is matched to cells by its source. Code without a cell, such as that of a console, is replayed as well.
 */
export function proposeFromServer(
  executions: readonly RanCell[],
  cells: readonly ICodeCell[],
  targets: ReadonlySet<string>
): IPrefix {
  const target = cells.filter(cell => targets.has(cell.id)).map(cell => cell.source.trim());
  const entries = executions
    .filter(execution => execution.code.trim() !== '' && !target.includes(execution.code.trim()))
    .map((execution, index) => makeServerEntry(execution, index, cells));
  return { from: 'server', entries: completeEntries(entries, cells, targets) };
}

/** Return the entry for one execution that the server saw. */
function makeServerEntry(execution: RanCell, index: number, cells: readonly ICodeCell[]): IPrefixEntry {
  const cell = cells.find(candidate => candidate.source.trim() === execution.code.trim());
  const cellId = cell?.id ?? `history-${index + 1}`;
  if (execution.failed) {
    return { ...makeEntry(cellId, execution.code, execution.seconds, FAILED), included: false };
  }
  const note = cell === undefined ? 'as it was run; the cell was changed or deleted since' : null;
  return makeEntry(cellId, execution.code, execution.seconds, note);
}

/** Propose all code cells above the first target, in document order, without empty ones. */
export function proposeFromDocument(cells: readonly ICodeCell[], targets: ReadonlySet<string>): IPrefix {
  const first = cells.findIndex(cell => targets.has(cell.id));
  const entries = cells
    .slice(0, Math.max(0, first))
    .filter(cell => cell.source.trim() !== '')
    .map(cell => makeEntry(cell.id, cell.source, null, null));
  return { from: 'document', entries: completeEntries(entries, cells, targets) };
}

/** Return an included entry; without a `note`, the source itself may give one. */
function makeEntry(
  cellId: string,
  source: string,
  seconds: number | null,
  note: string | null
): IPrefixEntry {
  return {
    key: '',
    cellId,
    source,
    seconds,
    included: true,
    fixed: false,
    note: note ?? findSourceWarning(source)
  };
}

/** Return what the user should know about replaying a run, or null. */
function describeRun(run: IRun, cells: readonly ICodeCell[]): string | null {
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

/** Return a phrase on what a source does that is a problem in a replay; null if nothing is found. */
export function findSourceWarning(source: string): string | null {
  return WARNINGS.find(([pattern]) => pattern.test(source))?.[1] ?? null;
}

/** Return the entries with the tagged cells added or left out, and with a key each. */
function completeEntries(
  entries: readonly IPrefixEntry[],
  cells: readonly ICodeCell[],
  targets: ReadonlySet<string>
): IPrefixEntry[] {
  const skipped = new Set(cells.filter(cell => cell.tags.includes(SKIP)).map(cell => cell.id));
  const known = new Set(entries.map(item => item.cellId));
  const setup = cells
    .filter(cell => cell.tags.includes(SETUP) && !known.has(cell.id) && !targets.has(cell.id))
    .map(cell => ({ ...makeEntry(cell.id, cell.source, null, `tagged ${SETUP}: always runs`), fixed: true }));
  const listed = entries.filter(item => !skipped.has(item.cellId));
  return [...setup, ...listed].map((item, index) => ({ ...item, key: `${index}-${item.cellId}` }));
}

/** Return the entries with the one of this key switched between replayed and left out; a fixed entry stays. */
export function toggleEntry(entries: readonly IPrefixEntry[], key: string): IPrefixEntry[] {
  return entries.map(item =>
    item.key === key && !item.fixed ? { ...item, included: !item.included } : item
  );
}

/** Return whether the included entries replay any cell more than once. */
export function hasRepeats(entries: readonly IPrefixEntry[]): boolean {
  const included = entries.filter(item => item.included);
  return new Set(included.map(item => item.cellId)).size < included.length;
}

/** Return the entries with all but the last run of each cell left out. */
export function keepLastRuns(entries: readonly IPrefixEntry[]): IPrefixEntry[] {
  const last = new Map(entries.filter(item => item.included).map(item => [item.cellId, item.key]));
  return entries.map(item => ({ ...item, included: item.included && last.get(item.cellId) === item.key }));
}

/** Return the cells that are replayed, as the request has them. */
export function selectCells(entries: readonly IPrefixEntry[]): PrefixCell[] {
  return entries
    .filter(item => item.included)
    .map(item => ({ cell_id: item.cellId, source: item.source, seconds: item.seconds }));
}

/** Return the seconds that the replayed cells took here, as far as known; null if none is known. */
export function sumKnownSeconds(entries: readonly IPrefixEntry[]): number | null {
  const known = entries.filter(item => item.included && item.seconds !== null);
  return known.length === 0 ? null : known.reduce((sum, item) => sum + (item.seconds ?? 0), 0);
}

/** Return the first line of a source that is not a comment, or its first comment. */
export function findTitle(source: string): string {
  const lines = source.split('\n').map(line => line.trim());
  return lines.find(line => line !== '' && !line.startsWith('#')) ?? lines.find(line => line !== '') ?? '';
}
