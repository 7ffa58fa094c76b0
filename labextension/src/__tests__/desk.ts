/** A stand-in for an open notebook with its bindings, and for the service that has output for its jobs. */

import type { Contents } from '@jupyterlab/services';

import type { Loss } from '../attach/cell';
import { JOB_MIME, METADATA_KEY } from '../attach/metadata';
import { NotebookBindings } from '../attach/notebook';
import { JobStream } from '../attach/stream';
import { hashSource } from '../bundle/hash';
import type { JobView, OutputEvent, OutputPage } from '../wire';
import { aJob } from './builders';
import { ConnectionCount, FakeTraining } from './fakes';
import { FakePanel } from './notebooks';

export const SECOND = 1000;

/** Return the contents of a notebook file with cells of these jobs. */
export function aFile(jobs: readonly string[] = ['job-1']): { content: object } {
  return {
    content: { cells: jobs.map(job => ({ metadata: { [METADATA_KEY]: { job, source_hash: '' } } })) }
  };
}

/** An open notebook with its bindings, and a service that has output for its jobs. */
export class Desk {
  /** `printed` is the text that the job prints, a piece each, which other pages may show too. */
  constructor(
    readonly notebook = new FakePanel(['train()', 'plot()']),
    readonly printed: string[] = []
  ) {
    notebook.show();
    this.training.server.answer('GET same-file', { same: false });
    this.bindings = new NotebookBindings(notebook.panel, {
      training: this.training,
      contents: this.contents as unknown as Contents.IManager,
      streams: { acquire: id => this.streamOf(id), release: id => this.released.push(id) },
      reportDetached: (job, why) => this.detached.push([job.id, why])
    });
    desks.push(this);
  }

  readonly training = new FakeTraining();
  readonly contents: { get: (path: string) => Promise<object> } = {
    get: () => Promise.resolve(aFile())
  };
  readonly streams = new Map<string, JobStream>();
  /** Ids of jobs whose streams were given back. */
  readonly released: string[] = [];
  readonly streamConnections: ConnectionCount[] = [];
  readonly detached: [string, Loss][] = [];
  isOver = false;
  /** Whether the cell that prints has run to its end, as the last piece says. */
  hasEnded = false;
  /** Whether no output can be fetched. */
  isAway = false;
  readonly bindings: NotebookBindings;

  streamOf(id: string): JobStream {
    const stream = this.streams.get(id) ?? new JobStream(after => this._fetch(after));
    if (!this.streams.has(id)) {
      this.streamConnections.push(new ConnectionCount(stream.changed as never));
    }
    this.streams.set(id, stream);
    return stream;
  }

  /** Return a job whose target is the cell with this index. */
  job(index = 0, given: Partial<JobView> = {}): JobView {
    const model = this.notebook.cells[index];
    const source_hash = hashSource(model.sharedModel.getSource());
    return aJob({ targets: [{ cell_id: model.id, source_hash, seconds: null }], ...given });
  }

  /** Print a piece, and tell the page that there is more. */
  async print(job: JobView, text: string): Promise<void> {
    this.printed.push(text);
    this.training.outputArrived.emit({ job: job.id, last_seq: this.printed.length });
    await jest.advanceTimersByTimeAsync(SECOND);
  }

  /** The text below the placeholder of a cell. */
  text(index = 0): string {
    const [, ...outputs] = this.notebook.outputs(index) as { text: string }[];
    return outputs.map(output => output.text).join('');
  }

  /** The phase in the placeholder of a cell; null if the cell has no placeholder. */
  phase(index = 0): string | null {
    const [first] = this.notebook.outputs(index) as {
      data?: Record<string, { phase: string } | undefined>;
    }[];
    return first?.data?.[JOB_MIME]?.phase ?? null;
  }

  private _fetch(after: number): Promise<OutputPage> {
    return this.isAway ? Promise.reject(new Error('away')) : Promise.resolve(this._pieces(after));
  }

  private _pieces(after: number): OutputPage {
    const events = this.printed.map((text, index): OutputEvent => ({
      seq: index + 1,
      run: 1,
      at: 0,
      op: 'append',
      role: 'target',
      cell: (this._target ??= this.notebook.cells[0]?.id),
      output: { output_type: 'stream', name: 'stdout', text }
    }));
    if (this.hasEnded) {
      const [seq, cell] = [events.length + 1, this._target];
      events.push({ seq, run: 1, at: 0, op: 'cell', role: 'target', cell, state: 'end', finished: true });
    }
    return { events: events.slice(after), last_seq: events.length, finished: this.isOver };
  }

  /** The cell that prints, wherever it is moved; undefined before it has printed. */
  private _target: string | undefined;
}

const desks: Desk[] = [];

/** Close all desks. */
export function closeDesks(): void {
  desks.splice(0).forEach(desk => {
    desk.bindings.dispose();
    desk.notebook.close();
  });
}
