import { Notification } from '@jupyterlab/apputils';
import { MimeModel, RenderMimeRegistry } from '@jupyterlab/rendermime';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Widget } from '@lumino/widgets';

import { JOB_MIME, makePlaceholder, METADATA_KEY } from '../attach/metadata';
import { JobRenderer } from '../attach/renderer';
import plugins from '../index';
import { history } from '../plugins/history';
import { outputs } from '../plugins/outputs';
import { palette } from '../plugins/palette';
import { training as trainingPlugin } from '../plugins/training';
import type { ICellOutputs, IRunHistory } from '../tokens';
import { CommandIDs } from '../tokens';
import type { JobView } from '../wire';
import { aJob, aStatus } from './builders';
import { FakeApp, FakeTraining, NOTHING_LOADED, settle } from './fakes';
import { endCell, FakePanel, FakeTracker, startCell } from './notebooks';
import { draw, perform, words } from './screen';

let app: FakeApp;
let tracker: FakeTracker;
let notebook: FakePanel;

beforeEach(() => {
  jest.useFakeTimers({ now: 1_000_000 });
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  app = new FakeApp();
  tracker = new FakeTracker();
  notebook = tracker.open(new FakePanel(['load()', 'train()']));
});
afterEach(async () => {
  for (const plugin of plugins) {
    await plugin.deactivate?.(app.frontEnd);
  }
  tracker.panels.forEach(panel => panel.close());
  Notification.manager.dismiss();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

it('every plugin has an id of its own and says what it does', () => {
  expect(new Set(plugins.map(plugin => plugin.id)).size).toBe(plugins.length);
  plugins.forEach(plugin => expect(plugin.description).toMatch(/^[A-Z][a-z]+s .+\.$/));
});

describe('the record of what ran', () => {
  let runs: IRunHistory;
  let training: FakeTraining;

  beforeEach(async () => {
    training = new FakeTraining();
    runs = await history.activate(app.frontEnd, tracker, training);
  });

  it('has each run with its source as it was run, its duration and the counter of the kernel', () => {
    startCell(notebook, 1);
    notebook.cells[1].sharedModel.setSource('edited()');
    jest.setSystemTime(1_002_500);
    endCell(notebook, 1, 1);
    startCell(notebook, 0);
    endCell(notebook, 0, 2, false);
    const seen = runs.listRuns('kernel-1');
    expect(seen.map(run => [run.code, run.seconds, run.failed, run.execution_count])).toEqual([
      ['train()', 2.5, false, 1],
      ['load()', 0, true, 2]
    ]);
    expect(runs.isComplete('kernel-1')).toBe(true);
  });

  it('is told to the server with the ids of the cells, once for many', async () => {
    training.server.answer('POST kernels/kernel-1/history', { cells: [], complete: true });
    startCell(notebook, 1);
    notebook.cells[1].sharedModel.setSource('edited()');
    startCell(notebook, 0);
    await jest.advanceTimersByTimeAsync(100);
    expect(training.server.asked).toEqual(['POST kernels/kernel-1/history']);
    const [load, train] = notebook.cells.map(cell => cell.id);
    expect(training.server.bodies).toEqual([
      {
        cells: [
          { cell_id: train, source: 'train()' },
          { cell_id: load, source: 'load()' }
        ]
      }
    ]);
  });

  it('is complete also if the server cannot be told', async () => {
    training.server.isDown = true;
    startCell(notebook, 0);
    endCell(notebook, 0, 1);
    await jest.advanceTimersByTimeAsync(100);
    expect(runs.isComplete('kernel-1')).toBe(true);
  });

  it('keeps kernels apart, and notebooks without a kernel out', () => {
    const second = tracker.open(new FakePanel(['other()']));
    second.sessionContext.session = { kernel: { id: 'kernel-2' } };
    startCell(second);
    const third = tracker.open(new FakePanel());
    third.sessionContext.session = null;
    startCell(third);
    startCell(new FakePanel().show());
    expect(runs.listRuns('kernel-2').map(run => run.code)).toEqual(['other()']);
    expect(runs.listRuns('kernel-1')).toEqual([]);
  });

  it.each(['restarting', 'autorestarting'])('starts anew when the kernel is %s', state => {
    startCell(notebook);
    notebook.sessionContext.statusChanged.emit('busy');
    expect(runs.listRuns('kernel-1')).toHaveLength(1);
    notebook.sessionContext.statusChanged.emit(state);
    expect(runs.listRuns('kernel-1')).toEqual([]);
  });

  it('is neither continued nor emptied once the plugin is deactivated', async () => {
    startCell(notebook);
    await history.deactivate?.(app.frontEnd);
    startCell(notebook, 1);
    endCell(notebook, 0, 1);
    notebook.sessionContext.statusChanged.emit('restarting');
    expect(runs.listRuns('kernel-1').map(run => run.seconds)).toEqual([null]);
  });
});

describe('the output of a job', () => {
  let training: FakeTraining;
  let cells: ICellOutputs;
  let rendermime: RenderMimeRegistry;

  const aSentJob = (given: Partial<JobView> = {}): JobView =>
    aJob({ targets: [{ cell_id: notebook.cells[1].id, source_hash: '', seconds: null }], ...given });

  async function activate(registry: ISettingRegistry | null = null): Promise<void> {
    training = new FakeTraining();
    training.server.answer('GET jobs/job-1/outputs', {
      last_seq: 1,
      finished: false,
      events: [
        {
          seq: 1,
          run: 1,
          at: 0,
          op: 'append',
          cell: notebook.cells[1].id,
          role: 'target',
          output: { output_type: 'stream', name: 'stdout', text: 'epoch 1\n' }
        }
      ]
    });
    rendermime = new RenderMimeRegistry();
    cells = await outputs.activate(app.frontEnd, tracker, rendermime, training, NOTHING_LOADED, registry);
  }

  it('comes under its cell', async () => {
    await activate();
    await cells.bind(notebook.panel, aSentJob());
    await jest.advanceTimersByTimeAsync(1000);
    expect(notebook.outputs(1)).toMatchObject([
      { data: { [JOB_MIME]: { job: 'job-1' } } },
      { text: 'epoch 1\n' }
    ]);
    expect(training.server.asked).toEqual(['GET jobs/job-1/outputs?after=0']);
  });

  it('comes under a cell that has sent itself, and not under one that only shows the job', async () => {
    await activate();
    training.recordJob(aSentJob());
    const shown = {
      output_type: 'display_data',
      data: { [JOB_MIME]: { job: 'job-1', phase: 'waiting' } },
      metadata: {}
    };
    notebook.cells.forEach(cell => cell.outputs.fromJSON([shown]));
    endCell(notebook, 0, 1);
    endCell(notebook, 1, 2);
    await jest.advanceTimersByTimeAsync(1000);
    expect(notebook.outputs(0)).toHaveLength(1);
    expect(notebook.cells[0].getMetadata(METADATA_KEY)).toBeUndefined();
    expect(notebook.outputs(1)).toMatchObject([{}, { text: 'epoch 1\n' }]);
  });

  it('stays away from a cell that was edited after it was sent, also when a run here ends that began before', async () => {
    await activate();
    training.recordJob(aSentJob());
    await cells.bind(notebook.panel, aSentJob());
    notebook.cells[1].sharedModel.setSource('edited()');
    const before = notebook.cells[1].getMetadata(METADATA_KEY) as unknown;
    endCell(notebook, 1, 1);
    await jest.advanceTimersByTimeAsync(1000);
    expect(notebook.cells[1].getMetadata(METADATA_KEY)).toEqual(before);
    expect(notebook.outputs(1)).toHaveLength(1);
  });

  it('has no counter of a run here that began before and ends beside it', async () => {
    await activate();
    training.recordJob(aSentJob());
    await cells.bind(notebook.panel, aSentJob());
    endCell(notebook, 0, 6);
    endCell(notebook, 1, 7);
    expect(notebook.cells[1].executionCount).toBe(7); // others read it when the run ends
    await jest.advanceTimersByTimeAsync(1000);
    expect(notebook.cells.map(cell => cell.executionCount)).toEqual([6, null]);
  });

  it('is fetched once for two notebooks that show it', async () => {
    await activate();
    const copy = tracker.open(new FakePanel(['load()', 'train()']));
    await cells.bind(notebook.panel, aSentJob());
    await cells.bind(copy.panel, aSentJob());
    await jest.advanceTimersByTimeAsync(1000);
    expect(training.server.asked).toHaveLength(1);
  });

  it.each([
    [true, 1],
    [false, 0]
  ])('saves the notebook with unsaved edits if the settings say so: %s', async (saveOnSend, saves) => {
    await activate({ load: () => Promise.resolve({ composite: { saveOnSend } }) } as never);
    await jest.advanceTimersByTimeAsync(0);
    notebook.cells[0].sharedModel.setSource('load(2)');
    await cells.bind(notebook.panel, aSentJob());
    expect(notebook.saves).toBe(saves);
  });

  it('gives way to a local run, and the user is told where it is', async () => {
    await activate();
    app.addForeignCommand(CommandIDs.showJob);
    const job = aSentJob();
    await cells.bind(notebook.panel, job);
    startCell(notebook, 0);
    expect(notebook.cells[1].getMetadata(METADATA_KEY)).toBeDefined();
    startCell(notebook, 1);
    expect(notebook.cells[1].getMetadata(METADATA_KEY)).toBeUndefined();
    const [note] = Notification.manager.notifications;
    expect(note.message).toBe(
      'The cell now has output of its own. The output of “digits” is kept with the job.'
    );
    note.options.actions?.[0].callback(new MouseEvent('click'));
    expect(app.executed).toEqual([[CommandIDs.showJob, { job: 'job-1' }]]);
  });

  it('is ignored for a notebook that was closed meanwhile', async () => {
    await activate();
    const closed = tracker.open(new FakePanel());
    closed.close();
    await expect(cells.bind(closed.panel, aSentJob())).resolves.toBeUndefined();
  });

  it('is fetched no more once the plugin is deactivated', async () => {
    await activate();
    await cells.bind(notebook.panel, aSentJob());
    await outputs.deactivate?.(app.frontEnd);
    training.outputArrived.emit({ job: 'job-1', last_seq: 9 });
    await jest.advanceTimersByTimeAsync(5000);
    expect(training.server.asked).toEqual([]);
  });

  it('is said to be in the log by the line under the cell, if the cell was edited', async () => {
    await activate();
    const job = aSentJob();
    await cells.bind(notebook.panel, job);
    notebook.cells[1].sharedModel.setSource('edited()');
    training.state = { ...training.state, jobs: [{ ...job, last_seq: 9 }] };
    const { node } = notebook.widgets[1];
    notebook.content.node.append(node);
    document.body.append(notebook.node);
    const renderer = rendermime.createRenderer(JOB_MIME);
    await renderer.renderModel(new MimeModel({ data: makePlaceholder(job).data }));
    await perform(() => Widget.attach(renderer, node));
    await draw(renderer);
    expect(words(node)).toContain('Edited since it was sent: the output is in the log.');
    await perform(() => renderer.dispose());
    notebook.node.remove();
  });

  it('has a renderer of its own for its placeholder, as long as the plugin is active', async () => {
    await activate();
    const renderer = rendermime.createRenderer(JOB_MIME);
    expect(renderer).toBeInstanceOf(JobRenderer);
    renderer.dispose();
    await outputs.deactivate?.(app.frontEnd);
    expect(rendermime.mimeTypes).not.toContain(JOB_MIME);
  });
});

describe('the live view of the plugins', () => {
  it('asks the server of this page, and hears its events', async () => {
    app.server.answer('GET status', aStatus({ server: 'gpu' }));
    const live = await trainingPlugin.activate(app.frontEnd);
    await jest.advanceTimersByTimeAsync(1000);
    expect(live.state.server).toBe('gpu');
    app.stream.emit({ schema_id: 'https://schema.jupyter-gq.org/service/v1', kind: 'job', data: aJob() });
    expect(live.state.jobs).toHaveLength(1);
  });
});

describe('the palette', () => {
  it('has the commands that need no job, in a category of their own', async () => {
    const items: unknown[] = [];
    await palette.activate(app.frontEnd, {
      addItem: (item: unknown) => {
        items.push(item);
        return { dispose: () => undefined };
      }
    });
    await settle();
    expect(items).toEqual(
      [CommandIDs.sendCell, CommandIDs.openPanel, CommandIDs.refresh].map(command => ({
        command,
        category: 'Training'
      }))
    );
  });
});
