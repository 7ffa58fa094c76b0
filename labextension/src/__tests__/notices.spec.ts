import { Notification } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { StatusBar } from '@jupyterlab/statusbar';

import { describeShare, formatShare } from '../live/share';
import { NewsFeed } from '../news';
import { DRAWN } from '../notice';
import { countdown } from '../plugins/countdown';
import { lending } from '../plugins/lending';
import { memory } from '../plugins/memory';
import { notify } from '../plugins/notify';
import { status } from '../plugins/status';
import { readSettings, SETTINGS_ID } from '../settings';
import { CommandIDs } from '../tokens';
import type { IdleWarning, MemoryExcessView } from '../wire';
import { ENGLISH, aJob, aNotebook, aSuspension } from './builders';
import { FakeApp, FakeTraining, settle } from './fakes';
import { all, attach, clearScreen, perform, press, words } from './screen';

let app: FakeApp;
let training: FakeTraining;
let feed: NewsFeed;
let bar: StatusBar;

beforeEach(async () => {
  jest.useFakeTimers({ now: 1_000_000 });
  app = new FakeApp();
  training = new FakeTraining();
  feed = new NewsFeed(training, ENGLISH);
  bar = await attach(new StatusBar());
});
afterEach(() => {
  feed.dispose();
  clearScreen();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);

/** A registry with these settings of the user. */
function settings(composite: Record<string, unknown>): ISettingRegistry {
  const load = (id: string): unknown => Promise.resolve(id === SETTINGS_ID ? { composite } : {});
  return { load } as unknown as ISettingRegistry;
}

describe('the settings', () => {
  it('are the defaults if there is no registry, or if it has something else', async () => {
    const defaults = { saveOnSend: true, notifyWhenDone: true, notifyOnDesktop: false };
    expect(await readSettings(null)).toEqual(defaults);
    expect(await readSettings(settings({ saveOnSend: 'yes' }))).toEqual(defaults);
  });

  it('are those of the user', async () => {
    const theirs = { saveOnSend: false, notifyWhenDone: false, notifyOnDesktop: true };
    expect(await readSettings(settings(theirs))).toEqual(theirs);
  });
});

describe('a job that this page knew before', () => {
  it.each([
    ['its owner', null, 0],
    ['a manager of its queue', 'mia', 1]
  ])('and that %s holds is told to nobody who did it', async (_, by, count) => {
    const eviction = { reason: 'PAUSED_BY_USER', sentence: 'Paused and held.', by, at: 5 };
    await changes({ phase: 'running' }, { phase: 'paused', held_since: 5, eviction });
    expect(told()).toHaveLength(count);
  });

  it('is told with times as here and code in quotation marks', async () => {
    const sentence = 'It failed at 2026-11-29 14:11 UTC in the replayed cell 5 of 7 (`import os`).';
    await changes({ phase: 'running' }, { phase: 'failed', sentence });
    expect(told()).toEqual([
      expect.stringMatching(/^“digits”: It failed at [^U`]+ in .* \(“import os”\)\.$/)
    ]);
  });

  async function changes(from: Parameters<typeof aJob>[0], to: Parameters<typeof aJob>[0]): Promise<void> {
    training.recordJob(aJob(from));
    training.recordJob(aJob(to));
    await settle();
  }

  beforeEach(async () => {
    await notify.activate(app.frontEnd, feed, null);
  });
  afterEach(() => notify.deactivate?.(app.frontEnd));

  it.each([
    ['done', 'success', '“digits”: Trained in vision on 1 GPU for 1 min 50 s'],
    ['failed', 'error', '“digits”: The node was lost.'],
    ['paused', 'info', '“digits”: The node was lost.']
  ] as const)('is told when it is %s', async (phase, type, message) => {
    await changes({}, { phase, finished_at: 1120, ran_seconds: 110, sentence: 'The node was lost.' });
    expect(Notification.manager.notifications.map(note => [note.type, note.message])).toEqual([
      [type, message]
    ]);
  });

  it('leads to its cell and to its details', async () => {
    [CommandIDs.goToCell, CommandIDs.showJob].forEach(id => app.addForeignCommand(id));
    await changes({}, { phase: 'done', finished_at: 1120 });
    Notification.manager.notifications[0].options.actions?.forEach(action =>
      action.callback(new MouseEvent('click'))
    );
    expect(app.executed).toEqual([
      [CommandIDs.goToCell, { job: 'job-1' }],
      [CommandIDs.showJob, { job: 'job-1' }]
    ]);
  });

  it('leads to no cell if a script was sent, which has none', async () => {
    const script = { notebook_path: 'train.py', origin: 'script' } as const;
    await changes(script, { ...script, phase: 'failed' });
    const [{ options }] = Notification.manager.notifications;
    expect(options.actions?.map(({ label }) => label)).toEqual(['Details']);
  });

  it('is told once, and not when it starts or is cancelled', async () => {
    await changes({ phase: 'waiting' }, { phase: 'running' });
    await changes({}, { phase: 'cancelled', finished_at: 1120 });
    expect(told()).toEqual([]);
    await changes({ id: 'b' }, { id: 'b', phase: 'done', finished_at: 1120 });
    await changes({ id: 'b', phase: 'done' }, { id: 'b', phase: 'done', last_seq: 7 });
    expect(told()).toHaveLength(1);
  });
});

describe('a job that is over', () => {
  it('is not told to a page that did not know it before', async () => {
    await notify.activate(app.frontEnd, feed, null);
    training.recordJob(aJob({ phase: 'done', finished_at: 1120 }));
    await settle();
    expect(told()).toEqual([]);
    await notify.deactivate?.(app.frontEnd);
  });

  it('is not told if the user does not want that', async () => {
    await notify.activate(app.frontEnd, feed, settings({ notifyWhenDone: false }));
    training.recordJob(aJob());
    training.recordJob(aJob({ phase: 'done', finished_at: 1120 }));
    await settle();
    expect(told()).toEqual([]);
    await notify.deactivate?.(app.frontEnd);
  });
});

describe('the warning of an idle notebook', () => {
  /** The service warns, or withdraws its warning. */
  function warn(given: Partial<IdleWarning> | null): void {
    const warning = { expire_at: 1300, sentence: 'Bob waits for 0.25 GPU.', keep_seconds: 1800 };
    training.set({ notebooks: [aNotebook({ warning: given === null ? null : { ...warning, ...given } })] });
  }

  beforeEach(async () => {
    app.addForeignCommand('docmanager:save-all');
    app.addForeignCommand(CommandIDs.openPanel);
    await countdown.activate(app.frontEnd, training, bar);
  });
  afterEach(() => countdown.deactivate?.(app.frontEnd));

  it('counts down in one notification', async () => {
    warn({});
    await jest.advanceTimersByTimeAsync(53_000);
    expect(told()).toHaveLength(1);
    expect(told()[0]).toMatch(/^Your share is taken at .+, in 4:07\. Bob waits for 0\.25 GPU\.$/);
  });

  it('saves all documents once, so that no edit is lost with the server', async () => {
    warn({});
    warn({ expire_at: 1400 });
    await settle();
    expect(app.executed).toEqual([['docmanager:save-all', {}]]);
  });

  it('is withdrawn with its notification and its clock', async () => {
    warn({});
    warn(null);
    await jest.advanceTimersByTimeAsync(5000);
    expect([told(), jest.getTimerCount()]).toEqual([[], 0]);
  });

  it('goes once its last change is drawn, which would draw it anew', async () => {
    warn({});
    await jest.advanceTimersByTimeAsync(1000); // the clock changes it
    warn(null);
    await settle();
    expect(told()).toHaveLength(1);
    await jest.advanceTimersByTimeAsync(DRAWN);
    expect(told()).toEqual([]);
  });

  it('is not shown again after the user has closed it', async () => {
    warn({});
    Notification.manager.dismiss();
    await jest.advanceTimersByTimeAsync(3000);
    expect(told()).toEqual([]);
  });

  it('of another time is shown although the one before was closed', async () => {
    warn({});
    Notification.manager.dismiss();
    warn({ expire_at: 1900, sentence: 'Your server stops: variables are lost, files are kept.' });
    await settle();
    expect(told()).toHaveLength(1);
    expect(told()[0]).toMatch(/variables are lost/);
  });

  it('can be answered with "Keep it"', async () => {
    warn({});
    training.server.answer('POST keep', aNotebook({ kept_until: 2800 }));
    const [keep] = Notification.manager.notifications[0].options.actions ?? [];
    expect([keep.label, keep.caption]).toEqual(['Keep it', 'Keeps your share for 30 min longer.']);
    keep.callback(new MouseEvent('click'));
    await settle();
    expect(training.server.asked).toEqual(['POST keep']);
    expect(told().join()).toMatch(/Your share is kept until \d\d:\d\d( [AP]M)?\./);
    expect(training.notebookHere?.kept_until).toBe(2800);
  });

  it('has no "Keep it" once the bound is reached', () => {
    warn({ keep_seconds: 0 });
    expect(Notification.manager.notifications[0].options.actions).toEqual([]);
  });

  it('says why the share cannot be kept', async () => {
    warn({});
    training.server.answer(
      'POST keep',
      { code: 'bound_reached', message: 'Kept for as long as allowed.' },
      409
    );
    await app.commands.execute(CommandIDs.keepShare);
    expect(told()).toContain('Kept for as long as allowed.');
  });

  it('can be answered from the palette only while there is one', () => {
    expect(app.commands.isEnabled(CommandIDs.keepShare)).toBe(false);
    warn({});
    expect(app.commands.isEnabled(CommandIDs.keepShare)).toBe(true);
  });

  it('counts down in the status bar, which leads to the panel', async () => {
    await perform(() => warn({}));
    await perform(() => jest.advanceTimersByTime(53_000));
    const [item] = all('.jp-gq-mod-warning', bar.node);
    expect(words(item)).toBe('Share taken in 4:07');
    await press('Idle warning');
    expect(app.executed).toContainEqual([CommandIDs.openPanel, {}]);
  });
});

describe('a share that is lent while its notebook is idle', () => {
  const why = 'Suspended: your 0.5 GPU was idle for 45 min, and vision waited for a GPU.';
  const suspension = aSuspension({ sentence: `${why} The next cell waits a few seconds and goes on.` });

  /** The service tells the state of the share. */
  function tell(phase: 'running' | 'suspended' | 'resuming', id = 'nb-1'): void {
    training.set({
      notebooks: [aNotebook({ id, phase, suspension: phase === 'running' ? null : suspension })]
    });
  }

  beforeEach(async () => {
    await lending.activate(app.frontEnd, training);
  });
  afterEach(() => lending.deactivate?.(app.frontEnd));

  it('is told once, with for whom, why and what brings it back', () => {
    tell('running');
    tell('suspended');
    tell('suspended');
    expect(told()).toEqual([`${why} The next cell brings it back.`]);
  });

  it('is told when it is back, in place of the first notification', () => {
    tell('running');
    tell('suspended');
    tell('resuming');
    expect(told()).toHaveLength(1);
    tell('running');
    expect(Notification.manager.notifications.map(note => [note.type, note.message])).toEqual([
      ['success', 'Your GPU is back.']
    ]);
  });

  it('is not told to a page that was opened afterwards, but its return is', () => {
    tell('suspended');
    expect(told()).toEqual([]);
    tell('running');
    expect(told()).toEqual(['Your GPU is back.']);
  });

  it('is forgotten with its server', () => {
    tell('running');
    tell('suspended');
    training.set({ notebooks: [] });
    expect(told()).toEqual([]);
    tell('running', 'nb-2');
    expect(told()).toEqual([]);
  });

  it('is not told any more once the plugin is off', () => {
    tell('running');
    void lending.deactivate?.(app.frontEnd);
    tell('suspended');
    expect(told()).toEqual([]);
  });
});

describe('a share that holds too much memory', () => {
  const excess: MemoryExcessView = {
    used_mib: 22528,
    limit_mib: 20480,
    over_mib: 2048,
    done: 'warn',
    next: 'interrupt',
    next_at: 1060,
    sentence: 'The programs of this share hold 22 GiB.'
  };
  const tell = (given: Partial<MemoryExcessView> | null): void => {
    training.set({ notebooks: [aNotebook({ over_limit: given === null ? null : { ...excess, ...given } })] });
  };
  beforeEach(() => memory.activate(app.frontEnd, training));
  afterEach(() => memory.deactivate?.(app.frontEnd));

  it('is told at each step, with the amounts and what follows', () => {
    tell({});
    tell({ used_mib: 22600, next_at: 1059 });
    expect(told()).toHaveLength(1);
    expect(told()[0]).toContain(
      'Too much GPU memory: 22 of 20 GiB. Free some, or the largest program is interrupted at'
    );
    tell({ done: 'interrupt', next: 'terminate' });
    expect(told()).toHaveLength(1);
    expect(told()[0]).toContain('was interrupted, and is ended at');
    tell({ done: 'kill', next: null, next_at: null });
    expect(told()).toEqual([
      'A program was ended: the share held too much GPU memory, 22 of 20 GiB. Its variables are lost.'
    ]);
  });

  it('is not told any more when memory was freed', () => {
    tell({});
    tell(null);
    expect(told()).toEqual([]);
  });

  it('is in the status bar while there is an excess', () => {
    const parts = { memory_used_mib: 22528, memory_quota_mib: 20480 };
    expect(formatShare(aNotebook({ ...parts, over_limit: excess }), 1000, ENGLISH)).toContain(
      'too much memory'
    );
    const past = { ...excess, next: null, next_at: null };
    expect(formatShare(aNotebook({ ...parts, over_limit: past }), 1000, ENGLISH)).not.toContain(
      'too much memory'
    );
    expect(describeShare(aNotebook({ over_limit: past }), ENGLISH)).toContain(excess.sentence);
  });
});

describe('the share in the status bar', () => {
  beforeEach(async () => {
    app.addForeignCommand(CommandIDs.openPanel);
    await status.activate(app.frontEnd, training, bar);
  });
  afterEach(() => status.deactivate?.(app.frontEnd));

  const item = (): HTMLElement => all('.jp-StatusBar-Item', bar.node)[0];

  it('is hidden on a page whose server has none', async () => {
    await perform(() => training.set({ notebooks: [] }));
    expect([words(item()), item().classList.contains('lm-mod-hidden')]).toEqual(['', true]);
  });

  it('is shown with what is known of it', async () => {
    await perform(() => {
      training.set({
        notebooks: [aNotebook({ model: 'H200', memory_quota_mib: 10240, memory_used_mib: 5120 })]
      });
      jest.advanceTimersByTime(50);
    });
    expect(words(item())).toBe('GPU 0.5 · 5 / 10 GiB');
    expect(item().classList.contains('lm-mod-hidden')).toBe(false);
    expect(item().querySelector('button')?.title).toContain('This notebook server holds 0.5 GPU. On H200.');
  });

  it.each(['hardware', 'driver', 'mps', 'intercept', 'watched', 'cooperative', 'advisory'])(
    'has the level %s of its memory limit in the tooltip, with what it means',
    async enforcement => {
      await perform(() => {
        const notebooks = [aNotebook({ enforcement, enforcement_sentence: 'What it means.' })];
        training.set({ notebooks });
        jest.advanceTimersByTime(50);
      });
      expect(item().querySelector('button')?.title).toContain(`Memory limit: ${enforcement}. What it means.`);
    }
  );

  it('shows the place in line of a cell that waits, and the whole sentence in the tooltip', async () => {
    const sentence = 'A cell waits. The share has place 2 in line.';
    const suspension = aSuspension({ wanted: true, position: 2, leaving: 1 });
    await perform(() => {
      training.set({ notebooks: [aNotebook({ phase: 'suspended', sentence, suspension })] });
      jest.advanceTimersByTime(50);
    });
    expect(words(item())).toBe('GPU 0.5 · a cell waits, 2nd in line');
    expect(item().querySelector('button')?.title).toContain(sentence);
  });

  it('counts the minutes of idleness without an event', async () => {
    await perform(() => training.set({ notebooks: [aNotebook({ idle_since: 1000 })] }));
    await perform(() => jest.advanceTimersByTime(300_000));
    expect(words(item())).toBe('GPU 0.5 · idle 5 min');
  });

  it('leads to the panel', async () => {
    await perform(() => {
      training.set({ notebooks: [aNotebook()] });
      jest.advanceTimersByTime(50);
    });
    await press('GPU share: GPU 0.5');
    expect(app.executed).toEqual([[CommandIDs.openPanel, {}]]);
  });
});
