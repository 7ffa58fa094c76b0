import { Notification } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { Queues } from '../panel/queues';
import { PanelWidget } from '../panel/widget';
import { CommandIDs, PANEL_ID } from '../tokens';
import type { JobSummary } from '../wire';
import { ENGLISH, aJob, aNotebook, aQueue } from './builders';
import { FakeApp, FakeTraining, NOTHING_LOADED, settle, sumConnections } from './fakes';
import { all, attach, button, clearScreen, draw, drawn, perform, press, show, words } from './screen';

const NOW = Date.now() / 1000;

/** The side panel on the page, with commands that only say that they were executed. */
async function aPanel(): Promise<{ panel: PanelWidget; training: FakeTraining; app: FakeApp }> {
  const [training, app] = [new FakeTraining(), new FakeApp()];
  const { cancelJob, cancelWaiting, holdJob, releaseJob, openLog, openResult, goToCell, refresh } =
    CommandIDs;
  [cancelJob, cancelWaiting, holdJob, releaseJob, openLog, openResult, goToCell, refresh].forEach(id =>
    app.addForeignCommand(id)
  );
  const panel = await attach(new PanelWidget(training, NOTHING_LOADED, app.commands, ENGLISH));
  return { panel, training, app };
}

/** Return the number of timers that are left when all is drawn. */
async function countTimers(): Promise<number> {
  await perform(() => jest.advanceTimersByTimeAsync(100));
  return jest.getTimerCount();
}

const row = (id: string): HTMLElement | null => document.querySelector(`[data-job="${id}"]`);

afterEach(() => {
  clearScreen();
  jest.restoreAllMocks();
});

describe('the panel', () => {
  it('says what to do while there is nothing', async () => {
    const { panel } = await aPanel();
    expect(panel.id).toBe(PANEL_ID);
    expect(words(panel.node)).toContain(
      'You have no jobs. Select a cell that takes long and choose “Send to training”'
    );
    expect(words(panel.node)).toContain('Choose a share when you start a server.');
    panel.dispose();
  });

  it('shows that it is loading, and nothing else, before the first answer', async () => {
    const { panel, training } = await aPanel();
    training.state = { ...training.state, loaded: false, available: null };
    await draw(panel);
    expect(all('[aria-label="Loading"]')).toHaveLength(1);
    expect(words(panel.node)).not.toContain('You have no jobs');
    panel.dispose();
  });

  it('says why the service is away, and keeps what is known', async () => {
    const { panel, training, app } = await aPanel();
    training.state = {
      ...training.state,
      available: false,
      message: 'The GPU scheduler cannot be reached.',
      jobs: [aJob()]
    };
    await draw(panel);
    expect(words(document.querySelector('[aria-label="Connection"]'))).toContain(
      'The GPU scheduler cannot be reached. Jobs continue.'
    );
    expect(row('job-1')).not.toBeNull();
    await press('Try now');
    expect(app.executed).toEqual([[CommandIDs.refresh, {}]]);
    panel.dispose();
  });

  it.each([
    'The GPU scheduler cannot be reached. Running jobs continue.',
    'You are logged out. Log in again in another tab.'
  ])('says once that jobs continue, and turns no wheel: %s', async message => {
    const { panel, training } = await aPanel();
    training.state = { ...training.state, available: false, message, jobs: [aJob()] };
    await draw(panel);
    const banner = words(document.querySelector('[aria-label="Connection"]'));
    expect(banner.match(/jobs continue/gi)).toHaveLength(1);
    expect(banner).toContain(message);
    expect(banner).toContain('The lists below may be out of date.');
    expect(all('.jp-gq-mod-outdated .jp-gq-spinner')).toHaveLength(1);
    training.state = { ...training.state, available: true };
    await draw(panel);
    expect(all('.jp-gq-mod-outdated .jp-gq-spinner')).toHaveLength(0);
    panel.dispose();
  });

  it('tells ages by the clock of the server if that of the browser is off', async () => {
    const { panel, training } = await aPanel();
    const skew = 7200;
    training.server.date = new Date(Date.now() - skew * 1000).toUTCString();
    await training.client.getMe();
    training.state = {
      ...training.state,
      jobs: [aJob({ submitted_at: Date.now() / 1000 - skew - 180, finished_at: null })]
    };
    await draw(panel);
    expect(words(document.querySelector('.jp-gq-age'))).toMatch(/^[23] min ago$/);
    panel.dispose();
  });

  it('lists jobs that wait or run before those that are over', async () => {
    const { panel, training } = await aPanel();
    training.state = {
      ...training.state,
      jobs: [aJob({ id: 'a', phase: 'done', finished_at: NOW }), aJob({ id: 'b', phase: 'waiting' })],
      next: 'b'
    };
    await draw(panel);
    expect(all('[data-job]').map(item => item.dataset.job)).toEqual(['b', 'a']);
    expect(words(document.querySelector('[aria-label="Jobs"] .jp-gq-count'))).toBe('2+');
    panel.dispose();
  });

  it('draws a burst of changes once, and only while it is visible', async () => {
    const { panel, training } = await aPanel();
    jest.useFakeTimers();
    const update = jest.spyOn(panel, 'update');
    training.recordJob(aJob({ id: 'a' }));
    training.recordJob(aJob({ id: 'b' }));
    await jest.advanceTimersByTimeAsync(100);
    expect(update).toHaveBeenCalledTimes(1);
    panel.hide();
    training.recordJob(aJob({ id: 'c' }));
    await jest.advanceTimersByTimeAsync(60_000);
    expect(update).toHaveBeenCalledTimes(1);
    panel.dispose();
    jest.useRealTimers();
  });

  it('has one clock, however often it is moved on the page, and none while it is hidden', async () => {
    jest.useFakeTimers();
    const { panel } = await aPanel();
    const timers = await countTimers();
    Widget.detach(panel);
    Widget.attach(panel, document.body);
    expect(await countTimers()).toBe(timers);
    panel.hide();
    expect(await countTimers()).toBe(timers - 1);
    panel.dispose();
    jest.useRealTimers();
  });

  it('leaves no connection and no timer behind', async () => {
    const { panel, training } = await aPanel();
    expect(sumConnections(training.connections)).toBe(1);
    jest.useFakeTimers();
    panel.hide();
    panel.show();
    training.recordJob(aJob());
    expect(jest.getTimerCount()).toBeGreaterThan(0);
    const update = jest.spyOn(panel, 'update');
    panel.dispose();
    await jest.advanceTimersByTimeAsync(60_000);
    expect([sumConnections(training.connections), jest.getTimerCount()]).toEqual([0, 0]);
    expect(update).not.toHaveBeenCalled();
    jest.useRealTimers();
  });
});

describe('a row of the panel', () => {
  it('tells briefly when it starts, and in its details why it waits', async () => {
    const { panel, training } = await aPanel();
    const expected_start = { p50: NOW + 240, p90: NOW + 880, outcomes: 9 };
    const job = aJob({ phase: 'waiting', position: 2, sentence: 'All devices are in use.', expected_start });
    training.state = { ...training.state, jobs: [job] };
    await draw(panel);
    const said = (): string => words(document.querySelector('[data-job]'));
    expect(said()).toContain('2nd in line. Probably starts within');
    expect(said()).not.toContain('All devices are in use.');
    await press('Details of digits');
    expect(said()).toContain('All devices are in use.');
    panel.dispose();
  });

  it('unfolds its details, and folds them again', async () => {
    const { panel, training } = await aPanel();
    training.state = { ...training.state, jobs: [aJob({ memory: '16 GiB', tasks: 2, run: 3 })] };
    await draw(panel);
    const head = button('Details of digits');
    await perform(() => head.click());
    await draw(panel);
    const details = words(document.querySelector('dl'));
    expect(details).toContain('Asked for1 GPU, 16 GiB of memory, for each task');
    expect(details).toContain('Runs3');
    expect(head.getAttribute('aria-expanded')).toBe('true');
    await perform(() => head.click());
    await draw(panel);
    expect(document.querySelector('dl')).toBeNull();
    panel.dispose();
  });

  it('tells notebooks of one name in two folders apart', async () => {
    const { panel, training } = await aPanel();
    const jobs = ['a', 'b'].map(id => aJob({ id, notebook_path: `${id}/same.ipynb` }));
    training.state = { ...training.state, jobs };
    await draw(panel);
    expect(all('.jp-gq-row-notebook').map(words)).toEqual(['a/same.ipynb', 'b/same.ipynb']);
    panel.dispose();
  });

  it('offers the deletion of a job that has ended, and of no other', async () => {
    const { panel, training, app } = await aPanel();
    app.addForeignCommand(CommandIDs.deleteJob);
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' })] };
    await draw(panel);
    panel.reveal('job-1');
    await draw(panel);
    await press('Delete… digits');
    expect(app.executed).toEqual([[CommandIDs.deleteJob, { job: 'job-1' }]]);
    training.state = { ...training.state, jobs: [aJob()] };
    await draw(panel);
    expect(panel.node.textContent).not.toContain('Delete…');
    panel.dispose();
  });

  it.each([
    ['job-1', 'Details of second'],
    ['job-3', 'Details of second'],
    ['job-2', 'Details of third']
  ])('gives the focus to the row in the place of the deleted one: %s, %s', async (id, focused) => {
    const { panel, training, app } = await aPanel();
    app.addForeignCommand(CommandIDs.deleteJob, () => training.forgetJob(id));
    const jobs = ['first', 'second', 'third'].map((name, at) =>
      aJob({ id: `job-${at + 1}`, name, phase: 'done' })
    );
    training.state = { ...training.state, jobs };
    panel.reveal(id);
    await draw(panel);
    await press(`Delete… ${jobs.find(job => job.id === id)?.name}`);
    await drawn(panel);
    expect(row(id)).toBeNull();
    expect(document.activeElement?.getAttribute('aria-label')).toBe(focused);
    panel.dispose();
  });

  it('takes the focus from nothing else in which the user works while the job is deleted', async () => {
    const { panel, training, app } = await aPanel();
    const editor = document.body.appendChild(document.createElement('textarea'));
    app.addForeignCommand(CommandIDs.deleteJob, () => {
      editor.focus();
      training.forgetJob('job-1');
    });
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' }), aJob({ id: 'job-2' })] };
    panel.reveal('job-1');
    await draw(panel);
    await press('Delete… digits');
    await drawn(panel);
    expect(document.activeElement).toBe(editor);
    editor.remove();
    panel.dispose();
  });

  it('keeps the focus if the last job is deleted, and leaves it alone if none is', async () => {
    const { panel, training, app } = await aPanel();
    let isDeleted = false;
    app.addForeignCommand(CommandIDs.deleteJob, () => isDeleted && training.forgetJob('job-1'));
    training.state = { ...training.state, jobs: [aJob({ phase: 'done' })] };
    panel.reveal('job-1');
    await draw(panel);
    button('Delete… digits').focus();
    await press('Delete… digits');
    await drawn(panel);
    expect(document.activeElement).toBe(button('Delete… digits'));
    isDeleted = true;
    await press('Delete… digits');
    await drawn(panel);
    expect(document.activeElement).toBe(button('Refresh'));
    panel.dispose();
  });

  it('offers what can be done with the job', async () => {
    const { panel, training, app } = await aPanel();
    training.state = { ...training.state, jobs: [aJob()] };
    await draw(panel);
    panel.reveal('job-1');
    await draw(panel);
    for (const label of ['Go to cell of digits', 'Log of digits', 'Open result of digits', 'Cancel digits']) {
      await press(label);
    }
    expect(app.executed).toEqual([
      [CommandIDs.goToCell, { job: 'job-1' }],
      [CommandIDs.openLog, { job: 'job-1' }],
      [CommandIDs.openResult, { job: 'job-1' }],
      [CommandIDs.cancelJob, { job: 'job-1' }]
    ]);
    panel.dispose();
  });

  it('does not offer what is impossible: a result before a run, to cancel what is over, a cell of a script', async () => {
    const { panel, training } = await aPanel();
    const over = {
      phase: 'cancelled',
      run: 0,
      finished_at: NOW,
      notebook_path: 'train.py',
      origin: 'script'
    } as const;
    training.state = { ...training.state, jobs: [aJob(over)] };
    panel.reveal('job-1');
    await draw(panel);
    expect(button('Open result of digits').disabled).toBe(true);
    expect(all('button').map(words)).not.toContain('Cancel');
    expect(all('button').map(words)).not.toContain('Go to cell');
    expect(all('dt').map(words)).toContain('Script');
    panel.dispose();
  });

  it.each<[string, Partial<JobSummary>, string[], string[]]>([
    [
      'cells of a notebook that is opened from a text',
      { notebook_path: 'a.py' },
      ['Go to cell'],
      ['Notebook']
    ],
    ['a call of a function in a notebook', { origin: 'call' }, [], ['Notebook']],
    ['a script', { origin: 'script', notebook_path: 'a.py' }, [], ['Script']],
    ['a script, by an earlier release', { origin: undefined, notebook_path: 'a.py' }, [], ['Script']],
    ['a notebook, by an earlier release', { origin: undefined }, ['Go to cell'], ['Notebook']]
  ])('leads to a cell if there is one: %s', async (_, given, buttons, terms) => {
    const { panel, training } = await aPanel();
    training.state = { ...training.state, jobs: [aJob(given)] };
    panel.reveal('job-1');
    await draw(panel);
    const shown = (selector: string, known: string[]): string[] =>
      all(selector)
        .map(words)
        .filter(text => known.includes(text));
    expect(shown('button', ['Go to cell'])).toEqual(buttons);
    expect(shown('dt', ['Notebook', 'Script'])).toEqual(terms);
    panel.dispose();
  });

  it.each([
    ['waiting', null, 'Waiting', 'Hold', CommandIDs.holdJob],
    ['running', null, 'Running', 'Hold', CommandIDs.holdJob],
    ['waiting', 5, 'Held', 'Release', CommandIDs.releaseJob],
    ['paused', 5, 'Held', 'Release', CommandIDs.releaseJob]
  ] as const)(
    'offers what can be done to a job: %s, held since %s',
    async (phase, since, word, label, command) => {
      const { panel, training, app } = await aPanel();
      training.state = { ...training.state, jobs: [aJob({ phase, held_since: since })] };
      panel.reveal('job-1');
      await draw(panel);
      expect(row('job-1')?.getAttribute('aria-label')).toContain(`, ${word}, `);
      await press(`${label} digits`);
      expect(app.executed).toEqual([[command, { job: 'job-1' }]]);
      panel.dispose();
    }
  );

  it('offers to cancel all jobs that wait if there are several', async () => {
    const { panel, training, app } = await aPanel();
    const offered = (): string[] =>
      all('button')
        .map(words)
        .filter(text => text.startsWith('Cancel the'));
    const waits = aJob({ id: 'a', phase: 'waiting' });
    const held = aJob({ id: 'd', phase: 'waiting', held_since: 5 });
    training.state = { ...training.state, jobs: [waits, held, aJob({ id: 'b', phase: 'paused' })] };
    await draw(panel);
    expect(offered()).toEqual([]);
    training.state = {
      ...training.state,
      jobs: [...training.state.jobs, { ...waits, id: 'c' }]
    };
    await draw(panel);
    expect(offered()).toEqual(['Cancel the 2 jobs that wait']);
    await press('Cancel the 2 jobs that wait');
    expect(app.executed).toEqual([[CommandIDs.cancelWaiting, {}]]);
    panel.dispose();
  });

  it('says why a job failed and why it was paused', async () => {
    const { panel, training } = await aPanel();
    const eviction = { reason: 'RECLAIMED', sentence: 'nlp needed its GPU back.', by: 'nlp', at: NOW };
    const error = { ename: 'ValueError', evalue: 'bad batch' };
    training.state = {
      ...training.state,
      jobs: [aJob({ phase: 'failed', sentence: 'It failed.', finished_at: NOW, eviction, error })]
    };
    panel.reveal('job-1');
    await draw(panel);
    expect(words(row('job-1'))).toContain('ValueError: bad batch');
    expect(words(row('job-1'))).toContain('Pausednlp needed its GPU back.');
    const sentence = 'Pausing: nlp needed its GPU back.';
    training.state = { ...training.state, jobs: [aJob({ phase: 'pausing', sentence, eviction })] };
    await draw(panel);
    expect(words(row('job-1'))).toContain('Pausingdigits.ipynbnlp needed its GPU back.');
    expect(words(row('job-1')).match(/nlp needed/g)).toHaveLength(1);
    panel.dispose();
  });

  it('shows how far a job is only if the job says so', async () => {
    const { panel, training } = await aPanel();
    training.state = {
      ...training.state,
      jobs: [
        aJob({ id: 'a', progress: { fraction: 0.42, text: 'epoch 5' } }),
        aJob({ id: 'b', progress: { fraction: null, text: 'epoch 5' } })
      ]
    };
    await draw(panel);
    expect(row('a')?.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow')).toBe('42');
    expect(row('b')?.querySelector('[role=progressbar]')).toBeNull();
    panel.dispose();
  });
});

describe('the disk space of the files of jobs', () => {
  it('is shown if it is measured', async () => {
    const { panel, training } = await aPanel();
    training.state = {
      ...training.state,
      jobs: [aJob()],
      disk: '12 GiB of at most 500 GiB',
      database: '3 GiB of at most 4 GiB'
    };
    await draw(panel);
    expect(panel.node.textContent).toContain('Files on disk: 12 GiB of at most 500 GiB');
    expect(panel.node.textContent).toContain('In the database: 3 GiB of at most 4 GiB');
    training.state = { ...training.state, disk: '' };
    await draw(panel);
    expect(panel.node.textContent).not.toContain('Files on disk');
    panel.dispose();
  });
});

describe('older jobs', () => {
  it('can be fetched, and a failure is said', async () => {
    const { panel, training } = await aPanel();
    training.failure = 'No answer.';
    training.state = { ...training.state, jobs: [aJob()], next: 'job-1' };
    await draw(panel);
    await press('Show older jobs');
    await settle();
    expect(Notification.manager.notifications.map(({ message }) => message)).toEqual([
      'Older jobs could not be fetched. No answer.'
    ]);
    await draw(panel);
    expect(button('Show older jobs').disabled).toBe(false);
    panel.dispose();
  });
});

describe('the notebooks of the panel', () => {
  it('say which one this page belongs to, and what each does', async () => {
    const { panel, training } = await aPanel();
    training.state = {
      ...training.state,
      notebooks: [
        aNotebook({ id: 'a', idle_since: NOW - 3630, memory_quota_mib: 10240, memory_used_mib: 5120 }),
        aNotebook({ id: 'b', server: 'second', phase: 'waiting', position: 2, sentence: 'All are in use.' })
      ]
    };
    await draw(panel);
    const [here, waiting] = all('[aria-label="Notebooks"] li');
    expect(words(here)).toMatch(/^Default serverhere0.5 GPURunningIdle 1 h · 5 \/ 10 GiB/);
    expect(words(waiting)).toContain('second0.5 GPUWaiting2nd in line. All are in use.');
    panel.dispose();
  });

  it('say how the memory limit is enforced, and what that means, in the tooltip of the amount', async () => {
    const { panel, training } = await aPanel();
    const level = { enforcement: 'watched', enforcement_sentence: 'The service ends what takes more.' };
    training.state = { ...training.state, notebooks: [aNotebook(level)] };
    await draw(panel);
    const [amount] = all('[aria-label="Notebooks"] .jp-gq-row-amount');
    expect(amount.title).toBe('Memory limit: watched. The service ends what takes more.');
    panel.dispose();
  });
});

describe('the queues of the panel', () => {
  it('show use within and over the quota as parts of one bar', async () => {
    const node = await show(
      <Queues
        queues={[aQueue({ quota: '1', used: '2', over_quota: '1' }), aQueue({ member: false })]}
        trans={ENGLISH}
      />
    );
    const [queue, ...others] = all('li', node);
    expect(others).toEqual([]);
    expect(all('.jp-gq-queue-bar > span', queue).map(part => part.style.width)).toEqual(['50%', '50%']);
    expect(queue.getAttribute('aria-label')).toBe('Queue vision: 1 guaranteed, 2 in use');
  });

  it('are not there for a user without queues', async () => {
    expect(words(await show(<Queues queues={[]} trans={ENGLISH} />))).toBe('');
  });
});
