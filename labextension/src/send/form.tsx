/** The body of the send dialog: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { listGpuChoices, formatGpus } from '../amounts';
import type { EntryNote, IPrefix, IPrefixEntry } from '../bundle/prefix';
import { hasRepeats, sumKnownSeconds, keepLastRuns, findTitle, toggleEntry } from '../bundle/prefix';
import { trimBlanks } from '../plain';
import { describeGpuUsage } from '../queues';
import { formatDuration } from '../times';
import type { Plan, PoolView, Problem, QueueView } from '../wire';
import { addUnit, describeOffer, findPool, parseNames } from './values';
import type { IEnvironmentChoice } from './environment';
import { Environment, ENVIRONMENT_FIELDS } from './environment';
import { describeField, Field } from './field';
import type { INotes } from './notes';
import type { ISecrets } from './secrets';
import type { ISoftware } from './software';
import type { ITargetCell } from './targets';
import type { IFilesProps } from './filelist';
import { Files } from './filelist';
import type { ICarryProps } from './carrychoice';
import { CarryChoice } from './carrychoice';
import { ContinueField } from './continuefield';
import type { IEarlierJob } from './continuing';
import { selectReplayed } from './carry';
import type { ILocalChoiceProps } from './localchoice';
import { LocalChoice } from './localchoice';
import { More, MORE_FIELDS } from './more';
import type { IOutlookProps } from './outlook';
import { Outlook } from './outlook';
import { ReturnsField } from './returns';
import { useFocusOnRefusal } from './section';
import type { ISweepChoice } from './sweep';
import { isSweepField, SweepSection } from './sweepfields';

export interface IFormProps
  extends
    IFilesProps,
    IOutlookProps,
    Pick<ICarryProps, 'carry' | 'onCarry' | 'onWritten'>,
    Pick<ILocalChoiceProps, 'localRun' | 'interrupts' | 'onInterrupts'> {
  queues: readonly QueueView[];
  pools: readonly PoolView[];
  /** The most GPUs that the user can ask for. */
  largest: string;
  secrets: ISecrets;
  /** What can be chosen in place of the notebook's software. */
  software: readonly ISoftware[];
  /** The ended job whose checkpoints are offered; null if there is none. */
  earlier: IEarlierJob | null;
  targets: readonly ITargetCell[];
  prefix: Pick<IPrefix, 'from'>;
  entries: readonly IPrefixEntry[];
  /** Notes that only this page can make. */
  notes: readonly string[];
  /** What the server warns about. */
  warnings: INotes;
  /** Why the server would refuse the cells. */
  fault: Problem | null;
  /** Names that the user wrote; null before the first change, and the proposal is shown. */
  returns: string | null;
  proposed: Pick<Plan, 'returns' | 'makes'>;
  environment: IEnvironmentChoice;
  planned: Plan['environment'] | null;
  assignments: Plan['assignments'];
  /** The words of the section for sweeps; null if no sweep can be sent. */
  sweepWords: TranslationBundle | null;
  /** How often sending was refused; after each time the field with the problem gets the focus. */
  refusals: number;
  onSweep: (choice: ISweepChoice) => void;
  onReturns: (names: string) => void;
  onEnvironment: (choice: IEnvironmentChoice) => void;
  onEntries: (entries: readonly IPrefixEntry[]) => void;
}

export function SendForm(props: IFormProps): React.JSX.Element {
  const queue = props.queues.find(known => known.name === props.values.queue);
  const refusal = props.problem ?? props.fault;
  const form = useFocusOnRefusal(props.refusals);
  return (
    <div className="jp-gq-send" ref={form} aria-busy={props.sending}>
      <div className="jp-gq-send-fields">
        <NameField {...props} />
        <QueueField {...props} />
        <GpusField {...props} />
        <ReturnsField {...props} />
        <ContinueField {...props} problem={refusal} />
      </div>
      <More
        {...props}
        problem={refusal}
        queue={queue}
        pool={findPool(queue, props.pools)}
        offer={describeOffer(queue, props.pools)}
      />
      {props.sweepWords !== null && (
        <SweepSection
          choice={props.sweep}
          assignments={props.assignments}
          returns={props.returns === null ? props.proposed.returns : parseNames(props.returns)}
          problem={props.problem}
          trans={props.sweepWords}
          onChoice={props.onSweep}
        />
      )}
      <Files {...props} />
      <Environment {...props} choice={props.environment} onChoice={props.onEnvironment} />
      <Outlook {...props} problem={refusal} />
      <Targets {...props} problem={refusal} />
      <LocalChoice {...props} />
      <CarryChoice {...props} problem={refusal} />
      {!props.carry.wanted && <Replay {...props} />}
      <FieldProblem field="prefix" problem={refusal} />
      {[...props.notes, ...props.warnings.general].map(note => (
        <p className="jp-gq-note" key={note}>
          {note}
        </p>
      ))}
      <GeneralProblem problem={refusal} />
    </div>
  );
}

/** Fields that show their own problem. */
const FIELDS = [
  'name',
  'queue',
  'gpus',
  'returns',
  'continue_from',
  'targets',
  'prefix',
  'file_patterns',
  'capture',
  'more_variables',
  ...MORE_FIELDS,
  ...ENVIRONMENT_FIELDS
];

function NameField({ values, problem, onValues, trans }: IFormProps): React.JSX.Element {
  return (
    <Field id="name" label={trans.__('Name')} problem={problem}>
      <input
        id="jp-gq-send-name"
        className="jp-mod-styled"
        type="text"
        maxLength={100}
        {...describeField('name', problem)}
        value={values.name}
        onChange={event => onValues({ ...values, name: event.target.value })}
      />
    </Field>
  );
}

function QueueField({ values, queues, problem, onValues, trans }: IFormProps): React.JSX.Element {
  const current = queues.find(queue => queue.name === values.queue);
  return (
    <Field id="queue" label={trans.__('Queue')} problem={problem}>
      <HTMLSelect
        id="jp-gq-send-queue"
        value={values.queue}
        {...describeField('queue', problem, 'jp-gq-send-queue-totals')}
        onChange={event => onValues({ ...values, queue: event.target.value })}
      >
        {queues.map(queue => (
          <option key={queue.name} value={queue.name}>
            {queue.name}
          </option>
        ))}
      </HTMLSelect>
      <span className="jp-gq-hint" id="jp-gq-send-queue-totals">
        {current === undefined ? '' : describeGpuUsage(current, trans)}
      </span>
    </Field>
  );
}

/** A field for the number of GPUs, which cannot be used while GPU memory is named instead. */
function GpusField({ values, largest, problem, onValues, trans }: IFormProps): React.JSX.Element {
  const byMemory = trimBlanks(values.gpuMemory) !== '';
  // A job that is sent again may have an amount that is not among the usual ones, such as 0.3.
  const [first] = React.useState(values.gpus);
  return (
    <Field id="gpus" label={trans.__('GPUs')} problem={problem}>
      <HTMLSelect
        id="jp-gq-send-gpus"
        {...describeField('gpus', problem)}
        value={values.gpus}
        disabled={byMemory}
        onChange={event => onValues({ ...values, gpus: event.target.value })}
      >
        {listGpuChoices(largest, first).map(gpus => (
          <option key={gpus} value={gpus}>
            {formatGpus(gpus, trans)}
          </option>
        ))}
      </HTMLSelect>
      {byMemory && (
        <span className="jp-gq-hint">{trans.__('a part of one, with %1', addUnit(values.gpuMemory))}</span>
      )}
    </Field>
  );
}

function Targets({
  targets,
  warnings,
  problem,
  trans
}: Pick<IFormProps, 'targets' | 'warnings' | 'problem' | 'trans'>): React.JSX.Element {
  return (
    <section aria-label={trans.__('Cells that are sent')}>
      <h3>{trans._n('Sends this cell', 'Sends these %1 cells', targets.length)}</h3>
      <ul className="jp-gq-targets">
        {targets.map(({ id, source }) => (
          <li key={id}>
            <code title={source.slice(0, 600)}>{findTitle(source)}</code>
            <CellNotes notes={warnings.targets.get(id) ?? []} />
          </li>
        ))}
      </ul>
      <FieldProblem field="targets" problem={problem} />
    </section>
  );
}

/** The notes about one cell. */
function CellNotes({ notes }: { notes: readonly string[] }): React.JSX.Element {
  return (
    <>
      {notes.map(note => (
        <span className="jp-gq-replay-note" key={note}>
          {note}
        </span>
      ))}
    </>
  );
}

/** Return in which order the cells run, and how it is known. */
function explainOrder(from: IPrefix['from'], trans: TranslationBundle): string {
  const words: Record<IPrefix['from'], string> = {
    history: trans.__('A new kernel runs them in the order in which they ran here.'),
    part: trans.__(
      'A new kernel runs them in the order in which they ran here. What ran before them is not known.'
    ),
    'nothing-ran': trans.__(
      'Nothing has run in this kernel since it started. A new kernel runs the cells above in the order of the document.'
    ),
    document: trans.__(
      'A new kernel runs them in the order of the document, because the run order is not known.'
    )
  };
  return words[from];
}

/** Return why no cell runs first. */
function explainNone(from: IPrefix['from'], trans: TranslationBundle): string {
  const words: Record<IPrefix['from'], string> = {
    history: trans.__('No other cell ran in this kernel.'),
    part: trans.__('No other cell is known to have run in this kernel.'),
    'nothing-ran': trans.__('Nothing has run in this kernel since it started.'),
    document: trans.__('No cell with code stands above.')
  };
  return words[from];
}

function Replay({
  prefix,
  entries,
  carry,
  warnings,
  sending,
  onEntries,
  trans
}: IFormProps): React.JSX.Element {
  if (entries.length === 0) {
    return (
      <section aria-label={trans.__('Cells that run first')}>
        <h3>{trans.__('No cell runs first')}</h3>
        <p className="jp-gq-hint">
          {`${explainNone(prefix.from, trans)} ${trans.__('The job starts with a new kernel.')}`}
        </p>
      </section>
    );
  }
  const running = selectReplayed(entries, carry);
  return (
    <section aria-label={trans.__('Cells that run first')}>
      <h3>{describeReplay(running, trans)}</h3>
      <p className="jp-gq-hint">
        {explainOrder(prefix.from, trans)}
        {hasRepeats(entries) && (
          <button type="button" className="jp-gq-action" onClick={() => onEntries(keepLastRuns(entries))}>
            {trans.__('Only the last run of each')}
          </button>
        )}
      </p>
      <ol className="jp-gq-replay">
        {entries.map((entry, index) => (
          <ReplayRow
            key={entry.key}
            entry={entry}
            runs={running.includes(entry)}
            notes={entry.included ? (warnings.entries.get(entry.key) ?? []) : []}
            number={index + 1}
            disabled={sending || entry.fixed}
            trans={trans}
            onToggle={() => onEntries(toggleEntry(entries, entry.key))}
          />
        ))}
      </ol>
    </section>
  );
}

function describeReplay(running: readonly IPrefixEntry[], trans: TranslationBundle): string {
  const count = running.length;
  const seconds = sumKnownSeconds(running);
  const cells = count === 0 ? trans.__('no cell') : trans._n('%1 cell', '%1 cells', count);
  return seconds === null
    ? trans.__('Runs first: %1', cells)
    : trans.__('Runs first: %1, which took %2 here', cells, formatDuration(seconds));
}

/** Return what the user should know about a cell that runs first. */
function describeNote(note: EntryNote, trans: TranslationBundle): string {
  const words: Record<EntryNote, string> = {
    failed: trans.__('ended with an error here'),
    running: trans.__('still running here; the job runs it again from the start'),
    'failed-before': trans.__('ended with an error when it last ran'),
    'job-failed': trans.__('its job failed'),
    'job-cancelled': trans.__('its job was cancelled'),
    setup: trans.__('tagged gq-setup: always runs')
  };
  return words[note];
}

interface IReplayRowProps {
  entry: IPrefixEntry;
  /** Whether the job runs the cell: it leaves out also some of those that are chosen. */
  runs: boolean;
  /** Warnings of the server about the cell. */
  notes: readonly string[];
  number: number;
  disabled: boolean;
  onToggle: () => void;
  trans: TranslationBundle;
}

function ReplayRow({
  entry,
  runs,
  notes,
  number,
  disabled,
  onToggle,
  trans
}: IReplayRowProps): React.JSX.Element {
  const own = entry.note === null ? [] : [describeNote(entry.note, trans)];
  const id = `jp-gq-replay-${number}`;
  return (
    <li className={runs ? '' : 'jp-gq-mod-left-out'} onClick={disabled ? undefined : onToggle}>
      <input
        type="checkbox"
        aria-label={trans.__('Replay cell %1', number)}
        aria-describedby={id}
        checked={entry.included}
        disabled={disabled}
        onChange={onToggle}
        onClick={event => event.stopPropagation()}
      />
      <span className="jp-gq-replay-what" id={id}>
        <code title={entry.source.slice(0, 600)}>{findTitle(entry.source)}</code>
        <CellNotes notes={[...own, ...notes]} />
      </span>
      <span className="jp-gq-replay-time">{entry.seconds === null ? '' : formatDuration(entry.seconds)}</span>
    </li>
  );
}

/** A problem that is about one part of the form. */
function FieldProblem({
  field,
  problem
}: {
  field: string;
  problem: Problem | null;
}): React.JSX.Element | null {
  return problem?.field === field ? (
    <p className="jp-gq-problem" role="alert" tabIndex={-1}>
      {problem.message}
    </p>
  ) : null;
}

/** A problem that is about none of the fields, shown at the end near the button. */
function GeneralProblem({ problem }: Pick<IFormProps, 'problem'>): React.JSX.Element | null {
  const field = problem?.field ?? '';
  if (problem === null || FIELDS.includes(field) || isSweepField(field)) {
    return null;
  }
  return (
    <p className="jp-gq-problem" role="alert" tabIndex={-1}>
      {problem.message}
    </p>
  );
}
