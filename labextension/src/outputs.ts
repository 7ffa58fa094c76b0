/**
 * The numbered pieces of a job's output, and how they fold into the outputs of a cell.
 *
 * `jupyter_gq/client/outputs/fold.py` has the same fold; `tests/data/outputs.json` has the cases that both must pass.
 * The outputs of a cell are a pure function of the pieces. Applying the pieces again, from the start or in another tab,
 * gives the same outputs and never doubles them.
 *
 * See docs/decisions/0057-types-of-the-lab-extension-from-the-openapi-document.md.
 */

import type { IOutput } from '@jupyterlab/nbformat';
import { JSONExt } from '@lumino/coreutils';

import type { OutputEvent } from './wire';

/** Outputs by cell id. */
export type CellOutputs = ReadonlyMap<string, readonly IOutput[]>;

/** Return the outputs of each cell after applying these pieces to `into`, which is not changed. */
export function foldEvents(events: Iterable<OutputEvent>, into: CellOutputs = new Map()): CellOutputs {
  const cells = new Map<string, readonly IOutput[]>(into);
  for (const event of events) {
    if (event.cell !== undefined) {
      cells.set(event.cell, applyEvent(event, cells.get(event.cell) ?? []));
    }
  }
  return cells;
}

/**
 * Return the ids of the cells that ran to their end in the last run of a job, after applying these pieces to `into`, which
 * is not changed. A run that begins anew has ended no cell yet.
 */
export function findEnded(events: Iterable<OutputEvent>, into: ReadonlySet<string>): ReadonlySet<string> {
  let ended = into;
  for (const { op, state, cell, finished } of events) {
    if (op === 'run' && state === 'start') {
      ended = new Set();
    } else if (op === 'cell' && state === 'end' && cell !== undefined && finished === true) {
      ended = new Set(ended).add(cell);
    }
  }
  return ended;
}

function applyEvent(event: OutputEvent, outputs: readonly IOutput[]): readonly IOutput[] {
  // The OpenAPI document says only that outputs are objects; nbformat defines their fields.
  const output = event.output as IOutput | undefined;
  switch (event.op) {
    case 'append':
      return output === undefined ? outputs : appendOutput(outputs, output);
    case 'replace':
      return replaceOutput(outputs, event.index, output);
    case 'clear':
      return [];
    case 'set':
      return (event.outputs as IOutput[] | undefined) ?? outputs;
    default:
      return outputs;
  }
}

/** Return the outputs with output number `index` replaced; unchanged if there is no such output. */
function replaceOutput(
  outputs: readonly IOutput[],
  index: number | undefined,
  output: IOutput | undefined
): readonly IOutput[] {
  if (index === undefined || output === undefined || index >= outputs.length) {
    return outputs;
  }
  return [...outputs.slice(0, index), output, ...outputs.slice(index + 1)];
}

/** Return the outputs with one more; text of the same stream as the last output continues it. */
function appendOutput(outputs: readonly IOutput[], output: IOutput): readonly IOutput[] {
  if (output.output_type !== 'stream') {
    return [...outputs, output];
  }
  const last = outputs.length > 0 ? outputs[outputs.length - 1] : null;
  if (last !== null && last.output_type === 'stream' && last.name === output.name) {
    const text = appendText(readStreamText(last), readStreamText(output));
    return [...outputs.slice(0, -1), { ...last, text }];
  }
  return [...outputs, { ...output, text: collapseText(readStreamText(output)) }];
}

/** Return `collapseText(before + more)`; `before` is collapsed already, so only its last line is processed again. */
function appendText(before: string, more: string): string {
  const line = before.lastIndexOf('\n') + 1;
  return before.slice(0, line) + collapseText(before.slice(line) + more);
}

/** Return the text of a stream output, which a file may hold as a list of lines; "" if there is none. */
function readStreamText(output: IOutput): string {
  const text = output.text;
  return Array.isArray(text) ? text.join('') : typeof text === 'string' ? text : '';
}

/**
 * Return what a terminal would show: a carriage return overwrites the line, a backspace removes one character.
 *
 * A carriage return at the very end is kept, because text that follows still overwrites the line.
 */
function collapseText(text: string): string {
  if (!/[\r\b]/.test(text)) {
    return text;
  }
  return text.replace(/\r\n/g, '\n').split('\n').map(collapseLine).join('\n');
}

function collapseLine(line: string): string {
  if (!/[\r\b]/.test(line)) {
    return line;
  }
  const open = line.endsWith('\r');
  let shown: string[] = [];
  for (const part of (open ? line.slice(0, -1) : line).split('\r')) {
    const written = applyBackspaces(part);
    shown = [...written, ...shown.slice(written.length)];
  }
  return shown.join('') + (open ? '\r' : '');
}

/** Return the characters that backspaces leave. Characters are code points, as in Python, not UTF-16 units. */
function applyBackspaces(text: string): string[] {
  const kept: string[] = [];
  for (const character of text) {
    if (character === '\b') {
      kept.pop();
    } else {
      kept.push(character);
    }
  }
  return kept;
}

/**
 * Return the outputs as a notebook model holds them.
 *
 * A carriage return at the end is left out, and neighbours of the same stream are one output.
 */
export function toModelOutputs(outputs: readonly IOutput[]): IOutput[] {
  const result: IOutput[] = [];
  for (const output of outputs) {
    const last = result.length > 0 ? result[result.length - 1] : null;
    if (output.output_type !== 'stream') {
      result.push(output);
    } else if (last !== null && last.output_type === 'stream' && last.name === output.name) {
      result[result.length - 1] = { ...last, text: readStreamText(last) + toModelText(output) };
    } else {
      result.push({ ...output, text: toModelText(output) });
    }
  }
  return result;
}

function toModelText(output: IOutput): string {
  const text = readStreamText(output);
  return text.includes('\r') ? text.replace(/\r+$/gm, '') : text;
}

/** A change to the outputs in a notebook model. */
export type Step =
  /** Keep the first `keep` characters of a stream's text, then append `text`. */
  | { readonly kind: 'text'; readonly index: number; readonly keep: number; readonly text: string }
  | { readonly kind: 'set'; readonly index: number; readonly output: IOutput }
  | { readonly kind: 'add'; readonly output: IOutput }
  | { readonly kind: 'rewrite'; readonly outputs: readonly IOutput[] };

/**
 * Return the fewest changes that turn `present` into `wanted`, so that nothing flickers.
 *
 * Growing text is extended and equal outputs are left alone. If an output must go or a stream changes its place, all
 * outputs are rewritten, because JupyterLab's model cannot remove single outputs safely.
 */
export function planSteps(present: readonly IOutput[], wanted: readonly IOutput[]): Step[] {
  const plan: Step[] = [];
  if (present.length > wanted.length) {
    return [{ kind: 'rewrite', outputs: wanted }];
  }
  for (let index = 0; index < wanted.length; index++) {
    const output = wanted[index];
    if (index >= present.length) {
      plan.push({ kind: 'add', output });
    } else if (!areEqual(present[index], output)) {
      const step = planChange(present[index], output, index);
      if (step === null) {
        return [{ kind: 'rewrite', outputs: wanted }];
      }
      plan.push(step);
    }
  }
  return plan;
}

/** The beginning of a plan. */
export interface IPortion {
  readonly steps: readonly Step[];
  /** Whether this is the whole plan. */
  readonly isWhole: boolean;
}

/**
 * Return the first steps of a plan, with outputs of about `most` characters, and at least one.
 *
 * Of a rewriting, the outputs at the beginning are taken; a later plan adds the rest. The page can answer its user
 * between two portions.
 */
export function takePortion(plan: readonly Step[], most: number): IPortion {
  const steps: Step[] = [];
  let left = most;
  for (const step of plan) {
    if (step.kind === 'rewrite') {
      const count = countWithin(step.outputs, left);
      steps.push({ ...step, outputs: step.outputs.slice(0, count) });
      return { steps, isWhole: count === step.outputs.length };
    }
    left -= step.kind === 'text' ? step.text.length : measure(step.output);
    if (left < 0 && steps.length > 0) {
      return { steps, isWhole: false };
    }
    steps.push(step);
  }
  return { steps, isWhole: true };
}

/** Return how many outputs at the beginning have `most` characters together; two at least: the placeholder and one more. */
function countWithin(outputs: readonly IOutput[], most: number): number {
  let [count, left] = [0, most];
  for (const output of outputs) {
    left -= measure(output);
    if (left < 0 && count >= 2) {
      break;
    }
    count++;
  }
  return count;
}

/** Return about how many characters an output has. */
function measure(output: IOutput): number {
  const data = Object.values((output.data ?? {}) as Record<string, unknown>);
  return data.reduce<number>(
    (sum, value) => sum + (typeof value === 'string' ? value.length : 1000),
    readStreamText(output).length
  );
}

/** Return the change from one output to another at the same place; null if all outputs must be rewritten. */
function planChange(before: IOutput, after: IOutput, index: number): Step | null {
  const streams = [before, after].filter(output => output.output_type === 'stream').length;
  if (streams === 0) {
    return { kind: 'set', index, output: after };
  }
  if (streams === 1 || before.name !== after.name) {
    return null;
  }
  const text = readStreamText(after);
  const keep = countCommonCharacters(readStreamText(before), text);
  return { kind: 'text', index, keep, text: text.slice(keep) };
}

/** Return the length of the longest common beginning of two texts. */
function countCommonCharacters(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  if (one.slice(0, most) === other.slice(0, most)) {
    return most;
  }
  let length = 0;
  while (one[length] === other[length]) {
    length++;
  }
  return length;
}

function areEqual(one: IOutput, other: IOutput): boolean {
  return one === other || JSONExt.deepEqual(one, other);
}
