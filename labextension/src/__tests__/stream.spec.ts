import type { Signal } from '@lumino/signaling';

import { JobStream, SLOWEST } from '../attach/stream';
import { JobStreams } from '../attach/streams';
import type { OutputEvent, OutputPage } from '../wire';

const text = (seq: number, role: OutputEvent['role'] = 'target'): OutputEvent => ({
  seq,
  run: 1,
  at: 0,
  op: 'append',
  cell: role === 'target' ? 't' : 'p',
  role,
  output: { output_type: 'stream', name: 'stdout', text: `${seq} ` }
});

/** A service that holds these pieces and gives them out two at a time. */
class FakeService {
  events: OutputEvent[] = [];
  final = false;
  asked: number[] = [];
  isAway = false;

  readonly fetch = (after: number): Promise<OutputPage> => {
    this.asked.push(after);
    if (this.isAway) {
      return Promise.reject(new Error('away'));
    }
    const last_seq = this.events.length;
    const events = this.events.filter(event => event.seq > after).slice(0, 2);
    return Promise.resolve({ events, last_seq, finished: this.final });
  };
}

async function settled(stream: JobStream): Promise<void> {
  stream.fetchMore();
  await jest.advanceTimersByTimeAsync(1000);
}

const shownText = (stream: JobStream): unknown => stream.cells.get('t')?.[0]?.text;

describe('the stream of a job', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('tells which cells ran to their end in the last run', async () => {
    const service = new FakeService();
    const end = (seq: number, cell: string, finished: boolean): OutputEvent => ({
      seq,
      run: 1,
      at: 0,
      op: 'cell',
      cell,
      role: 'target',
      state: 'end',
      finished
    });
    const start = (seq: number): OutputEvent => ({ seq, run: 1, at: 0, op: 'run', state: 'start' });
    service.events = [start(1), end(2, 'a', true), end(3, 'b', true), end(4, 'c', false)];
    const stream = new JobStream(service.fetch);
    await settled(stream);
    expect([...stream.ended]).toEqual(['a', 'b']);
    service.events.push(start(5), end(6, 'a', true));
    await settled(stream);
    expect([...stream.ended]).toEqual(['a']);
  });

  it('fetches page by page, once, and tells when it caught up', async () => {
    const service = new FakeService();
    service.events = [text(1), text(2), text(3), text(4), text(5)];
    const stream = new JobStream(service.fetch);
    let told = 0;
    stream.changed.connect(() => told++);
    await settled(stream);
    expect(shownText(stream)).toBe('1 2 3 4 5 ');
    expect([service.asked, told, stream.seq, stream.isCaughtUp, stream.isFinished]).toEqual([
      [0, 2, 4],
      1,
      5,
      true,
      false
    ]);
  });

  it('never doubles anything, however often it is told that there is more', async () => {
    const service = new FakeService();
    const stream = new JobStream(service.fetch);
    for (let seq = 1; seq <= 4; seq++) {
      service.events.push(text(seq));
      stream.fetchMore();
      stream.fetchMore();
      await settled(stream);
    }
    expect(shownText(stream)).toBe('1 2 3 4 ');
  });

  it('goes on where it was after an outage', async () => {
    const service = new FakeService();
    service.events = [text(1)];
    const stream = new JobStream(service.fetch);
    await settled(stream);
    service.isAway = true;
    service.events.push(text(2));
    await settled(stream);
    expect(shownText(stream)).toBe('1 ');
    service.isAway = false;
    await settled(stream);
    expect(shownText(stream)).toBe('1 2 ');
  });

  it('asks more and more rarely while it fails, and at once when the service is back', async () => {
    const service = new FakeService();
    service.events = [text(1)];
    service.isAway = true;
    const stream = new JobStream(service.fetch);
    const pass = async (seconds: number): Promise<number> => {
      const before = service.asked.length;
      for (let tick = 0; tick < seconds; tick++) {
        await settled(stream);
      }
      return service.asked.length - before;
    };
    expect(await pass(60)).toBeLessThan(10);
    expect(await pass(120)).toBeGreaterThan(0);
    service.isAway = false;
    stream.retry();
    await jest.advanceTimersByTimeAsync(1000);
    expect(shownText(stream)).toBe('1 ');
  });

  it('asks at its old pace after a failure that is over', async () => {
    const service = new FakeService();
    service.events = [text(1)];
    service.isAway = true;
    const stream = new JobStream(service.fetch);
    await settled(stream);
    await settled(stream);
    service.isAway = false;
    stream.fetchMore();
    await jest.advanceTimersByTimeAsync(2000);
    expect(shownText(stream)).toBe('1 ');
    service.events.push(text(2));
    stream.fetchMore();
    await jest.advanceTimersByTimeAsync(500);
    expect(shownText(stream)).toBe('1 2 ');
  });

  it('keeps what replayed cells print out of the cells', async () => {
    const service = new FakeService();
    service.events = [text(1, 'prefix'), text(2)];
    const stream = new JobStream(service.fetch);
    await settled(stream);
    expect([...stream.cells.keys()]).toEqual(['t']);
    expect(stream.seq).toBe(2);
  });

  it('is finished when the job is, and then asks no more', async () => {
    const service = new FakeService();
    service.events = [text(1)];
    service.final = true;
    const stream = new JobStream(service.fetch);
    await settled(stream);
    expect(stream.isFinished).toBe(true);
    await settled(stream);
    expect(service.asked).toEqual([0]);
  });

  it('shows more pieces together if the page needs long to show them', async () => {
    const service = new FakeService();
    service.events = [text(1)];
    const stream = new JobStream(service.fetch);
    stream.changed.connect(() => {
      jest.advanceTimersByTime(300);
    });
    await settled(stream);
    service.events.push(text(2), text(3));
    stream.fetchMore();
    await jest.advanceTimersByTimeAsync(100);
    expect(shownText(stream)).toBe('1 ');
    await jest.advanceTimersByTimeAsync(SLOWEST);
    expect(shownText(stream)).toBe('1 2 3 ');
  });

  it('asks no more once it is disposed', async () => {
    const service = new FakeService();
    const stream = new JobStream(service.fetch);
    stream.fetchMore();
    stream.dispose();
    expect(jest.getTimerCount()).toBe(0);
    await settled(stream);
    expect(service.asked).toEqual([]);
  });

  it('lets its listeners go when it is disposed', () => {
    const stream = new JobStream(new FakeService().fetch);
    let told = 0;
    stream.changed.connect(() => told++);
    stream.dispose();
    (stream.changed as Signal<JobStream, void>).emit();
    expect(told).toBe(0);
  });
});

describe('the streams of jobs', () => {
  const open = (): JobStreams => new JobStreams(() => Promise.reject(new Error('away')));

  it('are shared by all notebooks, and disposed with the last', () => {
    const streams = open();
    const [first, second] = [streams.acquire('job-1'), streams.acquire('job-1')];
    expect(second).toBe(first);
    expect(streams.acquire('job-2')).not.toBe(first);
    streams.release('job-1');
    expect(first.isDisposed).toBe(false);
    streams.release('job-1');
    expect(first.isDisposed).toBe(true);
    expect(streams.acquire('job-1')).not.toBe(first);
  });

  it('are all disposed at the end, and a release after that does nothing', () => {
    const streams = open();
    const stream = streams.acquire('job-1');
    streams.dispose();
    streams.release('job-1');
    expect([stream.isDisposed, streams.isDisposed]).toEqual([true, true]);
  });
});
