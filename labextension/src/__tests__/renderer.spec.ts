import type { ICodeCellModel } from '@jupyterlab/cells';
import { MimeModel } from '@jupyterlab/rendermime';

import { BoundCell } from '../attach/cell';
import { JOB_MIME, makePlaceholder } from '../attach/metadata';
import { JobRenderer } from '../attach/renderer';
import { REST } from '../attach/source';
import { CommandIDs } from '../tokens';
import type { JobView } from '../wire';
import { ENGLISH, aJob } from './builders';
import { ConnectionCount, FakeApp, FakeTraining, someServices, sumConnections } from './fakes';
import { FakePanel } from './notebooks';
import { all, attach, clearScreen, draw, perform, press, words } from './screen';

const WITHHELD = 'Edited since it was sent: the output is in the log.';

let training: FakeTraining;
let app: FakeApp;

/** The status line of a job on the page, from the placeholder in a file. */
async function aLine(job: JobView, cell: ICodeCellModel | null = null): Promise<JobRenderer> {
  const renderer = await attach(
    new JobRenderer({ ...someServices(training), commands: app.commands, findCell: () => cell }, ENGLISH)
  );
  await renderer.renderModel(new MimeModel({ data: makePlaceholder(job).data }));
  await draw(renderer);
  return renderer;
}

beforeEach(() => {
  training = new FakeTraining();
  app = new FakeApp();
  [CommandIDs.cancelJob, CommandIDs.openLog, CommandIDs.showJob].forEach(id => app.addForeignCommand(id));
});
afterEach(clearScreen);

describe('the status line under a cell', () => {
  it('says what the file says while the job is not known', async () => {
    const { node } = await aLine(aJob({ phase: 'done', ran_seconds: 123 }));
    expect(words(node)).toBe('Done Trained in vision on 1 GPU for 2 min 3 sdigitsSend againDetails');
  });

  it.each<[JobView['phase'], boolean]>([
    ['running', true],
    ['waiting', true],
    ['done', false]
  ])(
    'of a job that was %s and that nobody knows says so, if it cannot be true: %s',
    async (phase, isTold) => {
      const { node } = await aLine(aJob({ phase }));
      const said = (): boolean => /not known to you here: it may be deleted/.test(words(node));
      expect([said(), all('.jp-gq-mod-outdated', node)]).toEqual([false, [expect.anything()]]);
      await perform(() => training.set({ unknown: new Set(['job-1']) }));
      expect([said(), words(node).startsWith('Unknown ')]).toEqual([isTold, isTold]);
      expect(all('.jp-gq-spinner', node)).toEqual([]);
    }
  );

  it('says times as here and code in quotation marks, also from the file', async () => {
    const sentence = 'It failed at 2026-11-29 14:11 UTC in cell 5 (`import os`).';
    const job = aJob({ phase: 'failed', sentence });
    const { node } = await aLine(job);
    const said = /Failed It failed at [^U`]+ in cell 5 \(“import os”\)\./;
    expect(words(node)).toMatch(said);
    await perform(() => training.recordJob(job));
    expect(words(node)).toMatch(said);
  });

  it.each([
    ['Running on 1 GPU of A100-40GB.', 'RunningdigitsOn 1 GPU of A100-40GB.'],
    ['Running.', 'Runningdigits1 GPU']
  ])('says the amount once: %s', async (sentence, said) => {
    training.state = { ...training.state, jobs: [aJob({ sentence, progress: null })] };
    const { node } = await aLine(aJob());
    expect(words(node).replace(/(Cancel|Log).*/, '')).toBe(said);
  });

  it('turns its wheel only while the scheduler answers', async () => {
    training.state = { ...training.state, jobs: [aJob()] };
    const { node } = await aLine(aJob());
    const turning = (): number => all('.jp-gq-status:not(.jp-gq-mod-outdated) .jp-gq-spinner', node).length;
    expect(turning()).toBe(1);
    await perform(() => training.set({ available: false }));
    expect(turning()).toBe(0);
    await perform(() => training.set({ available: true }));
    expect(turning()).toBe(1);
  });

  it('is live while the job is known', async () => {
    const job = aJob({ progress: { fraction: 0.5, text: 'epoch 5' } });
    training.state = { ...training.state, jobs: [job] };
    const { node } = await aLine(job);
    expect(words(node)).toBe('Runningdigits1 GPUepoch 5CancelLogDetails');
    await perform(() =>
      training.recordJob({ ...job, phase: 'failed', sentence: 'The node was lost.', run: 2 })
    );
    expect(words(node)).toBe('Failed The node was lost.digitsLogFix and send againDetails');
    expect(all('[role=progressbar]', node)).toEqual([]);
  });

  it('says what the file says once the job is deleted', async () => {
    const job = aJob({ phase: 'done', ran_seconds: 123 });
    training.state = { ...training.state, jobs: [job] };
    const { node } = await aLine(job);
    expect(all('.jp-gq-status-actions button', node).map(words)).toEqual(['Log', 'Send again', 'Details']);
    await perform(() => training.forgetJob(job.id));
    expect(words(node)).toBe('Done Trained in vision on 1 GPU for 2 min 3 sdigitsSend againDetails');
  });

  it('speaks the states of the job, and not each epoch', async () => {
    const epoch = (number: number): JobView =>
      aJob({ progress: { fraction: number / 9, text: `epoch ${number}` } });
    training.state = {
      ...training.state,
      jobs: [aJob({ phase: 'waiting', sentence: 'All devices are in use.' })]
    };
    const { node } = await aLine(aJob());
    const spoken = (): string =>
      all('[role=status], [role=log], [role=alert], [aria-live]', node).map(words).join(' ');
    const region = node.querySelector('[role=status]');
    expect(spoken()).toContain('All devices are in use.');
    for (const number of [1, 2]) {
      await perform(() => training.recordJob({ ...epoch(number), run: 2 }));
      expect(words(node)).toContain(`epoch ${number}`);
      expect(spoken()).toBe('Running');
    }
    await perform(() =>
      training.recordJob({ ...epoch(3), phase: 'failed', sentence: 'The node was lost.', run: 2 })
    );
    expect(spoken()).toBe('Failed The node was lost.');
    expect(all('[role=status]', node)).toEqual([region]); // a new element may not be heard
  });

  it('says that its user holds the job, as the panel does', async () => {
    const job = aJob({ phase: 'paused', held_since: 2000 });
    training.state = { ...training.state, jobs: [job] };
    const { node } = await aLine(job);
    expect(words(node)).toMatch(/^Held /);
  });

  it('has the button that releases a held job', async () => {
    const job = aJob({ phase: 'waiting', held_since: 2000 });
    training.state = { ...training.state, jobs: [job] };
    app.addForeignCommand(CommandIDs.releaseJob);
    const { node } = await aLine(job);
    await press('Release job digits');
    expect(app.executed).toEqual([[CommandIDs.releaseJob, { job: 'job-1' }]]);
    await perform(() => training.recordJob({ ...job, held_since: null }));
    expect(words(node)).not.toContain('Release');
  });

  it('says for good that the output is in the log only if the cell was edited after it was sent', async () => {
    const job = aJob();
    const [cell] = new FakePanel().cells;
    const bound = BoundCell.bind(cell, job);
    training.state = { ...training.state, jobs: [job] };
    const { node } = await aLine(job, cell);
    const end = (last_seq: number): Promise<void> =>
      perform(() => training.recordJob({ ...job, phase: 'done', finished_at: 2000, last_seq }));
    await end(1);
    expect(words(node)).not.toContain(WITHHELD);
    cell.sharedModel.setSource('train(2)');
    await end(2);
    expect(words(node)).toContain(WITHHELD);
    bound.write(job, [], 2);
    await end(2);
    expect(words(node)).not.toContain(WITHHELD); // an edit after the last output takes nothing away
  });

  it.each([
    ['the list has the job', true],
    ['only the file knows the job', false]
  ])('says so as the cell is edited, without news of the job, if %s', async (_, isKnown) => {
    jest.useFakeTimers();
    const job = aJob({ last_seq: 1 });
    const [cell] = new FakePanel().cells;
    const source = cell.sharedModel.getSource();
    BoundCell.bind(cell, job);
    training.state = { ...training.state, jobs: isKnown ? [job] : [] };
    const line = await aLine(job, cell);
    const update = jest.spyOn(line, 'update');
    const edit = async (...sources: string[]): Promise<string> => {
      sources.forEach(each => cell.sharedModel.setSource(each));
      await perform(() => jest.advanceTimersByTimeAsync(REST));
      await draw(line);
      return words(line.node);
    };
    expect(await edit('train(2', 'train(2)')).toContain(WITHHELD);
    expect(update).toHaveBeenCalledTimes(1);
    expect(await edit(source)).not.toContain(WITHHELD);
    cell.sharedModel.setOutputs([{ output_type: 'stream', name: 'stdout', text: 'epoch 1' }]);
    await edit();
    expect(update).toHaveBeenCalledTimes(2); // output is no edit
    jest.useRealTimers();
  });

  it('does not say so of a job whose end is in the file, and was edited afterwards', async () => {
    const job = aJob({ phase: 'done', finished_at: 2000 });
    const [cell] = new FakePanel().cells;
    BoundCell.bind(cell, job);
    cell.sharedModel.setSource('train(2)');
    expect(words((await aLine(job, cell)).node)).not.toContain(WITHHELD);
  });

  it('does not change with other jobs', async () => {
    training.state = { ...training.state, jobs: [aJob()] };
    const { node } = await aLine(aJob());
    await perform(() => training.recordJob(aJob({ id: 'job-2', name: 'other' })));
    expect(words(node)).toContain('digits');
  });

  it('offers to cancel the job, its log and its details', async () => {
    training.state = { ...training.state, jobs: [aJob()] };
    await aLine(aJob());
    await press('Cancel job digits');
    await press('Log of job digits');
    await press('Details of job digits');
    expect(app.executed).toEqual([
      [CommandIDs.cancelJob, { job: 'job-1' }],
      [CommandIDs.openLog, { job: 'job-1' }],
      [CommandIDs.showJob, { job: 'job-1' }]
    ]);
  });

  it.each([
    ['failed' as const, 'Fix and send again', CommandIDs.fixAndResend],
    ['done' as const, 'Send again', CommandIDs.sendAgain],
    ['cancelled' as const, 'Send again', CommandIDs.sendAgain]
  ])('of a job that is %s offers: %s', async (phase, label, command) => {
    app.addForeignCommand(command);
    await aLine(aJob({ phase }));
    await press(`${label} job digits`);
    expect(app.executed).toEqual([[command, { job: 'job-1' }]]);
  });

  it('says so if a later version of the extension wrote something else', async () => {
    const renderer = await attach(new JobRenderer(someServices(training), ENGLISH));
    await renderer.renderModel(new MimeModel({ data: { [JOB_MIME]: { job: 'a', phase: 'dreaming' } } }));
    await draw(renderer);
    expect(words(renderer.node)).toBe('This version of the extension cannot show this training job.');
  });

  it('leaves no connection behind when the cell is gone', async () => {
    const [cell] = new FakePanel().cells;
    const edits = new ConnectionCount(cell.sharedModel.changed as never);
    const before = edits.now;
    const renderer = await aLine(aJob(), cell);
    expect([sumConnections(training.connections), edits.now - before]).toEqual([3, 1]);
    await perform(() => renderer.dispose());
    expect([sumConnections(training.connections), edits.now - before]).toEqual([0, 0]);
  });
});
