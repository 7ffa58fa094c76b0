import type { IRun } from '../bundle/history';
import type { ICodeCell } from '../bundle/prefix';
import {
  selectCells,
  proposeFromDocument,
  proposeFromRuns,
  proposeFromServer,
  hasRepeats,
  sumKnownSeconds,
  keepLastRuns,
  findSourceWarning,
  findTitle,
  toggleEntry
} from '../bundle/prefix';

const cell = (id: string, source = `run_${id}()`, tags: string[] = []): ICodeCell => ({ id, source, tags });
const ran = (cellId: string, given: Partial<IRun> = {}): IRun => ({
  cellId,
  source: `run_${cellId}()`,
  seconds: 1,
  status: 'ok',
  executionCount: 1,
  ...given
});
const TARGET = new Set(['t']);
const NOTEBOOK = [cell('a'), cell('b'), cell('t'), cell('c')];

describe('what is replayed', () => {
  it('is what ran, in run order, without the target itself', () => {
    const prefix = proposeFromRuns([ran('c'), ran('t'), ran('a')], NOTEBOOK, TARGET);
    expect(selectCells(prefix.entries).map(item => item.cell_id)).toEqual(['c', 'a']);
  });

  it('is the source as it was run, and says when the cell was edited or deleted since', () => {
    const prefix = proposeFromRuns([ran('a', { source: 'old()' }), ran('gone')], NOTEBOOK, TARGET);
    expect(prefix.entries.map(item => item.source)).toEqual(['old()', 'run_gone()']);
    expect(prefix.entries[0].note).toContain('edited');
    expect(prefix.entries[1].note).toContain('deleted');
  });

  it('leaves a failed run out, but lists it', () => {
    const prefix = proposeFromRuns([ran('a', { status: 'error' }), ran('b')], NOTEBOOK, TARGET);
    expect(prefix.entries).toHaveLength(2);
    expect(selectCells(prefix.entries).map(item => item.cell_id)).toEqual(['b']);
  });

  it('always begins with cells tagged gq-setup, and never holds gq-skip', () => {
    const cells = [cell('s', 'setup()', ['gq-setup']), cell('a', 'run_a()', ['gq-skip']), cell('t')];
    const prefix = proposeFromRuns([ran('a')], cells, TARGET);
    expect(selectCells(prefix.entries).map(item => item.cell_id)).toEqual(['s']);
    expect(selectCells(toggleEntry(prefix.entries, prefix.entries[0].key))).toHaveLength(1);
  });

  it('from the server is matched to cells by their source, and keeps what has no cell any more', () => {
    const executions = [
      { code: 'run_a()', execution_count: 1, seconds: 2, failed: false },
      { code: 'typed_in_a_console()', execution_count: 2, seconds: null, failed: false },
      { code: 'run_b()', execution_count: 3, seconds: 1, failed: true },
      { code: 'run_t()', execution_count: 4, seconds: 9, failed: false }
    ];
    const prefix = proposeFromServer(executions, NOTEBOOK, TARGET);
    expect(selectCells(prefix.entries).map(item => item.source)).toEqual(['run_a()', 'typed_in_a_console()']);
    expect(prefix.entries[0].cellId).toBe('a');
  });

  it('from the document is what stands above the first target', () => {
    const prefix = proposeFromDocument(NOTEBOOK, TARGET);
    expect(prefix.from).toBe('document');
    expect(selectCells(prefix.entries).map(item => item.cell_id)).toEqual(['a', 'b']);
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

describe('a warning about a source', () => {
  it.each([
    ["name = input('?')", 'input'],
    ['%pip install torch', 'installs'],
    ['!pip install torch', 'installs'],
    ['!ls', 'shell']
  ])('%s', (source, word) => {
    expect(findSourceWarning(source)).toContain(word);
  });

  it.each(['model.input(x)', 'my_input(3)', 'x = 1 != 2', '%matplotlib inline'])('none for %s', source => {
    expect(findSourceWarning(source)).toBeNull();
  });
});

it('a cell is titled by its first line that says something', () => {
  expect(findTitle('\n# a comment\nx = 1')).toBe('x = 1');
  expect(findTitle('# only a comment')).toBe('# only a comment');
  expect(findTitle('  \n')).toBe('');
});
