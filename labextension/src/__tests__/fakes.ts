/** Stand-ins for what surrounds the extension: the Jupyter server, JupyterLab's application, notebooks, the live view. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ServerConnection } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import { LoadedVariables } from '../attach/loaded';
import type { ILineServices } from '../attach/renderer';
import { Client } from '../client';
import { mergeJobs } from '../jobs';
import type { ILiveState } from '../live/state';
import { findNotebookHere, INITIAL_STATE, markUnknown, placeJobs } from '../live/state';
import type { ITraining } from '../tokens';
import type { JobSummary, JobView, NotebookView, OutputNotice } from '../wire';
import { aMe, aStatus } from './builders';

/** Let everything that waits for a promise go on. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) {
    await Promise.resolve();
  }
}

/** The number of slots that are connected to a signal, from now on. */
export class ConnectionCount {
  constructor(signal: ISignal<never, never>) {
    const { connect, disconnect } = signal;
    signal.connect = (...args): boolean => {
      const isNew = connect.apply(signal, args);
      this.now += isNew ? 1 : 0;
      this.most = Math.max(this.most, this.now);
      return isNew;
    };
    signal.disconnect = (...args): boolean => {
      const wasThere = disconnect.apply(signal, args);
      this.now -= wasThere ? 1 : 0;
      return wasThere;
    };
  }

  now = 0;
  most = 0;
}

/** Return a counter for each of these signals. */
export function countConnections(signals: readonly unknown[]): ConnectionCount[] {
  return signals.map(signal => new ConnectionCount(signal as ISignal<never, never>));
}

/** Return the sum of all connections that are left. */
export function sumConnections(counts: readonly ConnectionCount[]): number {
  return counts.reduce((sum, count) => sum + count.now, 0);
}

/** The listeners that are added to the page, from now on, without the one that React keeps for ever. */
export class ListenerCount {
  constructor() {
    const { addEventListener, removeEventListener } = document;
    jest.spyOn(document, 'addEventListener').mockImplementation((...args: unknown[]) => {
      if (args[0] !== 'selectionchange') {
        this._listeners.add(args[1]);
      }
      (addEventListener as (...rest: unknown[]) => void).apply(document, args);
    });
    jest.spyOn(document, 'removeEventListener').mockImplementation((...args: unknown[]) => {
      this._listeners.delete(args[1]);
      (removeEventListener as (...rest: unknown[]) => void).apply(document, args);
    });
  }

  get now(): number {
    return this._listeners.size;
  }

  private readonly _listeners = new Set<unknown>();
}

/** Hide the page as if the user looked at another tab, or show it again. */
export function setVisibility(state: DocumentVisibilityState): void {
  Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}

interface IFakeRequest {
  readonly url: string;
  readonly init: RequestInit;
}

type Answer = { readonly status: number; readonly body: unknown };

/** A Jupyter server that answers as it was told, and knows what it was asked. */
export class FakeServer {
  constructor() {
    this.answer('GET status', aStatus());
    this.answer('GET jobs', { jobs: [], next: null });
    this.answer('GET notebooks', { notebooks: [] });
    this.answer('GET queues', { queues: [] });
    this.answer('GET me', aMe());
  }

  /** Whether nothing answers at all. */
  isDown = false;
  /** The time in the heads of answers; null if they have none. */
  date: string | null = null;
  /** Requests in their order, such as "GET jobs?limit=50". */
  readonly asked: string[] = [];
  /** Bodies of the requests that had one, parsed. */
  readonly bodies: unknown[] = [];

  /** Answer a method and path, such as "GET jobs", from now on; one with its query, such as "GET jobs?limit=50", first. */
  answer(route: string, body: unknown, status = 200): void {
    this._answers.set(route, { status, body });
  }

  /** Answer requests with such a body by a refusal from now on. */
  refuse(route: string, isWrong: (body: unknown) => boolean, problem: unknown, status = 422): void {
    this._refusals.set(route, { isWrong, answer: { status, body: problem } });
  }

  /** Hold back all answers until `release` is called. */
  hold(): void {
    this._held = new Promise(resolve => {
      this.release = resolve;
    });
  }

  release: () => void = () => undefined;

  readonly settings = {
    baseUrl: 'http://localhost:8888/user/ann/',
    init: {},
    Request: class {
      constructor(
        readonly url: string,
        readonly init: RequestInit
      ) {}
      readonly headers = new Map<string, string>();
    },
    fetch: (request: IFakeRequest) => this._fetch(request)
  } as unknown as ServerConnection.ISettings;

  private async _fetch({ url, init }: IFakeRequest): Promise<unknown> {
    const path = url.replace(`${this.settings.baseUrl}jupyter-gq/`, '');
    const method = init.method ?? 'GET';
    this.asked.push(`${method} ${path}`);
    if (typeof init.body === 'string') {
      this.bodies.push(JSON.parse(init.body));
    }
    await this._held;
    if (this.isDown) {
      throw new TypeError('Failed to fetch');
    }
    const routes = [path, path.split('?')[0]].map(each => `${method} ${each}`);
    const refusal = this._refusals.get(routes[1]);
    const isWrong = typeof init.body === 'string' && refusal?.isWrong(JSON.parse(init.body)) === true;
    const answer = routes.map(route => this._answers.get(route)).find(Boolean) ?? MISSING;
    const { status, body } = isWrong ? refusal.answer : answer;
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return {
      ok: status < 400,
      status,
      headers: { get: () => this.date },
      statusText: `Status ${status}`,
      body: { getReader: () => new FakeReader(text) },
      text: () => Promise.resolve(text),
      json: () => Promise.resolve(JSON.parse(text) as unknown)
    };
  }

  private readonly _answers = new Map<string, Answer>();
  private readonly _refusals = new Map<string, { isWrong: (body: unknown) => boolean; answer: Answer }>();
  private _held: Promise<void> = Promise.resolve();
}

/** A reader of an answer that arrives in pieces, which end anywhere. */
class FakeReader {
  constructor(text: string) {
    this._bytes = Buffer.from(text, 'utf8');
  }

  read(): Promise<{ done: boolean; value?: Uint8Array }> {
    const value = this._bytes.subarray(this._at, this._at + 7);
    this._at += value.length;
    return Promise.resolve(value.length === 0 ? { done: true } : { done: false, value });
  }

  private readonly _bytes: Buffer;
  private _at = 0;
}

const MISSING: Answer = { status: 404, body: '<html>404</html>' };

/** A live view whose state a test sets. */
export class FakeTraining implements ITraining {
  readonly server = new FakeServer();
  readonly client = new Client(this.server.settings);
  readonly stateChanged: Signal<ITraining, ILiveState> = new Signal<ITraining, ILiveState>(this);
  readonly jobChanged: Signal<ITraining, JobView> = new Signal<ITraining, JobView>(this);
  readonly outputArrived: Signal<ITraining, OutputNotice> = new Signal<ITraining, OutputNotice>(this);
  readonly resumed: Signal<ITraining, void> = new Signal<ITraining, void>(this);
  readonly connections = countConnections([
    this.stateChanged,
    this.jobChanged,
    this.outputArrived,
    this.resumed,
    this.client.slowChanged
  ]);
  state: ILiveState = { ...INITIAL_STATE, available: true, loaded: true };
  refreshes = 0;
  fills = 0;
  /** The next call of `loadMore` fails with this message. */
  failure: string | null = null;

  get notebookHere(): NotebookView | null {
    return findNotebookHere(this.state);
  }

  /** Change the state and tell so. */
  set(change: Partial<ILiveState>): void {
    this.state = { ...this.state, ...change };
    this.stateChanged.emit(this.state);
  }

  refresh(): Promise<void> {
    this.refreshes++;
    return Promise.resolve();
  }

  loadMore(): Promise<void> {
    return this.failure === null ? Promise.resolve() : Promise.reject(new Error(this.failure));
  }

  loadAll(): Promise<void> {
    this.fills++;
    return Promise.resolve();
  }

  findJob(id: string): Promise<JobView | null> {
    return Promise.resolve((this.state.jobs.find(job => job.id === id) ?? null) as JobView | null);
  }

  forgetJob(id: string): void {
    this.set(markUnknown(this.state, id));
  }

  recordPath(id: string, path: string): void {
    this.set(placeJobs(this.state, new Map([[id, path]])));
  }

  recordJob(job: JobView): void {
    this.set({ jobs: mergeJobs(this.state.jobs, [job]) });
    this.jobChanged.emit(job);
  }

  async recordAnswer<T>(answer: Promise<T>, listJobs: (found: T) => readonly JobSummary[]): Promise<T> {
    const found = await answer;
    listJobs(found).forEach(job => this.recordJob(job as JobView));
    return found;
  }

  recordSent(job: JobView): void {
    this.recordJob(job);
  }

  recordNotebook(notebook: NotebookView): void {
    this.set({ notebooks: [notebook] });
  }
}

/** What is loaded on a page without notebooks. */
export const NOTHING_LOADED = new LoadedVariables(null);

/** Return the services of a status line that is under no cell of an open notebook. */
export function someServices(training: FakeTraining): ILineServices {
  return { training, loaded: NOTHING_LOADED, commands: new CommandRegistry(), findCell: () => null };
}

/** The parts of JupyterLab's application that the plugins use. */
export class FakeApp {
  readonly commands = new CommandRegistry();
  readonly server = new FakeServer();
  readonly stream = new Signal<object, object>(this);
  /** Ids of widgets that were activated. */
  readonly activated: string[] = [];
  readonly widgets: Widget[] = [];
  /** Areas of the page to which widgets were added. */
  readonly areas = new Map<Widget, string | undefined>();
  /** Paths of files that do not exist. */
  readonly missingFiles: string[] = [];
  /** Ids of commands with their arguments, in the order of their execution. */
  readonly executed: [string, unknown][] = [];

  constructor() {
    this.commands.commandExecuted.connect((_, { id, args }) => this.executed.push([id, args]));
  }

  readonly shell = {
    add: (widget: Widget, area?: string): void => {
      this.widgets.push(widget);
      this.areas.set(widget, area);
    },
    activateById: (id: string): void => void this.activated.push(id)
  };

  readonly serviceManager = {
    serverSettings: this.server.settings,
    events: { stream: this.stream },
    contents: {
      get: (path: string): Promise<unknown> =>
        this.missingFiles.includes(path)
          ? Promise.reject(new Error('No such file'))
          : Promise.resolve({ path, last_modified: new Date(0).toISOString() })
    }
  };

  /** Add a command of JupyterLab itself. */
  addForeignCommand(id: string, execute: (args: unknown) => unknown = () => undefined): void {
    this.commands.addCommand(id, { execute });
  }

  /** Return this stand-in with the type of the application. */
  get frontEnd(): JupyterFrontEnd {
    return this as unknown as JupyterFrontEnd;
  }
}
