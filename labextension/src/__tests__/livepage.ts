import type { ServiceManager } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { Client } from '../client';
import { EVENT_SCHEMA } from '../live/events';
import { Training } from '../live/training';
import { ConnectionCount, FakeServer, setVisibility } from './fakes';

export const SECOND = 1000;

/** A live view of a fake server, with the events that the server would send. */
export class Page {
  constructor(readonly server = new FakeServer()) {
    this.live = new Training(new Client(server.settings), this.events as unknown as Events);
    this.live.jobChanged.connect((_, job) => this.changed.push(job.id));
    this.live.resumed.connect(() => this.resumed++);
  }

  readonly events = { stream: new Signal<object, object>({}) };
  readonly connections = new ConnectionCount(this.events.stream as never);
  readonly changed: string[] = [];
  resumed = 0;
  readonly live: Training;

  /** Send an event of the scheduler service. */
  send(kind: string, data: object = {}): void {
    this.events.stream.emit({ schema_id: EVENT_SCHEMA, kind, data });
  }

  /** Fetch every list again. */
  async refresh(): Promise<void> {
    void this.live.refresh();
    await jest.advanceTimersByTimeAsync(SECOND);
  }

  /** Return how often a list was fetched. */
  count(route: string): number {
    return this.server.asked.filter(asked => asked.startsWith(route)).length;
  }
}

type Events = ServiceManager.IManager['events'];

const pages: Page[] = [];

/** Return a page that has fetched every list. */
export async function opened(server = new FakeServer()): Promise<Page> {
  const page = new Page(server);
  pages.push(page);
  await jest.advanceTimersByTimeAsync(SECOND);
  return page;
}

/** Let the tests of this file decide how fast time passes, and close their pages. */
export function useFakePages(): void {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => {
    setVisibility('visible');
    pages.splice(0).forEach(page => page.live.dispose());
    jest.useRealTimers();
    jest.restoreAllMocks();
  });
}
