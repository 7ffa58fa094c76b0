import * as React from 'react';

import { LoadedVariables } from '../attach/loaded';
import { METADATA_KEY } from '../attach/metadata';
import { BroughtBack, ResultList } from '../panel/results';
import { makeLoadingCode } from '../results';
import type { JobSummary } from '../wire';
import { aJob, ENGLISH, someResults } from './builders';
import { FakeTraining, sumConnections } from './fakes';
import { endCell, FakePanel, FakeTracker, RUN_CONNECTIONS, startCell } from './notebooks';
import { clearScreen, perform, press, show, words } from './screen';

const OFFERED = 'model (12 MB) can be loaded';
const LOADED = 'model (12 MB) loaded into the notebook';

const job = aJob({ phase: 'done', finished_at: 5 });
let training: FakeTraining;
let tracker: FakeTracker;
let notebook: FakePanel;
let loaded: LoadedVariables;
let asked: number;

beforeEach(() => {
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  training = new FakeTraining();
  training.server.answer('GET jobs/job-1/results', someResults());
  tracker = new FakeTracker();
  notebook = tracker.open(new FakePanel(['train()', makeLoadingCode('job-1', ['model'])]));
  loaded = new LoadedVariables(tracker.tracker);
  asked = 0;
});
afterEach(() => {
  loaded.dispose();
  tracker.panels.forEach(panel => panel.close());
  clearScreen();
  jest.restoreAllMocks();
});

/** Show the line under the cell and the details in the panel; the result returns what each says. */
async function showBoth(of: JobSummary = job): Promise<() => string[]> {
  const props = { job: of, client: training.client, loaded, trans: ENGLISH };
  const acts = { onLoad: () => (asked += 1), onCopy: () => undefined, onOpen: () => undefined };
  const places = [
    await show(<BroughtBack {...props} {...acts} />),
    await show(<ResultList {...props} {...acts} />)
  ];
  return () => places.map(place => [LOADED, OFFERED].find(said => words(place).includes(said)) ?? '');
}

/** Run the cell that loads the variables. */
async function runLoadingCell(panel: FakePanel, success = true): Promise<void> {
  await perform(() => {
    startCell(panel, 1);
    endCell(panel, 1, 1, success);
  });
}

describe('variables of a job', () => {
  it('are loaded for the line and for the panel once the cell has run, whoever ran it', async () => {
    const said = await showBoth();
    await press('Load into notebook from job digits');
    await press('Load into notebook from digits');
    expect([asked, said()]).toEqual([2, [OFFERED, OFFERED]]);
    await runLoadingCell(notebook, false);
    expect(said()).toEqual([OFFERED, OFFERED]);
    await runLoadingCell(notebook);
    expect(said()).toEqual([LOADED, LOADED]);
    await press('Load again from job digits');
    expect([asked, (await showBoth())()]).toEqual([3, [LOADED, LOADED]]);
  });

  it.each([
    ['restarts', (panel: FakePanel) => panel.sessionContext.statusChanged.emit('restarting')],
    ['restarts by itself', (panel: FakePanel) => panel.sessionContext.statusChanged.emit('autorestarting')],
    ['dies', (panel: FakePanel) => panel.sessionContext.statusChanged.emit('dead')],
    ['is another one', (panel: FakePanel) => panel.sessionContext.kernelChanged.emit({})]
  ])('are offered again once the kernel %s', async (_, lose) => {
    const said = await showBoth();
    await runLoadingCell(notebook);
    await perform(() => notebook.sessionContext.statusChanged.emit('busy'));
    expect(said()).toEqual([LOADED, LOADED]);
    await perform(() => lose(notebook));
    expect(said()).toEqual([OFFERED, OFFERED]);
    await runLoadingCell(notebook);
    expect(said()).toEqual([LOADED, LOADED]);
  });

  it('are not loaded without a kernel, nor in another notebook, nor by half', async () => {
    const said = await showBoth();
    const other = tracker.open(
      new FakePanel(['', makeLoadingCode('job-1', ['model'])], 'other.ipynb').show()
    );
    await runLoadingCell(other);
    expect(said()).toEqual([OFFERED, OFFERED]);
    notebook.sessionContext.session = null;
    await runLoadingCell(notebook);
    expect(said()).toEqual([OFFERED, OFFERED]);
    expect([loaded.hasAll(job, ['model']), loaded.hasAll(job, ['model', 'loss'])]).toEqual([false, false]);
    notebook.sessionContext.session = { kernel: { id: 'kernel-1' } };
    await runLoadingCell(notebook);
    expect([loaded.hasAll(job, ['model']), loaded.hasAll(job, ['model', 'loss'])]).toEqual([true, false]);
  });

  it.each([
    ['%gq_load job-1 model', '', true],
    ['x = 1\n  %gq_load job-1 model loss', '', true],
    ['%gq_load job-1', '', true],
    ['%gq_load last model', 'Loaded model (Net) from job-1\n', true],
    ['%gq_load last', 'Loaded model (Net), loss (float) from job-1\n', true],
    ['%gq_load last model', 'Loaded model (Net) from job-2\n', false],
    ['%gq_load last model', '', false],
    ['%gq_load job-1 loss', '', false],
    ['%gq_load job-2', '', false]
  ])('are loaded by the magic: %s', async (source, printed, isLoaded) => {
    const said = await showBoth();
    notebook.cells[1].sharedModel.setSource(source);
    notebook.cells[1].outputs.fromJSON([{ output_type: 'stream', name: 'stdout', text: printed }]);
    await runLoadingCell(notebook);
    expect(said()).toEqual(isLoaded ? [LOADED, LOADED] : [OFFERED, OFFERED]);
  });

  it('are loaded in a notebook that was renamed since it sent the job', async () => {
    notebook.context.path = 'renamed.ipynb';
    notebook.cells[0].setMetadata(METADATA_KEY, { job: 'job-1', source_hash: '', seq: 0 });
    const said = await showBoth();
    await runLoadingCell(notebook);
    expect(said()).toEqual([LOADED, LOADED]);
  });

  it('are followed until the line and the panel are gone, and no notebook after that', async () => {
    await showBoth();
    await perform(() => clearScreen());
    loaded.dispose();
    expect(sumConnections([...tracker.connections, ...notebook.connections, ...RUN_CONNECTIONS])).toBe(0);
  });
});
