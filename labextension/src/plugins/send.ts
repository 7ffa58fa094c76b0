import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IStateDB } from '@jupyterlab/statedb';
import type { TranslationBundle } from '@jupyterlab/translation';
import { UUID } from '@lumino/coreutils';

import type { ILocalRun } from '../attach/localrun';
import { LocalRuns } from '../attach/localrun';
import { METADATA_KEY, readBinding } from '../attach/metadata';
import { isReadOnly } from '../attach/saver';
import { readContent } from '../bundle/content';
import { describeError, RequestError } from '../client';
import { trainIcon } from '../icons';
import { listActiveJobs } from '../jobs';
import { listMemberQueues } from '../queues';
import { connect, definePlugin } from '../lifetime';
import type { IEnvironmentNames } from '../send/environment';
import { describeEnvironment } from '../send/environment';
import { replaceJob } from '../send/again';
import type { IEarlierJob } from '../send/continuing';
import { findEarlierJob, offerCheckpoints } from '../send/continuing';
import { waitForKernel } from '../send/kernel';
import { proposeName } from '../send/naming';
import type { IProposed, ISendOrigin } from '../send/opening';
import type { ISendOptions } from '../send/options';
import { selectedCells } from '../send/opening';
import type { IFormValues, IRememberedValues } from '../send/values';
import { proposeValues, readRemembered, selectRemembered } from '../send/values';
import type { IChosenCells } from '../send/carry';
import type { IAnswer } from '../send/dialog';
import { SendDialog } from '../send/dialog';
import { describeVariables } from '../send/carry';
import { leaveToolbar } from '../focus';
import type { IPresentWork } from '../send/present';
import { askAboutPresentWork, cancelPresentWork, describeReplaced, listPresentWorks } from '../send/present';
import type { IFileChoice } from '../send/files';
import { describeChoice } from '../send/files';
import type { Targets } from '../send/targets';
import { Strays, watchArrival, withdraw } from '../send/strays';
import { proposePrefix } from '../send/targets';
import { fitToast, quoteName } from '../toasts';
import { CommandIDs, ICellOutputs, IRunHistory, ISender, ITraining } from '../tokens';
import type { CellsRequest, JobRequest, JobView, Me, SendRequest, SentSweep } from '../wire';

/** Key of the state database for the values of the last dialog, which survive a reload. */
const MEMORY = 'jupyter-gq:asked';

/** The command that sends cells, for the toolbars, the menus and the palette. */
export const send = definePlugin({
  id: 'jupyter-gq:plugin',
  description: 'Sends the selected cells to training.',
  autoStart: true,
  requires: [INotebookTracker, ITraining, IRunHistory, ICellOutputs],
  optional: [IStateDB],
  provides: ISender,
  activate: (
    { app, owned, trans },
    tracker: INotebookTracker,
    training: ITraining,
    history: IRunHistory,
    outputs: ICellOutputs,
    memory: IStateDB | null
  ): ISender => {
    const runs = new LocalRuns(tracker);
    owned.add(runs);
    const strays = new Strays(training, trans);
    owned.add(strays);
    const sender = new Sender(training, { history, runs, strays }, outputs, memory, trans);
    const isCode = (): boolean => tracker.currentWidget?.content.activeCell?.model.type === 'code';
    owned.add(
      app.commands.addCommand(CommandIDs.sendCell, {
        label: args => (args.toolbar === true ? '' : trans.__('Send to Training…')),
        caption: trans.__('Send to training'),
        icon: trainIcon,
        isEnabled: () => tracker.currentWidget !== null,
        isVisible: args => args.cellToolbar !== true || isCode(),
        describedBy: { args: SEND_ARGS },
        execute: async () => {
          const panel = tracker.currentWidget;
          if (panel === null) {
            return null;
          }
          try {
            return await sender.send(panel, selectedCells(panel, trans));
          } finally {
            leaveToolbar(panel);
          }
        }
      })
    );
    const refresh = (): void => app.commands.notifyCommandChanged(CommandIDs.sendCell);
    owned.add(connect(tracker.activeCellChanged, refresh));
    owned.add(connect(tracker.currentChanged, refresh));
    return sender;
  }
});

/** JSON schema of the arguments of the command. */
const SEND_ARGS = {
  type: 'object',
  properties: {
    toolbar: { type: 'boolean', description: 'Whether the command is shown as an icon without a label.' },
    cellToolbar: { type: 'boolean', description: 'Whether the command is shown for code cells only.' }
  }
} as const;

/** The way from the selected cells to a job: questions to the user, the dialog, the cells of the output. */
class Sender implements ISender {
  constructor(
    private readonly _training: ITraining,
    private readonly _here: {
      readonly history: IRunHistory;
      readonly runs: LocalRuns;
      readonly strays: Strays;
    },
    private readonly _outputs: ICellOutputs,
    private readonly _memory: IStateDB | null,
    private readonly _trans: TranslationBundle
  ) {}

  /** Send cells; return the id of the accepted job, or null if the user cancelled or is asked already. */
  async send(panel: NotebookPanel, origin: ISendOrigin): Promise<string | null> {
    if (this._asking) {
      // The second click of a double click would open a second dialog behind the first.
      return null;
    }
    this._asking = true;
    try {
      return await this._ask(panel, origin);
    } finally {
      this._asking = false;
    }
  }

  private async _ask(panel: NotebookPanel, origin: ISendOrigin): Promise<string | null> {
    await waitForKernel(panel);
    if (panel.isDisposed) {
      return null;
    }
    const targets = origin.findTargets(panel);
    if (!('models' in targets)) {
      await this._showMessage(targets.title, targets.message);
      return null;
    }
    const me = await this._fetchMe();
    if (me === null) {
      return null;
    }
    const bound = targets.models.map(model => readBinding(model.getMetadata(METADATA_KEY) as unknown)?.job);
    const active = await this._findActiveJobs(panel.context.path, bound);
    const works = await listPresentWorks(
      this._training,
      active,
      targets.models.map(({ id }) => id)
    );
    const replaced: IPresentWork[] = [];
    for (const work of works) {
      const choice = await askAboutPresentWork(this._training, work, this._trans);
      if (choice === null) {
        return null;
      }
      replaced.push(...(choice === 'replace' ? [work] : []));
    }
    const earlier = await this._findEarlier(bound);
    const offering = offerCheckpoints(origin, earlier, this._training.state.jobs);
    const opened = replaced.reduceRight((before, work) => this._replacing(work, before), offering);
    const known = [...active, ...works.flatMap(({ sweep }) => sweep)].map(({ id }) => id);
    const sent = await this._openDialog(panel, targets, me, opened, [...new Set(known)]);
    for (const work of sent === null ? [] : replaced) {
      await cancelPresentWork(this._training, work, this._trans);
    }
    return sent;
  }

  /** Return the origin of a job that takes the place of this work. */
  private _replacing(work: IPresentWork, origin: ISendOrigin): ISendOrigin {
    const note = describeReplaced(this._training, work, this._trans);
    return replaceJob(work.job, note, origin, this._trans);
  }

  /**
   * Return the jobs that wait or run and were sent from this path, or are `bound` to the cells, which stay bound if the
   * notebook is renamed. The jobs have their cells; those that cannot be fetched are left out.
   */
  private async _findActiveJobs(path: string, bound: readonly (string | undefined)[]): Promise<JobView[]> {
    const active = listActiveJobs(this._training.state.jobs, path, bound);
    const found = await Promise.all(active.map(job => this._findJob(job.id).catch(() => null)));
    return found.filter((job): job is JobView => job !== null);
  }

  /** Return a job that has ended and has checkpoints, of those that are `bound` to the cells; null if there is none. */
  private async _findEarlier(bound: readonly (string | undefined)[]): Promise<IEarlierJob | null> {
    const ids = [...new Set(bound)].filter((id): id is string => id !== undefined);
    const found = await Promise.all(ids.map(id => this._findJob(id).catch(() => null)));
    const earlier = found.map(job => (job === null ? null : findEarlierJob(job)));
    return earlier.find(job => job !== null) ?? null;
  }

  /** Return the user's present quota and queues; null if the user gives up after a failure or has no queue. */
  private async _fetchMe(): Promise<Me | null> {
    for (;;) {
      let problem: string;
      try {
        const me = await this._training.client.getMe();
        if (listMemberQueues(me.queues).length > 0) {
          return me;
        }
        await this._showMessage(
          this._trans.__('No queue to send to'),
          this._trans.__(
            'You are not a member of any training queue. The admin of this hub can add you, or one of your groups, to a queue.'
          )
        );
        return null;
      } catch (reason) {
        problem = describeError(reason);
      }
      const again = await showDialog({
        title: this._trans.__('Training cannot be reached'),
        body: this._trans.__('%1 Running jobs continue.', problem),
        buttons: [
          Dialog.cancelButton({ label: this._trans.__('Cancel') }),
          Dialog.okButton({ label: this._trans.__('Try again') })
        ]
      });
      if (!again.button.accept) {
        return null;
      }
    }
  }

  /** Ask what to send, and send it; return the id of the job or of the sweep, or null if the user cancelled. */
  private async _openDialog(
    panel: NotebookPanel,
    targets: Extract<Targets, { models: unknown }>,
    me: Me,
    origin: ISendOrigin,
    knownJobs: readonly string[]
  ): Promise<string | null> {
    const ids = targets.models.map(model => model.id);
    const sources = targets.models.map(model => ({ id: model.id, source: model.sharedModel.getSource() }));
    const { client } = this._training;
    const known = { history: this._here.history, client, findJob: this._findJob };
    const prefix = await proposePrefix(panel, targets.kernelId, new Set(ids), known);
    const { key, cells, rest, asking } = prepareRequest(panel, targets.kernelId, ids, knownJobs);
    const opening = origin.open(sources, await this._propose(panel, me, prefix.entries), me);
    const localRun = this._here.runs.watch(panel, ids);
    const dialog = new SendDialog({
      ...opening,
      notes: [...opening.notes, ...noteReadOnly(panel, this._trans)],
      localRun,
      ...describeOffers(me),
      queuesChanged: this._training.stateChanged,
      targets: sources,
      prefix,
      check: (chosen, files) => client.checkCells({ ...cells(chosen), ...describeChoice(files) }),
      capture: (replayed, choice, software) =>
        client.captureVariables({
          ...cells({ prefix: replayed, leftOut: [], capture: null, software }),
          ...describeVariables(choice)
        }),
      client,
      arrival: watchArrival(this._training, key),
      preview: request => client.previewJob(request),
      trans: this._trans,
      send: (request, chosen, returns, environment, files) =>
        asking(client.sendCells({ ...request, ...cells(chosen), ...rest(files, environment, returns) })),
      sweep: {
        trans: this._trans,
        send: (request, chosen, returns, environment, files) =>
          asking(client.sendSweep({ ...request, ...cells(chosen), ...rest(files, environment, returns) }))
      }
    });
    const answer = await dialog.ask();
    if (dialog.hasLostAnswer) {
      this._here.strays.cancel(key, answer === null ? [] : listIds(answer.sent));
    }
    return answer === null ? null : this._conclude(panel, ids[ids.length - 1], answer, localRun);
  }

  /** Show what was sent under its cells, or cancel it if the user had cancelled before; return its id, or null. */
  private async _conclude(
    panel: NotebookPanel,
    last: string,
    answer: IAnswer,
    localRun: ILocalRun
  ): Promise<string | null> {
    const { sent, values, withdrawn } = answer;
    if (withdrawn && (await withdraw(this._training, sent.name, listIds(sent), this._trans))) {
      return null;
    }
    this._remember(values, panel.context.path);
    void this._interrupt(panel, answer, localRun);
    return this._show(panel, last, sent);
  }

  /**
   * Interrupt the kernel of the notebook if the user has chosen that, and one of the cells still runs there. If that
   * fails, say so: what was sent stays.
   */
  private async _interrupt(panel: NotebookPanel, answer: IAnswer, { state }: ILocalRun): Promise<void> {
    if (!answer.interrupts || answer.withdrawn || state !== 'running') {
      return;
    }
    try {
      await panel.sessionContext.session?.kernel?.interrupt();
    } catch (reason) {
      const failure = this._trans.__(
        '%1 is sent, but the run here could not be interrupted.',
        quoteName(answer.sent.name)
      );
      Notification.error(fitToast(`${failure} ${describeError(reason)}`), { autoClose: 8000 });
    }
  }

  /** Show what was sent under its cells, a sweep under `last`; return the id of the job or of the sweep. */
  private async _show(panel: NotebookPanel, last: string, sent: JobView | SentSweep): Promise<string> {
    this._asking = false; // the next cell may be sent while this one is shown and saved
    if ('group_parallel' in sent) {
      this._training.recordSent(sent);
      await this._outputs.bind(panel, sent);
      return sent.id;
    }
    await this._outputs.showSweep(panel, last, sent);
    return sent.group;
  }

  /** Keep the values of the dialog for the next one, also after a reload. */
  private _remember(values: IFormValues, path: string): void {
    this._last = selectRemembered(values, path);
    void this._memory?.save(MEMORY, this._last);
  }

  private async _propose(panel: NotebookPanel, me: Me, entries: IProposed['entries']): Promise<IProposed> {
    this._last ??= readRemembered(await this._memory?.fetch(MEMORY).catch(() => null));
    const path = panel.context.path;
    const name = proposeName(PathExt.basename(path, PathExt.extname(path)), this._training.state.jobs);
    return { values: proposeValues(this._last, me, path, name), entries };
  }

  private async _showMessage(title: string, body: string): Promise<void> {
    const buttons = [Dialog.okButton({ label: this._trans.__('Close') })];
    await showDialog({ title, body, buttons });
  }

  private readonly _findJob = (id: string): Promise<JobView | null> => this._training.findJob(id);
  private _last: IRememberedValues | null = null;
  private _asking = false;
}

/** Return a sentence about a notebook that cannot be saved with what is sent; none if it can. */
function noteReadOnly(panel: NotebookPanel, trans: TranslationBundle): string[] {
  return isReadOnly(panel.context)
    ? [
        trans.__(
          'This notebook is read-only: its file gets neither the job nor its output. The panel Training keeps both.'
        )
      ]
    : [];
}

/** Return the ids of the jobs that were sent. */
function listIds(sent: JobView | SentSweep): string[] {
  return 'jobs' in sent ? sent.jobs.map(({ job }) => job) : [sent.id];
}

/** The part of a request beside the cells and the resources. */
type RestOfRequest = Omit<SendRequest, keyof JobRequest | keyof CellsRequest> & Partial<CellsRequest>;

/**
 * Return functions for the parts of the requests of one dialog, which all have the same key. The user knows of
 * `knownJobs`; `asking` takes note of the further jobs of these cells of which a refusal tells the user.
 *
 * See docs/decisions/0477-ask-before-a-cell-is-sent-from-two-pages.md.
 */
function prepareRequest(
  panel: NotebookPanel,
  kernelId: string,
  targets: string[],
  knownJobs: readonly string[]
): {
  key: string;
  asking: <Sent>(answer: Promise<Sent>) => Promise<Sent>;
  cells: (chosen: IChosenCells) => CellsRequest;
  rest: (files: IFileChoice, environment: IEnvironmentNames, returns: string[]) => RestOfRequest;
} {
  const key = UUID.uuid4();
  const known = [...knownJobs];
  return {
    key,
    asking: answer =>
      answer.catch((reason: unknown) => {
        if (reason instanceof RequestError) {
          known.push(...reason.otherJobs);
        }
        throw reason;
      }),
    cells: ({ prefix, leftOut, capture, software }) => ({
      notebook_path: panel.context.path,
      kernel_id: kernelId,
      mode: 'replay',
      notebook: readContent(panel.context.model),
      targets,
      prefix,
      left_out_cells: leftOut,
      capture,
      software
    }),
    rest: (files, environment, returns) => ({
      ...describeChoice(files),
      ...describeEnvironment(environment),
      returns,
      key,
      known_jobs: [...known]
    })
  };
}

/** Return what the user may ask for in the dialog. */
function describeOffers(me: Me): Pick<ISendOptions, 'queues' | 'pools' | 'largest' | 'secrets' | 'images'> {
  const { pools, images } = me;
  return { queues: listMemberQueues(me.queues), pools, largest: me.largest_request, secrets: me, images };
}
