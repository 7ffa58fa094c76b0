import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { MainAreaWidget } from '@jupyterlab/apputils';
import { Notification } from '@jupyterlab/apputils';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import { NotebookActions } from '@jupyterlab/notebook';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import type { Widget } from '@lumino/widgets';

import { METADATA_KEY } from '../attach/metadata';
import type { LogView } from '../panel/log';
import { jobs } from '../plugins/jobs';
import { log } from '../plugins/log';
import { panel } from '../plugins/panel';
import { makeLoadingCode } from '../results';
import { CommandIDs, PANEL_ID } from '../tokens';
import type { JobView } from '../wire';
import { aJob, someResults } from './builders';
import { FakeApp, FakeTraining, NOTHING_LOADED, settle } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { all, clearScreen, perform, press, words } from './screen';

let app: FakeApp;
let training: FakeTraining;
let tracker: FakeTracker;
/** What the document manager of JupyterLab was asked to open. */
let opened: unknown[][];

const TARGET = { cell_id: '', source_hash: '', seconds: null };

beforeEach(async () => {
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  app = new FakeApp();
  training = new FakeTraining();
  tracker = new FakeTracker();
  opened = [];
  const documents = {
    openOrReveal: (...args: unknown[]) => void opened.push(args)
  } as unknown as IDocumentManager;
  await jobs.activate(app.frontEnd, training, tracker.tracker, documents);
  await activateLog(app.frontEnd.shell);
  await panel.activate(app.frontEnd, training, NOTHING_LOADED, null);
});
afterEach(async () => {
  await jobs.deactivate?.(app.frontEnd);
  await log.deactivate?.(app.frontEnd);
  await panel.deactivate?.(app.frontEnd);
  clearScreen();
  jest.restoreAllMocks();
});

/** Start the plugin that shows logs; `lab` is the shell of JupyterLab, or null in Notebook 7. */
async function activateLog(lab: JupyterFrontEnd.IShell | null): Promise<void> {
  const rendermime = new RenderMimeRegistry({ initialFactories: standardRendererFactories });
  await log.activate(app.frontEnd, training, rendermime, null, lab);
}

/** Execute a command about a job, up to its first question to the user. */
async function execute(id: string, job: string): Promise<void> {
  await perform(() => void app.commands.execute(id, { job }).catch(() => undefined));
}

const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);

describe('to delete a job', () => {
  it('asks first, and takes the job out of the list', async () => {
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' }), aJob({ id: 'job-2' })] };
    training.server.answer('DELETE jobs/job-1/record', aJob({ phase: 'done' }), 202);
    await execute(CommandIDs.deleteJob, 'job-1');
    expect(words(document.querySelector('.jp-Dialog'))).toContain('Delete “digits”?');
    expect(words(document.querySelector('.jp-Dialog'))).toContain('are deleted for good');
    expect(training.server.asked).toEqual([]);
    await press('Delete job');
    expect(training.server.asked).toEqual(['DELETE jobs/job-1/record']);
    expect(training.state.jobs.map(({ id }) => id)).toEqual(['job-2']);
  });

  it('can be thought better of, and is not offered before the end of the job', async () => {
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' }), aJob({ id: 'job-2' })] };
    await execute(CommandIDs.deleteJob, 'job-1');
    await press('Keep it');
    await execute(CommandIDs.deleteJob, 'job-2');
    expect(all('.jp-Dialog')).toEqual([]);
    expect(training.server.asked).toEqual([]);
  });

  it('deletes nothing by a second press of Enter', async () => {
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' })] };
    await execute(CommandIDs.deleteJob, 'job-1');
    const pressed = new KeyboardEvent('keydown', { key: 'Enter', keyCode: 13, bubbles: true });
    await perform(() => document.querySelector('.jp-Dialog')?.dispatchEvent(pressed));
    await settle();
    expect([all('.jp-Dialog'), training.server.asked]).toEqual([[], []]);
  });

  it('takes a job out of the list that another page has deleted', async () => {
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' })] };
    const problem = { code: 'not_found', message: 'No such job.' };
    training.server.answer('DELETE jobs/job-1/record', problem, 404);
    training.server.answer('GET jobs/job-1', problem, 404);
    await execute(CommandIDs.deleteJob, 'job-1');
    await press('Delete job');
    expect([told(), training.state.jobs]).toEqual([[], []]);
  });

  it('keeps the job in the list if a service of an older release cannot delete', async () => {
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' })] };
    const problem = { code: 'not_found', message: 'There is nothing at jobs/job-1/record.' };
    training.server.answer('DELETE jobs/job-1/record', problem, 404);
    training.server.answer('GET jobs/job-1', aJob({ phase: 'done' }));
    await execute(CommandIDs.deleteJob, 'job-1');
    await press('Delete job');
    expect(told()).toEqual([
      'The GPU scheduler is older than this page and cannot delete jobs. Ask your administrator to update it.'
    ]);
    expect(training.state.jobs.map(({ id }) => id)).toEqual(['job-1']);
  });

  it('keeps the job in the list if the service refuses', async () => {
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' })] };
    training.server.answer('DELETE jobs/job-1/record', { code: 'conflict', message: 'Try again.' }, 409);
    await execute(CommandIDs.deleteJob, 'job-1');
    await press('Delete job');
    expect(told()).toEqual(['Try again.']);
    expect(training.state.jobs.map(({ id }) => id)).toEqual(['job-1']);
  });
});

describe('to cancel a job', () => {
  beforeEach(() => {
    training.state = { ...training.state, jobs: [aJob()] };
    training.server.answer('DELETE jobs/job-1', aJob({ phase: 'cancelling' }));
  });

  it('is confirmed by the user, who is told what happens', async () => {
    await execute(CommandIDs.cancelJob, 'job-1');
    expect(words(document.querySelector('.jp-Dialog'))).toContain('Cancel “digits”?');
    expect(words(document.querySelector('.jp-Dialog'))).toContain('The job stops and loses its place');
    expect(training.server.asked).toEqual([]);
    await press('Cancel job');
    expect(training.server.asked).toEqual(['DELETE jobs/job-1']);
    expect(training.state.jobs[0].phase).toBe('cancelling');
  });

  it.each([
    ['goes away with the job', 'Cancel job', false, true],
    ['went away while the user was asked', 'Keep it', true, true],
    ['is still there', 'Keep it', false, false]
  ])(
    'leaves the focus to the notebook if a button in a line had it that %s',
    async (_, answer, goes, leaves) => {
      const notebook = tracker.open(new FakePanel(['train()']));
      document.body.append(notebook.node);
      const line = notebook.node.appendChild(document.createElement('div'));
      line.className = 'jp-gq-status-host';
      const button = line.appendChild(document.createElement('button'));
      button.focus();
      await execute(CommandIDs.cancelJob, 'job-1');
      if (goes) {
        line.replaceChildren(); // the job has begun, so the line is drawn anew
      }
      await press(answer);
      expect(document.activeElement).toBe(leaves ? notebook.content.node : button);
      notebook.close();
    }
  );

  it('can be thought better of', async () => {
    await execute(CommandIDs.cancelJob, 'job-1');
    await press('Keep it');
    expect(training.server.asked).toEqual([]);
  });

  it('is not asked about if the job is over', async () => {
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' })] };
    await execute(CommandIDs.cancelJob, 'job-1');
    expect(all('.jp-Dialog')).toEqual([]);
  });

  it('tells what went wrong', async () => {
    training.server.answer('DELETE jobs/job-1', { code: 'conflict', message: 'It is over already.' }, 409);
    await execute(CommandIDs.cancelJob, 'job-1');
    await press('Cancel job');
    expect(told()).toEqual(['It is over already.']);
  });
});

describe('to hold a job', () => {
  it('sends the wish, and shows the answer at once', async () => {
    training.state = { ...training.state, jobs: [aJob({ phase: 'waiting' })] };
    training.server.answer('PATCH jobs/job-1', aJob({ phase: 'waiting', held_since: 5 }));
    await execute(CommandIDs.holdJob, 'job-1');
    expect(training.server.bodies).toEqual([{ held: true }]);
    expect(training.state.jobs[0].held_since).toBe(5);
    await execute(CommandIDs.releaseJob, 'job-1');
    expect(training.server.bodies).toEqual([{ held: true }, { held: false }]);
  });
});

describe('to cancel all jobs that wait', () => {
  const [waits, other] = ['a', 'b'].map(id => aJob({ id, phase: 'waiting' }));
  const begun = [aJob({ id: 'c', phase: 'running' }), aJob({ id: 'd', phase: 'paused' })];
  const held = aJob({ id: 'e', phase: 'waiting', held_since: 5 });

  beforeEach(() => {
    training.state = { ...training.state, jobs: [waits, other, ...begun, held] };
  });

  it('leaves a job alone that has begun while the user was asked', async () => {
    await perform(() => void app.commands.execute(CommandIDs.cancelWaiting));
    training.state = { ...training.state, jobs: [waits, { ...other, phase: 'running' }] };
    await press('Cancel jobs');
    expect(training.server.bodies).toEqual([{ jobs: ['a'] }]);
  });

  it('is confirmed by the user, leaves alone what has begun or is held, and tells what was refused', async () => {
    const refused = [{ job: 'b', code: 'conflict', message: 'b is done already.' }];
    training.server.answer('POST cancel', { jobs: [{ ...waits, phase: 'cancelled' }], refused });
    await perform(() => void app.commands.execute(CommandIDs.cancelWaiting));
    expect(words(document.querySelector('.jp-Dialog'))).toContain('Cancel the 2 jobs that wait?');
    expect(training.server.asked).toEqual([]);
    await press('Cancel jobs');
    expect(training.server.bodies).toEqual([{ jobs: ['a', 'b'] }]);
    expect(training.state.jobs.find(job => job.id === 'a')?.phase).toBe('cancelled');
    expect(told()).toEqual(['1 of 2 jobs were refused. b is done already.']);
  });

  it('can be thought better of', async () => {
    await perform(() => void app.commands.execute(CommandIDs.cancelWaiting));
    await press('Keep them');
    expect(training.server.asked).toEqual([]);
  });
});

it('a job that nobody knows any more is told as such', async () => {
  await execute(CommandIDs.openResult, 'gone');
  expect(told()).toEqual([expect.stringContaining('not known to you here')]);
});

it.each([{}, { job: 5 }, { job: '' }, { job: ['x'] }])(
  'commands of a job ask nobody without the id of one, and say where they are to be had: %j',
  async args => {
    const named = [CommandIDs.cancelJob, CommandIDs.deleteJob, CommandIDs.openLog, CommandIDs.showJob];
    for (const command of named) {
      await app.commands.execute(command, args);
    }
    expect(told()).toEqual(named.map(() => expect.stringContaining('This command needs a job.') as string));
    expect([training.server.asked, training.state.jobs]).toEqual([[], []]);
  }
);

describe('the result of a job', () => {
  it('is copied into the user’s folder and opened without a kernel', async () => {
    training.state = { ...training.state, jobs: [aJob()] };
    training.server.answer('POST open-result/job-1', { path: 'digits-job-1.ipynb' });
    await execute(CommandIDs.openResult, 'job-1');
    const noKernel = { shouldStart: false, autoStartDefault: false };
    expect(opened).toEqual([['digits-job-1.ipynb', undefined, undefined, undefined, noKernel]]);
  });
});

describe('the cell of a job', () => {
  let notebook: FakePanel;

  function aJobOf(index: number): JobView {
    return aJob({ targets: [{ ...TARGET, cell_id: notebook.cells[index].id }] });
  }

  beforeEach(() => {
    notebook = new FakePanel(['load()', 'train()']).show();
    app.addForeignCommand('docmanager:open', () => notebook);
  });
  afterEach(() => notebook.close());

  it('is selected and scrolled to in its notebook', async () => {
    training.state = { ...training.state, jobs: [aJobOf(1)] };
    await execute(CommandIDs.goToCell, 'job-1');
    const { activeCellIndex, scrolledTo, selected } = notebook.content;
    expect([activeCellIndex, scrolledTo, selected]).toEqual([1, 1, []]);
    expect(told()).toEqual([]);
  });

  it('is shown in a notebook, also if that is stored as a text which an editor would open', async () => {
    const job = { ...aJobOf(1), notebook_path: 'digits.py' };
    training.state = { ...training.state, jobs: [job] };
    await execute(CommandIDs.goToCell, 'job-1');
    expect(app.executed).toContainEqual(['docmanager:open', { path: 'digits.py', factory: 'Notebook' }]);
  });

  it('is found in a notebook that was renamed and is open', async () => {
    training.state = { ...training.state, jobs: [aJobOf(1)] };
    app.missingFiles.push('digits.ipynb');
    tracker.open(notebook).context.path = 'renamed.ipynb';
    notebook.cells[1].setMetadata(METADATA_KEY, { job: 'job-1', source_hash: '', seq: 0 });
    await execute(CommandIDs.goToCell, 'job-1');
    expect(told()).toEqual([]);
    expect(notebook.content.activeCellIndex).toBe(1);
  });

  it('is shown in the notebook that is open, which is not opened again: Notebook 7 would close it', async () => {
    training.state = { ...training.state, jobs: [aJobOf(1)] };
    tracker.open(notebook);
    await execute(CommandIDs.goToCell, 'job-1');
    expect([app.activated, notebook.content.activeCellIndex]).toEqual([['notebook-1'], 1]);
    expect(app.executed.map(([id]) => id)).not.toContain('docmanager:open');
  });

  it('is left to the tab of the browser in which Notebook 7 opens the notebook', async () => {
    training.state = { ...training.state, jobs: [aJobOf(1)] };
    notebook.isDisposed = true;
    await execute(CommandIDs.goToCell, 'job-1');
    expect([told(), notebook.content.scrolledTo]).toEqual([[], -1]);
  });

  it('is missed if it was deleted', async () => {
    training.state = { ...training.state, jobs: [aJob({ targets: [{ ...TARGET, cell_id: 'gone' }] })] };
    await execute(CommandIDs.goToCell, 'job-1');
    expect(told()[0]).toMatch(/^The cell is no longer in digits.ipynb\. “Open result” shows/);
  });

  it('is missed if its notebook was deleted', async () => {
    training.state = { ...training.state, jobs: [aJobOf(0)] };
    app.missingFiles.push('digits.ipynb');
    await execute(CommandIDs.goToCell, 'job-1');
    expect(told()[0]).toMatch(/^digits.ipynb no longer exists/);
  });
});

describe('the results of a job', () => {
  /** Open a notebook with a cell of a job that has brought a variable back, and the cell that loads the variable. */
  function openLoadable(): FakePanel {
    const notebook = tracker.open(new FakePanel(['train()', makeLoadingCode('job-1', ['model'])]));
    app.addForeignCommand('docmanager:open', () => notebook);
    const targets = [{ ...TARGET, cell_id: notebook.cells[0].id }];
    training.state = { ...training.state, jobs: [aJob({ targets })] };
    training.server.answer('GET jobs/job-1/results', someResults('model'));
    return notebook;
  }

  it('are loaded by the cell below, which runs again if it is there', async () => {
    const notebook = openLoadable();
    const run = jest.spyOn(NotebookActions, 'run').mockResolvedValue(true);
    await execute(CommandIDs.loadResults, 'job-1');
    expect([run.mock.calls.length, notebook.content.activeCellIndex, notebook.cells.length]).toEqual([
      1, 1, 2
    ]);
  });

  it('are loaded once by a double click: a second run would take the error of the first one away', async () => {
    const notebook = openLoadable();
    let end: (succeeded: boolean) => void = () => undefined;
    const running = new Promise<boolean>(resolve => {
      end = resolve;
    });
    const run = jest.spyOn(NotebookActions, 'run').mockReturnValue(running);
    const first = execute(CommandIDs.loadResults, 'job-1');
    await execute(CommandIDs.loadResults, 'job-1');
    expect([run.mock.calls.length, notebook.content.activeCellIndex]).toEqual([1, 1]);
    end(false);
    await first;
    await execute(CommandIDs.loadResults, 'job-1');
    expect(run).toHaveBeenCalledTimes(2);
  });

  it('are not loaded if there are none, and the user is told', async () => {
    training.state = { ...training.state, jobs: [aJob()] };
    const lost = { ...someResults().variables[0], reason: 'It cannot be pickled.' };
    training.server.answer('GET jobs/job-1/results', someResults('model', { variables: [lost] }));
    await execute(CommandIDs.loadResults, 'job-1');
    expect(told()).toEqual(['The job has brought no variable back. Its details in the panel say why.']);
  });
});

describe('the log of a job', () => {
  it('is opened once, and shown again after that', async () => {
    training.state = { ...training.state, jobs: [aJob(), aJob({ id: 'job-2', name: 'other' })] };
    const before = app.widgets.length;
    for (const id of ['job-1', 'job-1', 'job-2']) {
      await execute(CommandIDs.openLog, id);
    }
    const opened = app.widgets.slice(before).map(widget => widget.title.label);
    expect(new Set(opened)).toEqual(new Set(['Log: digits', 'Log: other']));
    expect(new Set(app.widgets.slice(before)).size).toBe(2);
    expect(app.activated).toEqual(['jupyter-gq-log-job-1', 'jupyter-gq-log-job-1', 'jupyter-gq-log-job-2']);
  });

  it('is spoken only where the user searches it', async () => {
    training.state = { ...training.state, jobs: [aJob()] };
    await execute(CommandIDs.openLog, 'job-1');
    const { content } = app.widgets.at(-1) as MainAreaWidget<LogView>;
    const live = (): string[] => all('[aria-live=polite]', content.node).map(words);
    await content.refresh();
    expect(content.node.getAttribute('aria-live')).toBe('off');
    expect(live()).toEqual([]);
    await content.search('loss');
    expect(live()).not.toEqual([]);
  });

  it('is below the notebook in Notebook 7, whose main area has no room for it', async () => {
    training.state = { ...training.state, jobs: [aJob()] };
    const findArea = async (): Promise<string | undefined> => {
      await execute(CommandIDs.openLog, 'job-1');
      return app.areas.get(app.widgets.at(-1) as Widget);
    };
    expect(await findArea()).toBe('main');
    await log.deactivate?.(app.frontEnd);
    await activateLog(null);
    expect(await findArea()).toBe('down');
  });
});

describe('the panel', () => {
  it('is shown, and refreshed', async () => {
    await app.commands.execute(CommandIDs.openPanel);
    await app.commands.execute(CommandIDs.refresh);
    expect([app.activated, training.refreshes]).toEqual([[PANEL_ID], 1]);
  });

  it('is shown with one job, which may be older than the list', async () => {
    jest.spyOn(training, 'findJob').mockResolvedValue(aJob({ id: 'old' }));
    await app.commands.execute(CommandIDs.showJob, { job: 'old' });
    expect(training.state.jobs.map(job => job.id)).toEqual(['old']);
    expect(app.activated).toEqual([PANEL_ID]);
  });

  it('is shown without a job that nobody knows, and says so', async () => {
    await app.commands.execute(CommandIDs.showJob, { job: 'gone' });
    expect(app.activated).toEqual([PANEL_ID]);
    expect(told()).toEqual([expect.stringContaining('not known to you here')]);
  });
});
