import type { IRunningSessions } from '@jupyterlab/running';
import { RunningSessionManagers } from '@jupyterlab/running';

import { running } from '../plugins/running';
import { CommandIDs } from '../tokens';
import { aJob } from './builders';
import { FakeApp, FakeTraining, settle } from './fakes';

let app: FakeApp;
let training: FakeTraining;
let managers: RunningSessionManagers;
let section: IRunningSessions.IManager;

beforeEach(async () => {
  [app, training, managers] = [new FakeApp(), new FakeTraining(), new RunningSessionManagers()];
  await running.activate(app.frontEnd, training, managers);
  [section] = managers.items();
});
afterEach(async () => running.deactivate?.(app.frontEnd));

const items = (): IRunningSessions.IRunningItem[] => section.running({ mode: 'list' });

describe("JupyterLab's panel of what runs", () => {
  it('lists the jobs that are not over, with notebook, state and what happens now', () => {
    training.set({
      jobs: [aJob({ sentence: 'Runs on a GPU.' }), aJob({ id: 'job-2', phase: 'done' })]
    });
    const [item, ...others] = items();
    expect(others).toEqual([]);
    expect([item.label(), item.detail?.(), item.labelTitle?.()]).toEqual([
      'digits · digits.ipynb',
      'Running',
      'digits\ndigits.ipynb\n1 GPU\nRunning\nRuns on a GPU.'
    ]);
  });

  it('tells notebooks of one name in two folders apart', () => {
    training.set({ jobs: ['a', 'b'].map(id => aJob({ id, notebook_path: `${id}/same.ipynb` })) });
    expect(items().map(item => item.label())).toEqual(['digits · a/same.ipynb', 'digits · b/same.ipynb']);
  });

  it('follows the state of the jobs', () => {
    let changes = 0;
    section.runningChanged.connect(() => changes++);
    training.set({ jobs: [aJob()] });
    expect([changes, items().length]).toEqual([1, 1]);
    section.refreshRunning();
    expect(training.refreshes).toBe(1);
  });

  it('fetches older jobs on a refresh, because one of them may still run', async () => {
    section.refreshRunning();
    await settle();
    expect([training.refreshes, training.fills]).toEqual([1, 1]);
  });

  it('opens a job in the panel, and cancels it by the command that asks', () => {
    app.addForeignCommand(CommandIDs.showJob);
    app.addForeignCommand(CommandIDs.cancelJob);
    training.set({ jobs: [aJob()] });
    items()[0].open?.();
    items()[0].shutdown?.();
    expect(app.executed).toEqual([
      [CommandIDs.showJob, { job: 'job-1' }],
      [CommandIDs.cancelJob, { job: 'job-1' }]
    ]);
  });

  it('says what happens before all jobs are cancelled, and cancels those that it lists', async () => {
    training.set({ jobs: [aJob(), aJob({ id: 'job-2' }), aJob({ id: 'job-3', phase: 'failed' })] });
    const told = section.shutdownAllConfirmationText;
    expect(typeof told === 'function' ? told() : told).toContain('2 jobs stop and lose their places');
    training.server.answer('POST cancel', { jobs: [], refused: [] });
    section.shutdownAll();
    await settle();
    expect(training.server.bodies).toEqual([{ jobs: ['job-1', 'job-2'] }]);
  });
});
