/** The warnings of the server, each at the cell that it is about. Pure. */

import type { IPrefixEntry } from '../bundle/prefix';
import type { CellWarning } from '../wire';

/** The warnings about the cells of a dialog. */
export interface INotes {
  /** Warnings about all cells together, or about a cell that the dialog does not list. */
  readonly general: readonly string[];
  /** Warnings about each target cell, by its id. */
  readonly targets: ReadonlyMap<string, readonly string[]>;
  /** Warnings about each replayed cell, by the key of its entry. */
  readonly entries: ReadonlyMap<string, readonly string[]>;
  /** Keys of the entries that the job leaves out, although they were sent. */
  readonly leftOut: ReadonlySet<string>;
}

/** The code of the warning that a cell is left out, since it needs what only the target cells make. */
const NEEDS_TARGET = 'needs_target';

export const NO_NOTES: INotes = { general: [], targets: new Map(), entries: new Map(), leftOut: new Set() };

/** Return the warnings of a check in which these entries were sent. */
export function placeWarnings(
  warnings: readonly CellWarning[],
  sent: readonly IPrefixEntry[],
  targets: readonly string[]
): INotes {
  const entryOf = ({ index }: CellWarning): string | null =>
    index === null ? null : (sent[index]?.key ?? null);
  const targetOf = ({ index, cell_id }: CellWarning): string | null =>
    index === null && cell_id !== null && targets.includes(cell_id) ? cell_id : null;
  const lacking = warnings.filter(({ code }) => code === NEEDS_TARGET);
  return {
    general: warnings
      .filter(warning => entryOf(warning) === null && targetOf(warning) === null)
      .map(warning => warning.message),
    targets: groupMessages(warnings, targetOf),
    entries: groupMessages(warnings, entryOf),
    leftOut: new Set(groupMessages(lacking, entryOf).keys())
  };
}

/** Return the messages of the warnings by the key of each, without warnings that have none. */
function groupMessages(
  warnings: readonly CellWarning[],
  keyOf: (warning: CellWarning) => string | null
): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const warning of warnings) {
    const key = keyOf(warning);
    if (key !== null) {
      groups.set(key, [...(groups.get(key) ?? []), warning.message]);
    }
  }
  return groups;
}
