import { readFileSync } from 'fs';
import { resolve } from 'path';

import type { IOutput } from '@jupyterlab/nbformat';

import { foldEvents, toModelOutputs, planSteps } from '../outputs';
import type { OutputEvent } from '../wire';

interface ICase {
  name: string;
  events: OutputEvent[];
  cells: Record<string, IOutput[]>;
}

const CASES = JSON.parse(
  readFileSync(resolve(__dirname, '../../../tests/data/outputs.json'), 'utf-8')
) as ICase[];

const stream = (text: string, name = 'stdout'): IOutput => ({ output_type: 'stream', name, text });
const display = (text: string): IOutput => ({
  output_type: 'display_data',
  data: { 'text/plain': text },
  metadata: {}
});

describe('the fold of numbered output', () => {
  it.each(CASES.map(shared => [shared.name, shared] as const))('shared case: %s', (_, shared) => {
    expect(Object.fromEntries(foldEvents(shared.events))).toEqual(shared.cells);
  });

  it.each(CASES.map(shared => [shared.name, shared] as const))('in two halves, case: %s', (_, shared) => {
    const half = Math.floor(shared.events.length / 2);
    const first = foldEvents(shared.events.slice(0, half));
    expect(Object.fromEntries(foldEvents(shared.events.slice(half), first))).toEqual(shared.cells);
  });

  it('leaves what it was given as it was', () => {
    const before = foldEvents([{ seq: 1, run: 1, at: 0, op: 'append', cell: 'a', output: stream('one') }]);
    foldEvents([{ seq: 2, run: 1, at: 0, op: 'append', cell: 'a', output: stream(' two') }], before);
    expect(before.get('a')).toEqual([stream('one')]);
  });
});

describe('what a notebook model holds', () => {
  it('does not hold a carriage return that waits', () => {
    expect(toModelOutputs([stream('10%\r')])).toEqual([stream('10%')]);
  });

  it('joins neighbours of one stream', () => {
    expect(toModelOutputs([stream('a'), stream('b'), stream('c', 'stderr')])).toEqual([
      stream('ab'),
      stream('c', 'stderr')
    ]);
  });
});

/** Carries out the steps on a list, as the notebook model does. */
function carriedOut(present: readonly IOutput[], wanted: readonly IOutput[]): IOutput[] {
  let outputs = [...present];
  for (const step of planSteps(present, wanted)) {
    if (step.kind === 'add') {
      outputs.push(step.output);
    } else if (step.kind === 'set') {
      outputs[step.index] = step.output;
    } else if (step.kind === 'rewrite') {
      outputs = [...step.outputs];
    } else {
      const { text } = outputs[step.index] as { text: string };
      outputs[step.index] = { ...outputs[step.index], text: text.slice(0, step.keep) + step.text };
    }
  }
  return outputs;
}

describe('the steps from what is there to what is wanted', () => {
  const LISTS: IOutput[][] = [
    [],
    [stream('a')],
    [stream('ab')],
    [stream('xb')],
    [stream('a', 'stderr')],
    [display('one')],
    [display('one'), stream('a')],
    [display('two'), stream('abc'), display('three')],
    [stream('a'), display('one'), stream('b')]
  ];

  it('always lead there', () => {
    for (const present of LISTS) {
      for (const wanted of LISTS) {
        expect(carriedOut(present, wanted)).toEqual(wanted);
      }
    }
  });

  it('are none when nothing changed', () => {
    LISTS.forEach(list => expect(planSteps(list, JSON.parse(JSON.stringify(list)) as IOutput[])).toEqual([]));
  });

  it('extend a text that grew, and touch nothing else', () => {
    expect(
      planSteps([display('plot'), stream('epoch 1\n')], [display('plot'), stream('epoch 1\nepoch 2\n')])
    ).toEqual([{ kind: 'text', index: 1, keep: 8, text: 'epoch 2\n' }]);
  });

  it('change only the end of a progress line', () => {
    expect(planSteps([stream('a\n10%')], [stream('a\n20%')])).toEqual([
      { kind: 'text', index: 0, keep: 2, text: '20%' }
    ]);
  });
});
