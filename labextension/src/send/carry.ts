/** The choice between running the cells before again and taking their variables along. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IPrefixEntry } from '../bundle/prefix';
import { sendsItself } from '../bundle/prefix';
import { formatBytes } from '../results';
import type { Captured, CaptureRequest, Plan, PrefixCell, Problem } from '../wire';

/** The cells that run first, and the captured variables that go along in place of the others. */
export interface IChosenCells {
  readonly prefix: PrefixCell[];
  /** Ids of the cells that the user left out, one for each run. */
  readonly leftOut: string[];
  /** Id of the capture; null if no variable goes along. */
  readonly capture: string | null;
  /** Name of the software with which they run; "" = that of the notebook. */
  readonly software: string;
}

/** The variables of the kernel, as far as the dialog knows them, and the choice of the user among them. */
export interface ICarry {
  /** Whether variables can go along; null until the server has answered. */
  readonly offer: Plan['carry'] | null;
  /** Keys of the cells that a job leaves out if it replays the cells. */
  readonly unreplayed: ReadonlySet<string>;
  /** Whether the user takes variables along. */
  readonly wanted: boolean;
  /** Names of variables that stay because the user says so. */
  readonly leftOut: ReadonlySet<string>;
  /** Names of variables that the user takes along beside those that the cells use. */
  readonly also: readonly string[];
  /** The variables as they were captured; null while the kernel is asked. */
  readonly captured: Captured | null;
  /** Why the kernel could not be asked. */
  readonly problem: Problem | null;
}

export const REPLAYED: ICarry = {
  offer: null,
  unreplayed: new Set(),
  wanted: false,
  leftOut: new Set(),
  also: [],
  captured: null,
  problem: null
};

/** The part of the choice of variables that the user changes. */
export type VariableChoice = Pick<ICarry, 'leftOut' | 'also'>;

/** Return the state in which the kernel is asked for its variables, with a change of the choice. */
export function askForVariables(carry: ICarry, change: Partial<VariableChoice> = {}): ICarry {
  return { ...carry, ...change, wanted: true, captured: null, problem: null };
}

/** Return the fields of a request with what the user changes. */
export function describeVariables({
  leftOut,
  also
}: VariableChoice): Pick<CaptureRequest, 'left_out_variables' | 'more_variables'> {
  return { left_out_variables: [...leftOut], more_variables: [...also] };
}

/** Return these names with one more, or without it if it was there. */
export function toggleName(names: ReadonlySet<string>, name: string): Set<string> {
  const changed = new Set(names);
  if (!changed.delete(name)) {
    changed.add(name);
  }
  return changed;
}

/** Return the cells that run first: those that the user includes, or of them those whose variables stay. */
export function selectRunning(entries: readonly IPrefixEntry[], carry: ICarry): readonly IPrefixEntry[] {
  const { wanted, captured } = carry;
  const included = entries.filter(entry => entry.included);
  if (!wanted) {
    return included;
  }
  return included.filter((entry, index) => entry.fixed || captured?.replayed.includes(index) === true);
}

/** Return the cells that a job runs first if no variable goes along. */
export function selectReplayed(entries: readonly IPrefixEntry[], carry: ICarry): readonly IPrefixEntry[] {
  return entries.filter(
    ({ key, source, included }) => included && !sendsItself(source) && !carry.unreplayed.has(key)
  );
}

/** Return one line on what goes along, such as "4 variables, 12 MB, go along; 1 stays". */
export function summarizeVariables(captured: Captured, trans: TranslationBundle): string {
  const staying = captured.variables.filter(variable => variable.why !== '').length;
  const going = captured.variables.length - staying;
  const size = formatBytes(captured.bytes);
  const along =
    going === 0
      ? trans.__('No variable goes along')
      : trans._n('%1 variable, %2, goes along', '%1 variables, %2, go along', going, size);
  return staying === 0 ? along : `${along}; ${trans._n('%1 stays', '%1 stay', staying)}`;
}
