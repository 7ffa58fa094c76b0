/**
 * The cells that a job replays before its target cells: proposed by this extension, changed by the user.
 *
 * A proposal comes from the best source that is known: what ran in the kernel, or the order of the document. No run of
 * a target cell is replayed, whatever the cell's source was then. What a cell does is judged by the server.
 *
 * See docs/decisions/0004-replay-cells-instead-of-pickling.md.
 */

import type { RanCell, PrefixCell } from '../wire';

/** A reason why a cell did not succeed when it last ran: an error that it shows, or the end of its job. */
export type Failure = 'failed-before' | 'job-failed' | 'job-cancelled';
/** A note for the user about an entry: it failed here or before, still runs, or is tagged as setup. */
export type EntryNote = 'failed' | Failure | 'running' | 'setup';

/**
 * The origin of a proposal: what ran in the kernel, the part of it that is known, or the order of the document, either
 * because nothing has run or because nothing is known.
 */
export type PrefixSource = 'history' | 'part' | 'nothing-ran' | 'document';

/** A code cell of the notebook in its present form. */
export interface ICodeCell {
  readonly id: string;
  readonly source: string;
  readonly tags: readonly string[];
  /** Why the cell did not succeed when it last ran; null if it did, as far as known. */
  readonly failure: Failure | null;
}

/** A cell that may be replayed. */
export interface IPrefixEntry {
  /** Unique in the list, unlike `cellId`: a cell may be listed several times. */
  readonly key: string;
  readonly cellId: string;
  readonly source: string;
  readonly seconds: number | null;
  /** Whether the cell is known to have run in the kernel. */
  readonly ran: boolean;
  /** Whether the cell is replayed. */
  readonly included: boolean;
  /** Whether the user cannot leave the cell out, because its tag says that it always runs. */
  readonly fixed: boolean;
  /** What only this page knows about the run, also while the cell is left out; null if there is nothing to say. */
  readonly note: EntryNote | null;
}

/** A proposal of the cells that run first, in order. */
export interface IPrefix {
  readonly from: PrefixSource;
  readonly entries: readonly IPrefixEntry[];
}

/** Cells with this tag always run, in document order, before all others. */
const SETUP = 'gq-setup';
/** Cells with this tag are never replayed. */
const SKIP = 'gq-skip';
/** The error of a cell with this tag stops nothing, so the cell counts as one that did not fail. */
const MAY_RAISE = 'raises-exception';
/** A cell that begins with this magic sends itself to training. */
const TRAIN_MAGIC = '%%train';

/**
 * Propose the cells that ran in the kernel, in run order; failed runs are listed but not included.
 *
 * Code without the id of its cell is matched by its source; code without a cell, such as that of a console, is replayed
 * as well.
 */
export function proposeFromRuns(
  runs: readonly RanCell[],
  cells: readonly ICodeCell[],
  targets: ReadonlySet<string>,
  from: 'history' | 'part' = 'history'
): IPrefix {
  const entries = runs
    .filter(run => isReplayable(run.code))
    .map((run, index) => makeRunEntry(run, index, cells))
    .filter(entry => !targets.has(entry.cellId));
  return { from, entries: completeEntries(entries, cells, targets) };
}

/** Return the entry for one run. A cell that sends itself is not replayed as it ran, so its time does not count. */
function makeRunEntry(run: RanCell, index: number, cells: readonly ICodeCell[]): IPrefixEntry {
  const same = cells.find(candidate => candidate.source.trim() === run.code.trim());
  const entry = makeEntry(run.cell_id || same?.id || `history-${index + 1}`, run.code);
  const cell = cells.find(candidate => candidate.id === entry.cellId);
  const failed = run.failed && !mayRaise(cell);
  const note = failed ? 'failed' : run.seconds === null ? 'running' : null;
  const seconds = sendsItself(run.code) ? null : run.seconds;
  return { ...entry, seconds, ran: true, included: !failed, note };
}

/** Return whether the tags of a cell say that its error stops nothing. */
function mayRaise(cell: ICodeCell | undefined): boolean {
  return cell !== undefined && cell.tags.includes(MAY_RAISE);
}

/** Propose all code cells above the first target, in document order, without empty ones; failed ones are not included. */
export function proposeFromDocument(
  cells: readonly ICodeCell[],
  targets: ReadonlySet<string>,
  from: 'nothing-ran' | 'document' = 'document'
): IPrefix {
  const first = cells.findIndex(cell => targets.has(cell.id));
  const entries = cells
    .slice(0, Math.max(0, first))
    .filter(cell => isReplayable(cell.source))
    .map(cell => {
      const note = cell.failure === 'failed-before' && mayRaise(cell) ? null : cell.failure;
      return { ...makeEntry(cell.id, cell.source), included: note === null, note };
    });
  return { from, entries: completeEntries(entries, cells, targets) };
}

/**
 * Return whether a source belongs to a proposal: not if it is empty, or sends itself and leaves nothing to later cells.
 *
 * The server puts a comment in the place of a cell that sends itself, and leaves out what needs its variables.
 */
function isReplayable(source: string): boolean {
  return source.trim() !== '' && (!sendsItself(source) || bringsBack(source));
}

/** Return whether a cell sends itself by its magic, so that no job runs it. */
export function sendsItself(source: string): boolean {
  return source.trimStart().startsWith(TRAIN_MAGIC);
}

/** Return whether a source that sends itself assigns what its job returns, by the options of its magic. */
function bringsBack(source: string): boolean {
  const words = source.trimStart().split('\n', 1)[0].split(/\s+/);
  return words.includes('--wait') && words.some(word => /^--returns(=|$)/.test(word));
}

/** Return an included entry for a cell that is not known to have run. */
function makeEntry(cellId: string, source: string): IPrefixEntry {
  return { key: '', cellId, source, seconds: null, ran: false, included: true, fixed: false, note: null };
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
    .map(cell => ({
      ...makeEntry(cell.id, cell.source),
      fixed: true,
      note: 'setup' as const
    }));
  const listed = entries.filter(item => !skipped.has(item.cellId));
  return [...setup, ...listed].map((item, index) => ({ ...item, key: `${index}-${item.cellId}` }));
}

/** Return the entries with the one of this key switched between replayed and left out; a fixed entry stays. */
export function toggleEntry(entries: readonly IPrefixEntry[], key: string): IPrefixEntry[] {
  return entries.map(item =>
    item.key === key && !item.fixed ? { ...item, included: !item.included } : item
  );
}

/** Return the ids of the cells that the user left out, one for each run; a failed run is left out by the proposal. */
export function listLeftOut(entries: readonly IPrefixEntry[]): string[] {
  return entries.filter(item => !item.included && !hasFailed(item)).map(item => item.cellId);
}

/**
 * Return the entries with the runs left out that the user left out before. `leftOut` has the id of the cell for each of
 * these runs; the first runs of that cell are left out. All other entries stay as proposed.
 *
 * See docs/decisions/0390-repeat-which-cells-were-left-out.md.
 */
export function leaveOutAgain(
  entries: readonly IPrefixEntry[],
  leftOut: readonly string[]
): readonly IPrefixEntry[] {
  const left = new Map<string, number>();
  leftOut.forEach(id => left.set(id, (left.get(id) ?? 0) + 1));
  return entries.map(item => {
    const runs = left.get(item.cellId) ?? 0;
    if (runs === 0 || item.fixed || hasFailed(item)) {
      return item;
    }
    left.set(item.cellId, runs - 1);
    return { ...item, included: false };
  });
}

function hasFailed({ note }: IPrefixEntry): boolean {
  return note !== null && note !== 'running' && note !== 'setup';
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
    .map(item => ({ cell_id: item.cellId, source: item.source, seconds: item.seconds, ran: item.ran }));
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
