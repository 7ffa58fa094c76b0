import { Notification } from '@jupyterlab/apputils';
import { StatusBar } from '@jupyterlab/statusbar';
import { DisposableDelegate } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import plugins from '../index';
import { NotebookAttachments } from '../lifetime';
import { CommandIDs } from '../tokens';
import { aJob, aNotebook } from './builders';
import {
  ConnectionCount,
  FakeApp,
  FakeTraining,
  ListenerCount,
  NOTHING_LOADED,
  setVisibility,
  sumConnections
} from './fakes';
import { FakePanel, FakeTracker, RUN_CONNECTIONS, startCell } from './notebooks';

const MINUTE = 60_000;

/** Everything that the plugins may ask JupyterLab for, by the name of the token. */
class World {
  readonly app = new FakeApp();
  readonly stream = new ConnectionCount(this.app.stream as never);
  readonly training = new FakeTraining();
  readonly tracker = new FakeTracker();
  readonly bar = new StatusBar();
  readonly register = jest.spyOn(this.bar, 'registerStatusItem');
  readonly listeners = new ListenerCount();
  /** The user's settings of this extension. */
  readonly settings = { composite: {}, changed: new Signal<object, void>({}) };
  readonly settingsConnections = new ConnectionCount(this.settings.changed as never);
  readonly items: object[] = [];
  /** Trackers whose widgets JupyterLab restores after a reload. */
  readonly trackers: { readonly isDisposed: boolean }[] = [];
  readonly mimeTypes = new Set<string>();

  readonly services: Readonly<Record<string, unknown>> = {
    'jupyter-gq:ITraining': this.training,
    'jupyter-gq:INewsFeed': {
      listen: (listener: object): object => {
        this.items.push(listener);
        return new DisposableDelegate(() => this.items.splice(this.items.indexOf(listener), 1));
      }
    },
    'jupyter-gq:IRunHistory': { isComplete: () => false, listRuns: () => [] },
    'jupyter-gq:ILoadedVariables': NOTHING_LOADED,
    'jupyter-gq:ICellOutputs': { bind: () => Promise.resolve() },
    '@jupyterlab/running:IRunningSessionManagers': {
      add: (section: object): object => {
        this.items.push(section);
        return { dispose: () => this.items.splice(this.items.indexOf(section), 1) };
      }
    },
    'jupyter-gq:ISender': { send: () => Promise.resolve(null) },
    '@jupyterlab/coreutils:ISettingRegistry': { load: () => Promise.resolve(this.settings) },
    '@jupyterlab/notebook:INotebookTracker': this.tracker,
    '@jupyterlab/statusbar:IStatusBar': this.bar,
    '@jupyterlab/application:ILayoutRestorer': {
      add: () => undefined,
      restore: (tracker: { isDisposed: boolean }) => Promise.resolve(void this.trackers.push(tracker))
    },
    '@jupyterlab/apputils:ICommandPalette': {
      addItem: (item: object): object => {
        this.items.push(item);
        return { dispose: () => this.items.splice(this.items.indexOf(item), 1) };
      }
    },
    '@jupyterlab/rendermime:IRenderMimeRegistry': {
      addFactory: ({ mimeTypes }: { mimeTypes: string[] }) =>
        mimeTypes.forEach(type => this.mimeTypes.add(type)),
      removeMimeType: (type: string) => this.mimeTypes.delete(type),
      createRenderer: () => new Widget()
    }
  };

  /** Whatever a plugin has left in this world. */
  leftovers(): object {
    const signals = [this.training, this.tracker, ...this.tracker.panels].flatMap(owner => owner.connections);
    return {
      connections: sumConnections([...signals, ...RUN_CONNECTIONS, this.stream, this.settingsConnections]),
      commands: this.app.commands.listCommands(),
      listeners: this.listeners.now,
      widgets: this.app.widgets.filter(widget => !widget.isDisposed).map(widget => widget.id),
      statusItems: this.bar.node.querySelectorAll('.jp-StatusBar-Item').length,
      statusWidgets: this.register.mock.calls.filter(([, { item }]) => !item.isDisposed).length,
      trackers: this.trackers.filter(tracker => !tracker.isDisposed).length,
      items: this.items.length,
      mimeTypes: [...this.mimeTypes],
      notifications: Notification.manager.count
    };
  }
}

const NOTHING = {
  connections: 0,
  commands: [],
  listeners: 0,
  widgets: [],
  statusItems: 0,
  statusWidgets: 0,
  trackers: 0,
  items: 0,
  mimeTypes: [],
  notifications: 0
};

beforeEach(() => {
  jest.useFakeTimers();
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
});
afterEach(() => {
  setVisibility('visible');
  jest.useRealTimers();
  jest.restoreAllMocks();
});

describe.each(plugins.map(plugin => [plugin.id, plugin] as const))('the plugin %s', (_, plugin) => {
  const tokens = [...(plugin.requires ?? []), ...(plugin.optional ?? [])];

  /** Do what makes plugins connect to more than they did at their activation. */
  async function use(world: World): Promise<void> {
    const warning = { expire_at: Date.now() / 1000 + 300, sentence: 'Bob waits.', keep_seconds: 1800 };
    world.training.set({ notebooks: [aNotebook({ warning })] });
    const panel = world.tracker.open(new FakePanel(['train()', 'plot()']));
    startCell(panel);
    world.training.recordJob(aJob());
    if (world.app.commands.hasCommand(CommandIDs.openLog)) {
      await world.app.commands.execute(CommandIDs.openLog, { job: 'job-1' });
    }
    await jest.advanceTimersByTimeAsync(1000);
  }

  it('leaves nothing behind when it is deactivated', async () => {
    const world = new World();
    world.tracker.open(new FakePanel());
    await plugin.activate(world.app.frontEnd, ...tokens.map(token => world.services[token.name] ?? null));
    await use(world);
    expect(world.leftovers()).not.toEqual(NOTHING);

    await plugin.deactivate?.(world.app.frontEnd);
    expect(world.leftovers()).toEqual(NOTHING);
    const asked = [...world.app.server.asked, ...world.training.server.asked].length;
    await jest.advanceTimersByTimeAsync(10 * MINUTE);
    world.tracker.panels.forEach(panel => panel.close());
    expect(jest.getTimerCount()).toBe(0);
    expect([...world.app.server.asked, ...world.training.server.asked]).toHaveLength(asked);
  });

  it('does without what is optional, and can be activated again', async () => {
    const world = new World();
    const required = (plugin.requires ?? []).map(token => world.services[token.name]);
    const optional = (plugin.optional ?? []).map(() => null);
    for (let time = 0; time < 2; time++) {
      await plugin.activate(world.app.frontEnd, ...required, ...optional);
      await plugin.deactivate?.(world.app.frontEnd);
      expect(world.leftovers()).toEqual(NOTHING);
    }
  });
});

describe('attachments of notebooks', () => {
  class Attachment {
    isDisposed = false;
    dispose(): void {
      this.isDisposed = true;
    }
  }

  it('are made for open notebooks and for those that are opened later, once each', () => {
    const world = new FakeTracker();
    const first = world.open(new FakePanel());
    const made: unknown[] = [];
    const attachments = new NotebookAttachments(world.tracker, panel => {
      made.push(panel);
      return new Attachment();
    });
    const second = world.open(new FakePanel());
    world.widgetAdded.emit(first);
    expect(made).toEqual([first, second]);
    expect(attachments.get(second.panel)).toBeInstanceOf(Attachment);
  });

  it('end with their notebook, or all together', () => {
    const world = new FakeTracker();
    const [first, second] = [world.open(new FakePanel()), world.open(new FakePanel())];
    const attachments = new NotebookAttachments(world.tracker, () => new Attachment());
    const [one, two] = [first, second].map(panel => attachments.get(panel.panel));
    first.close();
    expect([one?.isDisposed, two?.isDisposed, attachments.get(first.panel)]).toEqual([
      true,
      false,
      undefined
    ]);
    attachments.dispose();
    attachments.dispose();
    expect([two?.isDisposed, attachments.isDisposed]).toEqual([true, true]);
    expect(sumConnections([...world.connections, ...first.connections, ...second.connections])).toBe(0);
  });
});
