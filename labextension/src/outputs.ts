/**
 * The numbered output of a job, and how it folds into the outputs of a cell.
 *
 * The same fold stands in `jupyter_gq/client/outputs.py`; `tests/data/outputs.json` holds the cases that both pass.
 * The state of a cell is a pure function of the pieces, so that applying them again, from the start or in another tab,
 * gives the same outputs and never doubles them.
 */

import type { IOutput } from '@jupyterlab/nbformat';

import type { OutputEvent } from './wire';

export type CellOutputs = ReadonlyMap<string, readonly IOutput[]>;

/** The outputs of each cell after these pieces; `into` is left as it was. */
export function fold(events: Iterable<OutputEvent>, into: CellOutputs = new Map()): CellOutputs {
  const cells = new Map<string, readonly IOutput[]>(into);
  for (const event of events) {
    if (event.cell !== undefined) {
      cells.set(event.cell, applied(event, cells.get(event.cell) ?? []));
    }
  }
  return cells;
}

function applied(event: OutputEvent, outputs: readonly IOutput[]): readonly IOutput[] {
  // The document of the service says only that outputs are objects: nbformat says the rest.
  const output = event.output as IOutput | undefined;
  switch (event.op) {
    case 'append':
      return output === undefined ? outputs : appended(outputs, output);
    case 'replace':
      return replaced(outputs, event.index, output);
    case 'clear':
      return [];
    case 'set':
      return (event.outputs as IOutput[] | undefined) ?? outputs;
    default:
      return outputs;
  }
}

function replaced(
  outputs: readonly IOutput[],
  index: number | undefined,
  output: IOutput | undefined
): readonly IOutput[] {
  if (index === undefined || output === undefined || index >= outputs.length) {
    return outputs;
  }
  return [...outputs.slice(0, index), output, ...outputs.slice(index + 1)];
}

function appended(outputs: readonly IOutput[], output: IOutput): readonly IOutput[] {
  if (output.output_type !== 'stream') {
    return [...outputs, output];
  }
  const last = outputs.length > 0 ? outputs[outputs.length - 1] : null;
  if (last !== null && last.output_type === 'stream' && last.name === output.name) {
    const text = collapse(streamText(last) + streamText(output));
    return [...outputs.slice(0, -1), { ...last, text }];
  }
  return [...outputs, { ...output, text: collapse(streamText(output)) }];
}

/** The text of a stream output, which a file may hold as a list of lines. */
export function streamText(output: IOutput): string {
  const text = output.text;
  return Array.isArray(text) ? text.join('') : typeof text === 'string' ? text : '';
}

/**
 * What a terminal would show: text before a carriage return is overwritten, a backspace removes one character.
 *
 * A carriage return at the very end is kept, so that what follows still overwrites the line.
 */
export function collapse(text: string): string {
  if (!/[\r\b]/.test(text)) {
    return text;
  }
  return text.replace(/\r\n/g, '\n').split('\n').map(collapsedLine).join('\n');
}

function collapsedLine(line: string): string {
  if (!/[\r\b]/.test(line)) {
    return line;
  }
  const open = line.endsWith('\r');
  let shown: string[] = [];
  for (const part of (open ? line.slice(0, -1) : line).split('\r')) {
    const written = withBackspaces(part);
    shown = [...written, ...shown.slice(written.length)];
  }
  return shown.join('') + (open ? '\r' : '');
}

/** By characters, not UTF-16 units, as Python counts them. */
function withBackspaces(text: string): string[] {
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
 * As a notebook model holds them: a carriage return that still waits for what follows is not shown, and neighbours of one
 * stream are one output.
 */
export function shown(outputs: readonly IOutput[]): IOutput[] {
  const result: IOutput[] = [];
  for (const output of outputs) {
    const last = result.length > 0 ? result[result.length - 1] : null;
    if (output.output_type !== 'stream') {
      result.push(output);
    } else if (last !== null && last.output_type === 'stream' && last.name === output.name) {
      result[result.length - 1] = { ...last, text: streamText(last) + shownText(output) };
    } else {
      result.push({ ...output, text: shownText(output) });
    }
  }
  return result;
}

function shownText(output: IOutput): string {
  return streamText(output).replace(/\r+$/gm, '');
}

/** One change of the outputs in a notebook model. */
export type Step =
  /** Text of a stream: keep that many characters, then append. */
  | { readonly kind: 'text'; readonly index: number; readonly keep: number; readonly text: string }
  | { readonly kind: 'set'; readonly index: number; readonly output: IOutput }
  | { readonly kind: 'add'; readonly output: IOutput }
  | { readonly kind: 'rewrite'; readonly outputs: readonly IOutput[] };

/**
 * The changes that make `present` into `wanted`, touching as little as possible, so that nothing flickers: a growing text
 * is extended, equal outputs are left alone. Where outputs must go away or a stream changes its place, all are rewritten:
 * the model of JupyterLab cannot remove single outputs safely.
 */
export function steps(present: readonly IOutput[], wanted: readonly IOutput[]): Step[] {
  const plan: Step[] = [];
  if (present.length > wanted.length) {
    return [{ kind: 'rewrite', outputs: wanted }];
  }
  for (let index = 0; index < wanted.length; index++) {
    const output = wanted[index];
    if (index >= present.length) {
      plan.push({ kind: 'add', output });
    } else if (!same(present[index], output)) {
      const step = change(present[index], output, index);
      if (step === null) {
        return [{ kind: 'rewrite', outputs: wanted }];
      }
      plan.push(step);
    }
  }
  return plan;
}

function change(before: IOutput, after: IOutput, index: number): Step | null {
  const streams = [before, after].filter(output => output.output_type === 'stream').length;
  if (streams === 0) {
    return { kind: 'set', index, output: after };
  }
  if (streams === 1 || before.name !== after.name) {
    return null;
  }
  const text = streamText(after);
  const keep = commonLength(streamText(before), text);
  return { kind: 'text', index, keep, text: text.slice(keep) };
}

function commonLength(one: string, other: string): number {
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

function same(one: IOutput, other: IOutput): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
