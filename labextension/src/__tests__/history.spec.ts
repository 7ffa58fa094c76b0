import type { IRunEnd } from '../bundle/history';
import { RunHistory } from '../bundle/history';

const end = (cellId: string, at: number, executionCount: number | null, success = true): IRunEnd => ({
  cellId,
  at,
  executionCount,
  success
});

describe('the run history', () => {
  it('keeps the order of the runs, not of the document', () => {
    const history = new RunHistory();
    history.recordStart('k', 'b', 'second()', 0);
    history.recordEnd('k', end('b', 1, 1));
    history.recordStart('k', 'a', 'first()', 2);
    history.recordEnd('k', end('a', 5, 2));
    expect(history.listRuns('k').map(run => [run.cell_id, run.seconds])).toEqual([
      ['b', 1],
      ['a', 3]
    ]);
  });

  it('keeps a cell as often as it ran, each time with the source as it was run', () => {
    const history = new RunHistory();
    history.recordStart('k', 'a', 'x = 1', 0);
    history.recordEnd('k', end('a', 1, 1));
    history.recordStart('k', 'a', 'x += 1', 2);
    history.recordEnd('k', end('a', 3, 2));
    expect(history.listRuns('k').map(run => run.code)).toEqual(['x = 1', 'x += 1']);
  });

  it('counts a cell that waited from the end of the one before', () => {
    const history = new RunHistory();
    history.recordStart('k', 'a', 'a', 0);
    history.recordStart('k', 'b', 'b', 0);
    history.recordEnd('k', end('a', 10, 1));
    history.recordEnd('k', end('b', 12, 2));
    expect(history.listRuns('k').map(run => run.seconds)).toEqual([10, 2]);
  });

  it('has the cell that runs last, and no cell that still waits for the kernel', () => {
    const history = new RunHistory();
    ['a', 'b', 'c'].forEach(id => history.recordStart('k', id, id, 0));
    history.recordEnd('k', end('a', 10, 1));
    expect(history.listRuns('k').map(run => [run.code, run.seconds])).toEqual([
      ['a', 10],
      ['b', null]
    ]);
  });

  it('has no cell that never ran because one before it failed, and stays complete', () => {
    const history = new RunHistory();
    ['a', 'b', 'c'].forEach(id => history.recordStart('k', id, id, 0));
    history.recordEnd('k', end('a', 1, 1, false));
    history.recordEnd('k', end('b', 2, null, false));
    history.recordEnd('k', end('c', 2, null, false));
    history.recordStart('k', 'c', 'c', 3);
    history.recordEnd('k', end('c', 4, 2));
    expect(history.listRuns('k').map(run => [run.code, run.failed])).toEqual([
      ['a', true],
      ['c', false]
    ]);
    expect(history.isComplete('k')).toBe(true);
  });

  it('begins anew with the kernel, and ignores what ends afterwards', () => {
    const history = new RunHistory();
    history.recordStart('k', 'a', 'a', 0);
    history.recordRestart('k');
    history.recordEnd('k', end('a', 1, null, false));
    expect(history.listRuns('k')).toEqual([]);
    expect(history.listRuns('other')).toEqual([]);
  });

  it('is complete only when the counter of the kernel agrees', () => {
    const history = new RunHistory();
    expect(history.isComplete('k')).toBe(false);
    history.recordStart('k', 'a', 'a', 0);
    history.recordEnd('k', end('a', 1, 1));
    expect(history.isComplete('k')).toBe(true);
    history.recordStart('k', 'b', 'b', 1);
    history.recordEnd('k', end('b', 2, 3)); // a console ran number 2
    expect(history.isComplete('k')).toBe(false);
  });
});
