/** A page with a notebook whose cells are sent by the command, and the server that accepts them. */

import { send } from '../plugins/send';
import type { ICellOutputs, IRunHistory } from '../tokens';
import { CommandIDs } from '../tokens';
import { aJob, aMe, aPlan } from './builders';
import { FakeApp, FakeTraining } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { clearScreen, perform } from './screen';

/** What a test sees of the page. */
export class SendingPage {
  readonly app = new FakeApp();
  readonly training = new FakeTraining();
  readonly tracker = new FakeTracker();
  readonly notebook: FakePanel;
  /** Jobs whose cells were bound. */
  readonly bound: string[] = [];

  constructor(...sources: string[]) {
    this.notebook = this.tracker.open(new FakePanel(sources));
    const { server } = this.training;
    server.answer('GET me', aMe());
    server.answer('GET kernels/kernel-1/history', { cells: [], complete: false });
    server.answer('POST preview', { starts_now: true, sentence: 'Starts now.', alternatives: [] });
    server.answer('POST check', aPlan());
    server.answer('POST send', aJob({ id: 'new', name: 'digits', phase: 'waiting' }));
  }

  /** Start the plugin that sends; `memory` is the state database of JupyterLab. */
  async activate(
    history: IRunHistory = { isComplete: () => false, listRuns: () => [] },
    memory: object | null = null
  ): Promise<void> {
    const show = (id: string): Promise<void> => Promise.resolve(void this.bound.push(id));
    const outputs: ICellOutputs = { bind: (_, job) => show(job.id), showSweep: (_, cell) => show(cell) };
    await send.activate(this.app.frontEnd, this.tracker, this.training, history, outputs, memory);
  }

  /** Stop the plugin, and close all that is open. */
  async close(): Promise<void> {
    await send.deactivate?.(this.app.frontEnd);
    this.tracker.panels.forEach(panel => panel.close());
    clearScreen();
  }

  /** Choose the command, up to the first question; its result comes when all questions are answered. */
  async choose(): Promise<{ result: Promise<unknown> }> {
    let result: Promise<unknown> = Promise.resolve();
    await perform(() => {
      result = this.app.commands.execute(CommandIDs.sendCell);
      // A dialog that is left open at the end of a test rejects.
      result.catch(() => undefined);
    });
    await pause();
    return { result };
  }
}

/** Let time pass for what the dialog does by itself. */
export function pause(milliseconds = 0): Promise<void> {
  return perform(() => jest.advanceTimersByTimeAsync(milliseconds));
}

/** Press the primary button of the dialog. */
export function submit(): Promise<void> {
  return perform(() => document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-accept')?.click());
}
