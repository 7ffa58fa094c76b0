import type { ICodeCellModel } from '@jupyterlab/cells';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import * as React from 'react';

import type { IPhaseLook, JobPhase } from '../jobs';
import {
  describeShortAmount,
  isCancellable,
  isFinal,
  describeJob,
  describeUnknown,
  lookOf,
  lookOfPhase,
  nameAgain,
  nameHold,
  tellHold
} from '../jobs';
import type { ILiveState } from '../live/state';
import { Action, PhaseTag, ProgressBar, useSignal } from '../panel/parts';
import { BroughtBack } from '../panel/results';
import { omitState, showSentence } from '../sentences';
import { ENGLISH } from '../translation';
import type { ILoadedVariables, ITraining } from '../tokens';
import { CommandIDs, commandOfAgain } from '../tokens';
import type { JobSummary } from '../wire';
import { formatGpus } from '../amounts';
import { BoundCell } from './cell';
import type { IPlaceholder } from './metadata';
import { readPlaceholder } from './metadata';
import { SourceWatch } from './source';

/** Finds the cell in whose outputs a node is; null if there is none, as in a view of the outputs alone. */
export type FindCell = (node: HTMLElement) => ICodeCellModel | null;

/** The services that all status lines of a page use. */
export interface ILineServices {
  readonly training: ITraining;
  readonly loaded: ILoadedVariables;
  readonly commands: CommandRegistry;
  readonly findCell: FindCell;
}

/** The status line under a cell: live if the job is known, as stored in the file otherwise. */
export class JobRenderer extends ReactWidget implements IRenderMime.IRenderer {
  constructor(
    private readonly _services: ILineServices,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-gq-status-host');
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._placeholder = readPlaceholder(model.data);
    this.update();
    return Promise.resolve();
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    const cell = this._services.findCell(this.node);
    this._watch = cell === null ? null : new SourceWatch(cell.sharedModel, () => this.update());
  }

  protected onBeforeDetach(msg: Message): void {
    this._watch?.dispose();
    super.onBeforeDetach(msg);
  }

  protected render(): React.JSX.Element | null {
    const { training, loaded } = this._services;
    const [placeholder, trans] = [this._placeholder, this._trans];
    if (placeholder === null) {
      return <span>{trans.__('This version of the extension cannot show this training job.')}</span>;
    }
    return (
      <FollowJob id={placeholder.job} training={training}>
        {job =>
          job === undefined ? (
            <StoredLine
              placeholder={placeholder}
              isWithheld={this._readBound()?.isLeftBehind(placeholder) === true}
              training={training}
              run={this._run}
              trans={trans}
            />
          ) : (
            <JobLine
              job={job}
              isWithheld={this._readBound()?.isWithheld(job) === true}
              training={training}
              loaded={loaded}
              run={this._run}
              trans={trans}
            />
          )
        }
      </FollowJob>
    );
  }

  /** Return the cell of the line with its binding; null if it has none. */
  private _readBound(): BoundCell | null {
    const model = this._services.findCell(this.node);
    return model === null ? null : BoundCell.read(model);
  }

  private readonly _run: RunCommand = (command, job) => {
    void this._services.commands.execute(command, { job });
  };

  private _placeholder: IPlaceholder | null = null;
  /** Follows the source of the cell while the line is on the page. */
  private _watch: SourceWatch | null = null;
}

interface IFollowJobProps {
  id: string;
  training: ITraining;
  /** Draws a job; undefined if it is not known, or no more. */
  children: (job: JobSummary | undefined) => React.JSX.Element;
}

/** Draws a job again whenever it changes, becomes known or is deleted. */
function FollowJob({ id, training, children }: IFollowJobProps): React.JSX.Element {
  useLive(training, state => state.unknown.has(id));
  return (
    <UseSignal signal={training.jobChanged} shouldUpdate={(_, job) => job.id === id}>
      {() => children(training.state.jobs.find(known => known.id === id))}
    </UseSignal>
  );
}

/** Return what `read` finds in the live state, and draw the caller again when that changes. */
function useLive(training: ITraining, read: (state: ILiveState) => boolean): boolean {
  return useSignal(training.stateChanged, () => read(training.state));
}

/** Runs a command about a job. */
type RunCommand = (command: string, job: string) => void;

interface IJobLineProps {
  job: JobSummary;
  /** Whether the cell was edited, so that the job's output is not under it. */
  isWithheld: boolean;
  training: ITraining;
  loaded: ILoadedVariables;
  run: RunCommand;
  trans: TranslationBundle;
}

function JobLine({ job, isWithheld, training, loaded, run, trans }: IJobLineProps): React.JSX.Element {
  const sentence = describeJob(job, training.client.now, trans);
  const amount = describeShortAmount(job, trans);
  return (
    <StatusLine
      id={job.id}
      name={job.name}
      phase={job.phase}
      look={lookOf(job, trans)}
      amount={isFinal(job.phase) || sentence.includes(amount) ? null : amount}
      sentence={sentence}
      buttons={<LineButtons job={job} run={run} trans={trans} />}
      isStale={useLive(training, state => state.available === false)}
      run={run}
      trans={trans}
    >
      {isWithheld && <Withheld trans={trans} />}
      <BroughtBack
        job={job}
        client={training.client}
        loaded={loaded}
        onLoad={() => run(CommandIDs.loadResults, job.id)}
        onCopy={() => run(CommandIDs.copyFiles, job.id)}
        trans={trans}
      />
      {job.phase === 'running' && (
        <ProgressBar fraction={job.progress?.fraction ?? null} label={trans.__('Progress')} />
      )}
    </StatusLine>
  );
}

/** The buttons of a job that is known, but for those of every line. */
function LineButtons({ job, run, trans }: Pick<IJobLineProps, 'job' | 'run' | 'trans'>): React.JSX.Element {
  return (
    <>
      {isCancellable(job) && (
        <Action
          label={trans.__('Cancel')}
          about={trans.__('job %1', job.name)}
          onClick={() => run(CommandIDs.cancelJob, job.id)}
        />
      )}
      {job.held_since !== null && isCancellable(job) && (
        <Action
          label={nameHold(job, trans)}
          about={trans.__('job %1', job.name)}
          title={tellHold(job, trans)}
          onClick={() => run(CommandIDs.releaseJob, job.id)}
        />
      )}
      <Action
        label={trans.__('Log')}
        about={trans.__('of job %1', job.name)}
        onClick={() => run(CommandIDs.openLog, job.id)}
      />
    </>
  );
}

/** The sentence on a cell that does not get the output of its job. */
function Withheld({ trans }: { trans: TranslationBundle }): React.JSX.Element {
  return (
    <span
      className="jp-gq-status-withheld"
      title={trans.__('The cell was edited after it was sent, so its output is left as it is.')}
    >
      {trans.__('Edited since it was sent: the output is in the log.')}
    </span>
  );
}

interface IStoredLineProps {
  placeholder: IPlaceholder;
  /** Whether the cell was edited, so that the file may not have the job's last output. */
  isWithheld: boolean;
  training: ITraining;
  run: RunCommand;
  trans: TranslationBundle;
}

function StoredLine(props: IStoredLineProps): React.JSX.Element {
  const { placeholder, isWithheld, training, run, trans } = props;
  const isAsked = useLive(training, state => state.unknown.has(placeholder.job));
  const isUnknown = isAsked && !isFinal(placeholder.phase);
  const look: IPhaseLook = isUnknown
    ? { word: trans.__('Unknown'), tone: 'quiet', icon: 'stop' }
    : lookOfPhase(placeholder.phase, trans);
  return (
    <StatusLine
      id={placeholder.job}
      name={placeholder.name}
      phase={placeholder.phase}
      look={look}
      sentence={isUnknown ? describeUnknown(trans) : tellStored(placeholder, training.client.now, trans)}
      isStale
      run={run}
      trans={trans}
    >
      {isWithheld && <Withheld trans={trans} />}
    </StatusLine>
  );
}

/** Return the sentence of a job as the file has it. */
function tellStored(placeholder: IPlaceholder, now: number, trans: TranslationBundle): string {
  return (
    omitState(showSentence(placeholder.sentence, now), lookOfPhase(placeholder.phase, ENGLISH).word) ||
    trans.__('%1 in %2', formatGpus(placeholder.gpus, trans), placeholder.queue)
  );
}

interface IStatusLineProps {
  /** The id of the job. */
  id: string;
  name: string;
  phase: JobPhase;
  look: IPhaseLook;
  amount?: string | null;
  sentence: string;
  /** Buttons beside the button for the details. */
  buttons?: React.ReactNode;
  /** Whether the state may be out of date, so that no wheel turns: it is that of the file, or of before an outage. */
  isStale: boolean;
  run: RunCommand;
  trans: TranslationBundle;
  children?: React.ReactNode;
}

function StatusLine(status: IStatusLineProps): React.JSX.Element {
  const { trans } = status;
  const sentence = (
    <span className="jp-gq-status-sentence" title={status.sentence}>
      {status.sentence}
    </span>
  );
  // A job of which nothing is known says nothing of itself.
  const isRunning = status.phase === 'running' && status.look.icon === 'spinner';
  return (
    <div
      className={`jp-gq-status${status.isStale ? ' jp-gq-mod-outdated' : ''}`}
      role="group"
      aria-label={trans.__('Training job %1', status.name)}
      data-phase={status.phase}
    >
      {/*
       * Spoken are the state and why it is so, but not what a running job says of itself, epoch by epoch. The sentence
       * moves, and the element with the role stays: a new one may not be heard. The style keeps the order that is seen.
       */}
      <span className="jp-gq-status-spoken" role="status">
        <PhaseTag look={status.look} />
        {!isRunning && <> {sentence}</>}
      </span>
      <span className="jp-gq-status-name" title={status.name}>
        {status.name}
      </span>
      {status.amount && <span className="jp-gq-status-amount">{status.amount}</span>}
      {isRunning && sentence}
      {status.children}
      <span className="jp-gq-status-actions">
        {status.buttons}
        {isFinal(status.phase) && (
          <Action
            label={nameAgain(status.phase, trans)}
            about={trans.__('job %1', status.name)}
            title={trans.__('Send the cells as they are now, with the settings of this job.')}
            onClick={() => status.run(commandOfAgain(status.phase), status.id)}
          />
        )}
        <Action
          label={trans.__('Details')}
          about={trans.__('of job %1', status.name)}
          onClick={() => status.run(CommandIDs.showJob, status.id)}
        />
      </span>
    </div>
  );
}
