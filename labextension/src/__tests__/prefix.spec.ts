import type { ICodeCell } from '../bundle/prefix';
import {
  selectCells,
  proposeFromDocument,
  proposeFromRuns,
  hasRepeats,
  sumKnownSeconds,
  keepLastRuns,
  findTitle,
  toggleEntry
} from '../bundle/prefix';
import type { RanCell } from '../wire';
import { aRun } from './builders';

const cell = (
  id: string,
  source = `run_${id}()`,
  tags: string[] = [],
  failure: ICodeCell['failure'] = null
): ICodeCell => ({
  id,
  source,
  tags,
  failure
});
const ran = (cell_id: string, given: Partial<RanCell> = {}): RanCell =>
  aRun({ cell_id, code: `run_${cell_id}()`, ...given });
const TARGET = new Set(['t']);
const NOTEBOOK = [cell('a'), cell('b'), cell('t'), cell('c')];

describe('what is replayed', () => {
  it('is what ran, in run order, without the target itself', () => {
    const prefix = proposeFromRuns([ran('c'), ran('t'), ran('a')], NOTEBOOK, TARGET);
    expect(selectCells(prefix.entries).map(item => item.cell_id)).toEqual(['c', 'a']);
  });

  it('is the source as it was run, also of cells that were edited or deleted since', () => {
    const prefix = proposeFromRuns([ran('a', { code: 'old()' }), ran('gone')], NOTEBOOK, TARGET);
    expect(prefix.entries.map(item => item.source)).toEqual(['old()', 'run_gone()']);
  });

  it('is no earlier version of the target, nor what runs the same as the target', () => {
    const runs = [ran('t', { code: 'train(epochs=1)' }), ran('', { code: ' run_t()\n' }), ran('a')];
    const prefix = proposeFromRuns(runs, NOTEBOOK, TARGET);
    expect(prefix.entries.map(item => item.source)).toEqual(['run_a()']);
  });

  it('is no cell that sends itself by its magic', () => {
    const sender = '\n%%train --gpus 1\nfit()';
    const prefix = proposeFromRuns([ran('a', { code: sender }), ran('b')], NOTEBOOK, TARGET);
    expect(prefix.entries.map(item => item.source)).toEqual(['run_b()']);
    const above = proposeFromDocument([cell('s', sender), cell('a'), cell('t')], TARGET);
    expect(above.entries.map(item => item.cellId)).toEqual(['a']);
  });

  it.each(['--wait --returns model', '--gpus 1 --returns=model,loss --wait'])(
    'has a cell that sends itself with %s, whose time was that of the job',
    options => {
      const sender = `\n%%train ${options}\nmodel = fit()`;
      const runs = [ran('a', { code: sender, seconds: 900 }), ran('b')];
      const prefix = proposeFromRuns(runs, NOTEBOOK, TARGET);
      expect(prefix.entries.map(({ source, note }) => [source, note])).toEqual([
        [sender, null],
        ['run_b()', null]
      ]);
      expect(selectCells(prefix.entries)[0]).toEqual({
        cell_id: 'a',
        source: sender,
        seconds: null,
        ran: true
      });
      expect(sumKnownSeconds(prefix.entries)).toBe(1);
      const above = proposeFromDocument([cell('s', sender), cell('t')], TARGET);
      expect(above.entries.map(item => item.cellId)).toEqual(['s']);
    }
  );

  it.each(['--wait', '--returns model', '--returns-later --wait', '\n--wait --returns model'])(
    'has no cell that sends itself with %j, which assigns nothing here',
    options => {
      const prefix = proposeFromRuns([ran('a', { code: `%%train ${options}\nfit()` })], NOTEBOOK, TARGET);
      expect(prefix.entries).toEqual([]);
    }
  );

  it('leaves a failed run out, but lists it', () => {
    const prefix = proposeFromRuns([ran('a', { failed: true }), ran('b')], NOTEBOOK, TARGET);
    expect(prefix.entries).toHaveLength(2);
    expect(selectCells(prefix.entries).map(item => item.cell_id)).toEqual(['b']);
  });

  it('has a cell that may raise, also if it did', () => {
    const cells = [cell('a', 'run_a()', ['raises-exception'], 'failed-before'), cell('t')];
    const runs = proposeFromRuns([ran('a', { failed: true })], cells, TARGET);
    for (const { entries } of [runs, proposeFromDocument(cells, TARGET)]) {
      expect(entries.map(item => [item.cellId, item.included, item.note])).toEqual([['a', true, null]]);
    }
  });

  it('always begins with cells tagged gq-setup, and never holds gq-skip', () => {
    const cells = [cell('s', 'setup()', ['gq-setup']), cell('a', 'run_a()', ['gq-skip']), cell('t')];
    const prefix = proposeFromRuns([ran('a')], cells, TARGET);
    expect(selectCells(prefix.entries).map(item => item.cell_id)).toEqual(['s']);
    expect(selectCells(toggleEntry(prefix.entries, prefix.entries[0].key))).toHaveLength(1);
  });

  it('is matched to cells by the source where the cell is not known, and keeps what has no cell', () => {
    const runs = [
      ran('', { code: 'run_a()', seconds: 2 }),
      ran('', { code: 'typed_in_a_console()' }),
      ran('', { code: 'run_b()', failed: true })
    ];
    const prefix = proposeFromRuns(runs, NOTEBOOK, TARGET, 'part');
    expect(prefix.from).toBe('part');
    expect(selectCells(prefix.entries).map(item => item.source)).toEqual(['run_a()', 'typed_in_a_console()']);
    expect(prefix.entries.map(item => item.cellId)).toEqual(['a', 'history-2', 'b']);
  });

  it('says that a cell still runs here', () => {
    const { entries } = proposeFromRuns([ran('a'), ran('b', { seconds: null })], NOTEBOOK, TARGET);
    expect(entries.map(item => [item.included, item.note])).toEqual([
      [true, null],
      [true, 'running']
    ]);
  });

  it('from the document is what stands above the first target', () => {
    const prefix = proposeFromDocument(NOTEBOOK, TARGET);
    expect(prefix.from).toBe('document');
    expect(selectCells(prefix.entries).map(item => item.cell_id)).toEqual(['a', 'b']);
  });

  it('from the document leaves out a cell that shows an error, and is not known to have run', () => {
    const cells = [cell('a'), cell('b', 'run_b()', [], 'failed-before'), cell('t')];
    const { from, entries } = proposeFromDocument(cells, TARGET, 'nothing-ran');
    expect([from, selectCells(entries)]).toEqual([
      'nothing-ran',
      [{ cell_id: 'a', source: 'run_a()', seconds: null, ran: false }]
    ]);
    expect(entries[1].note).toBe('failed-before');
  });

  it('can be thinned to the last run of each cell', () => {
    const { entries } = proposeFromRuns([ran('a'), ran('b'), ran('a', { seconds: 5 })], NOTEBOOK, TARGET);
    expect(hasRepeats(entries)).toBe(true);
    const thin = keepLastRuns(entries);
    expect(selectCells(thin).map(item => item.cell_id)).toEqual(['b', 'a']);
    expect(hasRepeats(thin)).toBe(false);
    expect(sumKnownSeconds(thin)).toBe(6);
  });

  it('says how long it took only when that is known', () => {
    expect(sumKnownSeconds(proposeFromDocument(NOTEBOOK, TARGET).entries)).toBeNull();
  });
});

it('a cell is titled by its first line that says something', () => {
  expect(findTitle('\n# a comment\nx = 1')).toBe('x = 1');
  expect(findTitle('# only a comment')).toBe('# only a comment');
  expect(findTitle('  \n')).toBe('');
});
