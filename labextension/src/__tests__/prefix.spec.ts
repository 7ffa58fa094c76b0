import type { IRun } from '../bundle/history';
import type { ICodeCell } from '../bundle/prefix';
import {
  chosen,
  fromDocument,
  fromRuns,
  fromServer,
  hasRepeats,
  knownSeconds,
  lastRuns,
  sourceNote,
  title,
  toggled
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
    const prefix = fromRuns([ran('c'), ran('t'), ran('a')], NOTEBOOK, TARGET);
    expect(chosen(prefix.entries).map(item => item.cell_id)).toEqual(['c', 'a']);
  });

  it('is the source as it was run, and says when the cell was edited or deleted since', () => {
    const prefix = fromRuns([ran('a', { source: 'old()' }), ran('gone')], NOTEBOOK, TARGET);
    expect(prefix.entries.map(item => item.source)).toEqual(['old()', 'run_gone()']);
    expect(prefix.entries[0].note).toContain('edited');
    expect(prefix.entries[1].note).toContain('deleted');
  });

  it('leaves a failed run out, but lists it', () => {
    const prefix = fromRuns([ran('a', { status: 'error' }), ran('b')], NOTEBOOK, TARGET);
    expect(prefix.entries).toHaveLength(2);
    expect(chosen(prefix.entries).map(item => item.cell_id)).toEqual(['b']);
  });

  it('always begins with cells tagged gq-setup, and never holds gq-skip', () => {
    const cells = [cell('s', 'setup()', ['gq-setup']), cell('a', 'run_a()', ['gq-skip']), cell('t')];
    const prefix = fromRuns([ran('a')], cells, TARGET);
    expect(chosen(prefix.entries).map(item => item.cell_id)).toEqual(['s']);
    expect(chosen(toggled(prefix.entries, prefix.entries[0].key))).toHaveLength(1);
  });

  it('from the server is matched to cells by their source, and keeps what has no cell any more', () => {
    const executions = [
      { code: 'run_a()', execution_count: 1, seconds: 2, failed: false },
      { code: 'typed_in_a_console()', execution_count: 2, seconds: null, failed: false },
      { code: 'run_b()', execution_count: 3, seconds: 1, failed: true },
      { code: 'run_t()', execution_count: 4, seconds: 9, failed: false }
    ];
    const prefix = fromServer(executions, NOTEBOOK, TARGET);
    expect(chosen(prefix.entries).map(item => item.source)).toEqual(['run_a()', 'typed_in_a_console()']);
    expect(prefix.entries[0].cellId).toBe('a');
  });

  it('from the document is what stands above the first target', () => {
    const prefix = fromDocument(NOTEBOOK, TARGET);
    expect(prefix.from).toBe('document');
    expect(chosen(prefix.entries).map(item => item.cell_id)).toEqual(['a', 'b']);
  });

  it('can be thinned to the last run of each cell', () => {
    const { entries } = fromRuns([ran('a'), ran('b'), ran('a', { seconds: 5 })], NOTEBOOK, TARGET);
    expect(hasRepeats(entries)).toBe(true);
    const thin = lastRuns(entries);
    expect(chosen(thin).map(item => item.cell_id)).toEqual(['b', 'a']);
    expect(hasRepeats(thin)).toBe(false);
    expect(knownSeconds(thin)).toBe(6);
  });

  it('says how long it took only when that is known', () => {
    expect(knownSeconds(fromDocument(NOTEBOOK, TARGET).entries)).toBeNull();
  });
});

describe('a warning about a source', () => {
  it.each([
    ["name = input('?')", 'input'],
    ['%pip install torch', 'installs'],
    ['!pip install torch', 'installs'],
    ['!ls', 'shell']
  ])('%s', (source, word) => {
    expect(sourceNote(source)).toContain(word);
  });

  it.each(['model.input(x)', 'my_input(3)', 'x = 1 != 2', '%matplotlib inline'])('none for %s', source => {
    expect(sourceNote(source)).toBeNull();
  });
});

it('a cell is titled by its first line that says something', () => {
  expect(title('\n# a comment\nx = 1')).toBe('x = 1');
  expect(title('# only a comment')).toBe('# only a comment');
  expect(title('  \n')).toBe('');
});
