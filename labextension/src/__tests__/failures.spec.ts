import type { IOutput } from '@jupyterlab/nbformat';

import { METADATA_KEY, makePlaceholder } from '../attach/metadata';
import type { JobPhase } from '../jobs';
import { findFailures } from '../send/failures';
import { aJob } from './builders';
import { FakePanel } from './notebooks';

const ERROR: IOutput = { output_type: 'error', ename: 'ValueError', evalue: 'no', traceback: [] };
const UNKNOWN = (): Promise<null> => Promise.resolve(null);
let notebook: FakePanel;

beforeEach(() => {
  notebook = new FakePanel(['load()', 'exit(1)', 'train()']);
});

/** Let a cell show a job in this phase, with further outputs. */
function showJob(index: number, phase: JobPhase, ...more: IOutput[]): void {
  const placeholder = makePlaceholder(aJob({ id: 'job-1', phase, finished_at: 5 }));
  notebook.cells[index].outputs.fromJSON([placeholder, ...more]);
}

/** Return what is known of each cell. */
async function failures(findJob: Parameters<typeof findFailures>[1] = UNKNOWN): Promise<unknown[]> {
  const found = await findFailures(notebook.cells, findJob);
  return notebook.cells.map(({ id }) => found.get(id) ?? null);
}

it.each([
  ['failed', 'job-failed'],
  ['cancelled', 'job-cancelled'],
  ['done', null]
] as const)('a cell whose job has %s without an error under it', async (phase, failure) => {
  showJob(1, phase);
  expect(await failures()).toEqual([null, failure, null]);
});

it('a cell with an error failed, wherever it ran; cells of the same job before it succeeded, and those after did not run', async () => {
  showJob(0, 'failed');
  showJob(1, 'failed', ERROR);
  showJob(2, 'failed');
  expect(await failures()).toEqual([null, 'failed-before', 'job-failed']);
});

/** Let the metadata of a cell say that it ran to its end in a job. */
function markEnded(index: number, job = 'job-1'): void {
  const binding = { job, source_hash: '', seq: 1, path: '', ended: true };
  notebook.cells[index].setMetadata(METADATA_KEY, binding);
}

it('a cell that ran to its end did not fail, whatever it shows: its tag may say that its error stops nothing', async () => {
  showJob(0, 'failed', ERROR);
  showJob(1, 'failed');
  showJob(2, 'failed');
  markEnded(0);
  markEnded(1);
  expect(await failures()).toEqual([null, null, 'job-failed']);
  showJob(2, 'failed', ERROR);
  expect(await failures()).toEqual([null, null, 'failed-before']);
});

it('a cell between two that show errors ran to its end, also if the file does not say it', async () => {
  showJob(0, 'failed', ERROR);
  showJob(1, 'failed');
  showJob(2, 'failed', ERROR);
  expect(await failures()).toEqual([null, null, 'failed-before']);
});

it('what ended in another job than the cell shows says nothing', async () => {
  showJob(1, 'cancelled');
  markEnded(1, 'job-0');
  expect(await failures()).toEqual([null, 'job-cancelled', null]);
  markEnded(1);
  expect(await failures()).toEqual([null, null, null]);
});

it('every cell of a failed job may be the one, if none shows an error', async () => {
  showJob(0, 'failed');
  showJob(1, 'failed');
  expect(await failures()).toEqual(['job-failed', 'job-failed', null]);
});

it('the service is asked about a job that had not ended when the file was closed', async () => {
  showJob(1, 'running');
  const asked: string[] = [];
  const findJob = (id: string): Promise<{ phase: JobPhase }> => {
    asked.push(id);
    return Promise.resolve({ phase: 'failed' });
  };
  expect([await failures(findJob), asked]).toEqual([[null, 'job-failed', null], ['job-1']]);
  expect(await failures(() => Promise.reject(new Error('away')))).toEqual([null, null, null]);
});

it('many jobs are asked for a few at one time, and no more are asked for once the service cannot be asked', async () => {
  notebook = new FakePanel(Array.from({ length: 40 }, (_, number) => `train(${number})`));
  notebook.cells.forEach((cell, number) => {
    cell.outputs.fromJSON([makePlaceholder(aJob({ id: `job-${number}`, phase: 'running' }))]);
  });
  let [now, most, asked] = [0, 0, 0];
  const findJob = async (): Promise<{ phase: JobPhase }> => {
    asked += 1;
    now += 1;
    most = Math.max(most, now);
    await Promise.resolve();
    now -= 1;
    return { phase: 'failed' };
  };
  expect(new Set(await failures(findJob))).toEqual(new Set(['job-failed']));
  expect([asked, most]).toEqual([40, 4]);
  asked = 0;
  const fail = (): Promise<null> => {
    asked += 1;
    return Promise.reject(new Error('away'));
  };
  expect(new Set(await failures(fail))).toEqual(new Set([null]));
  expect(asked).toBeLessThanOrEqual(4);
});

it('a cell that ran here after its job shows no job any more', async () => {
  notebook.cells[1].outputs.fromJSON([{ output_type: 'stream', name: 'stdout', text: 'ok' }]);
  expect(await failures()).toEqual([null, null, null]);
});
