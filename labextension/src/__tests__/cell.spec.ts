import { CodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { YCodeCell } from '@jupyter/ydoc';
import { YNotebook } from '@jupyter/ydoc';

import { BoundCell, PORTION } from '../attach/cell';
import { JOB_MIME, METADATA_KEY, makePlaceholder, readBinding } from '../attach/metadata';
import { hashSource } from '../bundle/hash';
import type { JobView } from '../wire';
import { aJob } from './builders';

const SOURCE = 'train()';
const stream = (text: string): IOutput => ({ output_type: 'stream', name: 'stdout', text });
const display = (text: string): IOutput => ({
  output_type: 'display_data',
  data: { 'text/plain': text },
  metadata: {}
});

/** JupyterLab's default, and the setting for undo over the whole document. */
let disableDocumentWideUndoRedo = true;

function aCell(source = SOURCE): CodeCellModel {
  const notebook = new YNotebook({ disableDocumentWideUndoRedo });
  notebook.insertCell(0, { cell_type: 'code', source });
  const sharedModel = notebook.getCell(0) as YCodeCell;
  return new CodeCellModel({ sharedModel });
}

const aJobOf = (model: CodeCellModel, given: Partial<JobView> = {}): JobView =>
  aJob({ targets: [{ cell_id: model.id, source_hash: hashSource(SOURCE), seconds: null }], ...given });

/** What stands below the placeholder, in the model and in the document that is saved. */
function below(model: CodeCellModel): IOutput[] {
  const outputs = model.outputs.toJSON().slice(1);
  expect(model.sharedModel.getOutputs().slice(1)).toEqual(outputs);
  return outputs;
}

describe.each([
  ['undo by cell', true],
  ['undo over the document', false]
])('a bound cell, with %s', (_, byCell) => {
  beforeEach(() => {
    disableDocumentWideUndoRedo = byCell;
    // Yjs tells on the console that cells are read before they belong to a document: JupyterLab's own doing.
    jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  });

  it('begins with the placeholder in place of its old outputs', () => {
    const model = aCell();
    model.outputs.add(stream('old'));
    const job = aJobOf(model);
    BoundCell.bind(model, job);
    expect(model.outputs.length).toBe(1);
    expect(model.outputs.get(0).data[JOB_MIME]).toMatchObject({ job: job.id, phase: 'running' });
    expect(model.getMetadata(METADATA_KEY)).toEqual({
      job: job.id,
      source_hash: hashSource(SOURCE),
      seq: 0,
      path: 'digits.ipynb',
      ended: false
    });
  });

  it('says that it ran to its end once it shows all that tells so', () => {
    const model = aCell();
    const job = aJobOf(model);
    const cell = BoundCell.bind(model, job);
    const ended = (): unknown => readBinding(model.getMetadata(METADATA_KEY))?.ended;
    cell.write(job, null, 2, true);
    expect(ended()).toBe(false);
    const long = Array.from({ length: 8 }, () => display('x'.repeat(PORTION / 4)));
    cell.write(job, long, 2, true);
    expect([cell.isBehind, ended()]).toEqual([true, false]);
    while (cell.isBehind) {
      cell.write(job, long, 2, true);
    }
    expect(ended()).toBe(true);
    cell.write(job, [], 3, false);
    expect(ended()).toBe(false);
  });

  it('writes long outputs in portions, each of which the lab can draw', () => {
    const model = aCell();
    const job = aJobOf(model);
    const cell = BoundCell.bind(model, job);
    const wanted = Array.from({ length: 40 }, (_, index) =>
      index % 2 === 0 ? stream('x'.repeat(PORTION / 4)) : display(`picture ${index}`)
    );
    let calls = 0;
    do {
      const before = JSON.stringify(below(model)).length;
      cell.write(job, wanted, 40);
      calls++;
      expect(JSON.stringify(below(model)).length - before).toBeLessThan(1.1 * PORTION);
    } while (cell.isBehind && calls < 100);
    expect(calls).toBe(7);
    expect(below(model)).toEqual(wanted);
    expect(model.getMetadata(METADATA_KEY)).toMatchObject({ seq: 40 });
    // The beginning was left out by the job: what remains is written in portions too.
    const rest = wanted.slice(7);
    cell.write(job, rest, 41);
    expect([cell.isBehind, model.getMetadata(METADATA_KEY)]).toMatchObject([true, { seq: 40 }]);
    while (cell.isBehind) {
      cell.write(job, rest, 41);
    }
    expect(below(model)).toEqual(rest);
  });

  it('never trusts an output of the file, in no moment', () => {
    const forged: IOutput = {
      output_type: 'display_data',
      data: { 'text/html': '<script>forged()</script>' },
      metadata: {}
    };
    const model = aCell();
    const job = aJobOf(model);
    const trusted: string[] = [];
    const note = (): void => {
      for (let index = 0; index < model.outputs.length; index++) {
        const output = model.outputs.get(index);
        if (output.trusted) {
          trusted.push(JSON.stringify(output.toJSON()));
        }
      }
    };
    model.outputs.changed.connect(note);
    model.outputs.add(forged);
    BoundCell.bind(model, job);

    const shared = aCell();
    const other = aJobOf(shared);
    shared.outputs.fromJSON([makePlaceholder(other), forged]);
    shared.setMetadata(METADATA_KEY, { job: other.id, source_hash: hashSource(SOURCE), seq: 3 });
    shared.outputs.changed.connect(() => {
      for (let index = 0; index < shared.outputs.length; index++) {
        const output = shared.outputs.get(index);
        if (output.trusted) {
          trusted.push(JSON.stringify(output.toJSON()));
        }
      }
    });
    const cell = BoundCell.read(shared) as BoundCell;
    cell.write({ ...other, phase: 'paused' }, null, 0);
    expect(shared.trusted).toBe(false);
    cell.write({ ...other, phase: 'done' }, [stream('delivered')], 1);
    expect(shared.trusted).toBe(true);
    expect(below(shared)).toEqual([stream('delivered')]);
    expect(trusted.length).toBeGreaterThan(0);
    expect(trusted.filter(output => output.includes('forged'))).toEqual([]);
  });

  it('shows outputs as they grow, shrink and change', () => {
    const model = aCell();
    const job = aJobOf(model);
    const cell = BoundCell.bind(model, job);
    const lists: IOutput[][] = [
      [stream('a')],
      [stream('ab\r')],
      [stream('xy'), display('one')],
      [stream('xy'), display('two'), stream('end')],
      [],
      [stream('again')],
      [display('alone')],
      [stream('again'), display('one'), display('two')]
    ];
    lists.forEach((wanted, index) => {
      cell.write(job, wanted, index + 1);
      const expected = wanted.map(output => (output.text === 'ab\r' ? stream('ab') : output));
      expect(below(model)).toEqual(expected);
    });
    expect(model.getMetadata(METADATA_KEY)).toMatchObject({ seq: lists.length });
  });

  it('writes nothing when nothing changed', () => {
    const model = aCell();
    const job = aJobOf(model);
    const cell = BoundCell.bind(model, job);
    cell.write(job, [stream('a')], 1);
    let changes = 0;
    model.contentChanged.connect(() => changes++);
    expect(cell.write(job, [stream('a')], 1)).toBe(false);
    expect(changes).toBe(0);
  });

  it('goes on after a reload from what the file holds, without doubling', () => {
    const model = aCell();
    const job = aJobOf(model);
    BoundCell.bind(model, job).write(job, [stream('a\n')], 1);
    const again = BoundCell.read(model);
    again?.write(job, [stream('a\nb\n'), display('plot')], 3);
    expect(below(model)).toEqual([stream('a\nb\n'), display('plot')]);
  });

  it('keeps the outputs that are there while those of the job are not known yet', () => {
    const model = aCell();
    const job = aJobOf(model);
    const cell = BoundCell.bind(model, job);
    cell.write(job, [stream('a')], 1);
    cell.write({ ...job, phase: 'paused' }, null, 0);
    expect(below(model)).toEqual([stream('a')]);
    expect(model.outputs.get(0).data[JOB_MIME]).toMatchObject({ phase: 'paused' });
  });

  it('is left alone when it was edited, and taken up again when that is undone', () => {
    const model = aCell();
    const job = aJobOf(model);
    const cell = BoundCell.bind(model, job);
    model.sharedModel.setSource('train(2)');
    expect(cell.findRefusal(job)).toBe('edited');
    model.sharedModel.setSource(SOURCE);
    expect(cell.findRefusal(job)).toBeNull();
  });

  it('is left alone when it was run here or its outputs were cleared', () => {
    const model = aCell();
    const job = aJobOf(model);
    const cell = BoundCell.bind(model, job);
    model.outputs.clear();
    expect(cell.findRefusal(job)).toBe('cleared');
    model.outputs.add(stream('local'));
    expect(cell.findRefusal(job)).toBe('replaced');
  });

  it('is left alone when it is a copy: the same metadata, another id', () => {
    const model = aCell();
    const job = aJobOf(model);
    BoundCell.bind(model, job);
    const copy = aCell();
    copy.setMetadata(METADATA_KEY, model.getMetadata(METADATA_KEY));
    copy.outputs.fromJSON(model.outputs.toJSON());
    expect(BoundCell.read(copy)?.findRefusal(job)).toBe('foreign');
  });

  it('is settled when the file holds all of a job that is over', () => {
    const model = aCell();
    const job = aJobOf(model, { last_seq: 1 });
    const cell = BoundCell.bind(model, job);
    cell.write(job, [stream('a')], 1);
    expect(cell.isSettled(job)).toBe(false);
    const over = { ...job, phase: 'done' as const, finished_at: 2000 };
    expect(BoundCell.read(model)?.isSettled(over)).toBe(false);
    cell.write(over, [stream('a')], 1);
    expect(BoundCell.read(model)?.isSettled(over)).toBe(true);
  });

  it('forgets a job that it no longer shows, but not another one', () => {
    const model = aCell();
    const cell = BoundCell.bind(model, aJobOf(model));
    BoundCell.bind(model, aJobOf(model, { id: 'job-2' }));
    cell.unbind();
    expect(BoundCell.read(model)?.binding.job).toBe('job-2');
    BoundCell.read(model)?.unbind();
    expect(BoundCell.read(model)).toBeNull();
  });
});

it('the placeholder can be read without our extension', () => {
  const { data } = makePlaceholder(aJob({ phase: 'done', finished_at: 1100, name: '<b>digits</b>' }));
  expect(data['text/plain']).toContain('Trained in vision on 1 GPU');
  expect(data['text/html']).toContain('&lt;b&gt;digits&lt;/b&gt;');
});
