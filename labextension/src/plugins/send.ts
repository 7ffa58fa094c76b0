import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { ICodeCellModel } from '@jupyterlab/cells';
import { PathExt } from '@jupyterlab/coreutils';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IStateDB } from '@jupyterlab/statedb';
import { UUID } from '@lumino/coreutils';

import { chosen } from '../bundle/prefix';
import { messageOf } from '../client';
import { trainIcon } from '../icons';
import { activeJobOf, memberQueues } from '../jobs';
import type { IAsked, IRemembered } from '../send/asked';
import { proposal, recalled, remembered } from '../send/asked';
import { SendDialog } from '../send/dialog';
import type { Targets } from '../send/targets';
import { prefixOf, targetsOf } from '../send/targets';
import { CommandIDs, ICellOutputs, IRunHistory, ITraining } from '../tokens';
import type { CellsRequest, JobView, JobRequest, Me, PrefixCell } from '../wire';

/** Where the answers of the last dialog are kept, so that a reload does not forget them. */
const MEMORY = 'jupyter-gq:asked';

/** The command that sends a cell, in every place where a user may look for it. */
export const send: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gq:plugin',
  description: 'Sends the selected cells to training.',
  autoStart: true,
  requires: [INotebookTracker, ITraining, IRunHistory, ICellOutputs],
  optional: [IStateDB],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    training: ITraining,
    history: IRunHistory,
    outputs: ICellOutputs,
    memory: IStateDB | null
  ): void => {
    const sender = new Sender(training, history, outputs, memory);
    const isCode = (): boolean => tracker.currentWidget?.content.activeCell?.model.type === 'code';
    app.commands.addCommand(CommandIDs.sendCell, {
      label: args => (args.toolbar === true ? '' : 'Send to Training…'),
      caption: 'Send to training',
      icon: trainIcon,
      isEnabled: () => tracker.currentWidget !== null,
      isVisible: args => args.cellToolbar !== true || isCode(),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            toolbar: { type: 'boolean', description: 'Shown as an icon without a label.' },
            cellToolbar: { type: 'boolean', description: 'Shown for code cells only.' }
          }
        }
      },
      execute: async () => {
        const panel = tracker.currentWidget;
        return panel === null ? null : sender.send(panel);
      }
    });
    const refresh = (): void => app.commands.notifyCommandChanged(CommandIDs.sendCell);
    tracker.activeCellChanged.connect(refresh);
    tracker.currentChanged.connect(refresh);
  }
};

class Sender {
  constructor(
    private readonly _training: ITraining,
    private readonly _history: IRunHistory,
    private readonly _outputs: ICellOutputs,
    private readonly _memory: IStateDB | null
  ) {}

  /** From the selected cells to an accepted job; its id, or null when the user gave up. */
  async send(panel: NotebookPanel): Promise<string | null> {
    const targets = targetsOf(panel);
    if (!('models' in targets)) {
      await tell(targets.title, targets.message);
      return null;
    }
    const me = await this._whoAmI();
    if (me === null) {
      return null;
    }
    const old = targets.models
      .map(model => activeJobOf(this._training.state.jobs, model.id, panel.context.path))
      .find((job): job is JobView => job !== null);
    const choice = old === undefined ? 'both' : await askAboutRunning(old);
    if (choice === null) {
      return null;
    }
    const job = await this._ask(panel, targets, me);
    if (job === null) {
      return null;
    }
    if (old !== undefined && choice === 'replace') {
      await this._cancel(old);
    }
    return job.id;
  }

  /** Who asks and what he may ask for, now; one clear dialog when that cannot be known. */
  private async _whoAmI(): Promise<Me | null> {
    for (;;) {
      let problem: string;
      try {
        const me = await this._training.client.me();
        if (memberQueues(me.queues).length > 0) {
          return me;
        }
        await tell('No queue to send to', NO_QUEUE);
        return null;
      } catch (reason) {
        problem = messageOf(reason);
      }
      const again = await showDialog({
        title: 'Training cannot be reached',
        body: `${problem} Jobs that are under way go on.`,
        buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Try again' })]
      });
      if (!again.button.accept) {
        return null;
      }
    }
  }

  private async _ask(
    panel: NotebookPanel,
    targets: Extract<Targets, { models: unknown }>,
    me: Me
  ): Promise<JobView | null> {
    const ids = targets.models.map(model => model.id);
    const known = { history: this._history, client: this._training.client };
    const prefix = await prefixOf(panel, targets.kernelId, new Set(ids), known);
    const key = UUID.uuid4();
    const cells = (replayed: PrefixCell[]): CellsRequest => ({
      notebook_path: panel.context.path,
      kernel_id: targets.kernelId,
      mode: 'replay',
      notebook: panel.model?.toJSON() as INotebookContent,
      targets: ids,
      prefix: replayed
    });
    const dialog = new SendDialog({
      asked: await this._proposal(panel, me),
      queues: memberQueues(me.queues),
      pools: me.pools,
      largest: me.largest_request,
      targets: targets.models.map(model => model.sharedModel.getSource()),
      prefix,
      notes: notesOn(targets.models),
      check: async () => {
        const warned = await this._training.client.check(cells(chosen(prefix.entries)));
        // Those about single cells of the list stand beside them already.
        return warned
          .filter(note => note.cell_id === null || ids.includes(note.cell_id))
          .map(note => note.message);
      },
      preview: request => this._training.client.preview(request),
      send: (request: JobRequest, replayed: PrefixCell[]) =>
        this._training.client.send({ ...request, ...cells(replayed), key })
    });
    const answer = await dialog.ask();
    if (answer === null) {
      return null;
    }
    this._last = remembered(answer.asked, panel.context.path);
    void this._memory?.save(MEMORY, this._last);
    this._training.learn(answer.job);
    await this._outputs.begin(panel, answer.job);
    return answer.job;
  }

  private async _proposal(panel: NotebookPanel, me: Me): Promise<IAsked> {
    this._last ??= recalled(await this._memory?.fetch(MEMORY).catch(() => null));
    const path = panel.context.path;
    return proposal(this._last, me, path, PathExt.basename(path, PathExt.extname(path)).slice(0, 100));
  }

  private async _cancel(job: JobView): Promise<void> {
    try {
      this._training.learn(await this._training.client.cancel(job.id));
    } catch (reason) {
      Notification.error(`“${job.name}” could not be cancelled. ${messageOf(reason)}`, { autoClose: 8000 });
    }
  }

  private _last: IRemembered | null = null;
}

const NO_QUEUE =
  'You are not a member of any training queue. The admin of this hub can add you, or one of your groups, to a queue.';

async function tell(title: string, body: string): Promise<void> {
  await showDialog({ title, body, buttons: [Dialog.okButton({ label: 'Close' })] });
}

/** The same cell already trains: "replace" cancels that job once the new one is accepted. */
async function askAboutRunning(job: JobView): Promise<'both' | 'replace' | null> {
  const result = await showDialog({
    title: 'This cell is already in training',
    body: `“${job.name}” in ${job.queue} is ${job.phase}. Its output goes to the panel once another job takes over the cell.`,
    buttons: [
      Dialog.cancelButton(),
      Dialog.createButton({ label: 'Keep both', accept: true, actions: ['both'] }),
      Dialog.warnButton({ label: 'Replace it', accept: true, actions: ['replace'] })
    ]
  });
  if (!result.button.accept) {
    return null;
  }
  return result.button.actions.includes('replace') ? 'replace' : 'both';
}

/** What only the page knows. */
function notesOn(models: readonly ICodeCellModel[]): string[] {
  return models.some(model => model.executionState === 'running')
    ? [
        'This cell is running here at present. The job is a copy that starts from the beginning; the one here goes on.'
      ]
    : [];
}
