/** The body of the send dialog: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { listGpuChoices, formatGpus } from '../amounts';
import type { IPrefix, IPrefixEntry } from '../bundle/prefix';
import { hasRepeats, sumKnownSeconds, keepLastRuns, findTitle, toggleEntry } from '../bundle/prefix';
import { describeGpuUsage } from '../jobs';
import { formatDuration } from '../times';
import type { Plan, PoolView, Problem, QueueView } from '../wire';
import { addUnit, describeMade, describeOffer, findPool, parseNames } from './values';
import type { IEnvironmentChoice } from './environment';
import { Environment, ENVIRONMENT_FIELDS } from './environment';
import { Field, TextField } from './field';
import type { INotes } from './notes';
import type { ISecrets } from './secrets';
import type { ITargetCell } from './targets';
import type { IFilesProps } from './filelist';
import { Files } from './filelist';
import { More, MORE_FIELDS } from './more';
import type { IOutlookProps } from './outlook';
import { Outlook } from './outlook';
import type { ISweepChoice } from './sweep';
import { SWEEP_FIELDS, SweepSection } from './sweepfields';

export interface IFormProps extends IFilesProps, IOutlookProps {
  queues: readonly QueueView[];
  pools: readonly PoolView[];
  /** The most GPUs that the user can ask for. */
  largest: string;
  secrets: ISecrets;
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
  sweep: ISweepChoice;
  assignments: Plan['assignments'];
  /** The words of the section for sweeps; null if no sweep can be sent. */
  sweepWords: TranslationBundle | null;
  onSweep: (choice: ISweepChoice) => void;
  onReturns: (names: string) => void;
  onEnvironment: (choice: IEnvironmentChoice) => void;
  onEntries: (entries: readonly IPrefixEntry[]) => void;
}

export function SendForm(props: IFormProps): React.JSX.Element {
  const queue = props.queues.find(known => known.name === props.values.queue);
  const refusal = props.problem ?? props.fault;
  return (
    <div className="jp-gq-send" aria-busy={props.sending}>
      <div className="jp-gq-send-fields">
        <NameField {...props} />
        <QueueField {...props} />
        <GpusField {...props} />
        <ReturnsField {...props} />
      </div>
      <More
        {...props}
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
      <Outlook {...props} />
      <Targets targets={props.targets} warnings={props.warnings} problem={refusal} />
      <Replay {...props} />
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
  'targets',
  'prefix',
  'file_patterns',
  ...MORE_FIELDS,
  ...ENVIRONMENT_FIELDS,
  ...SWEEP_FIELDS
];

function NameField({ values, problem, onValues }: IFormProps): React.JSX.Element {
  return (
    <Field id="name" label="Name" problem={problem}>
      <input
        id="jp-gq-send-name"
        className="jp-mod-styled"
        type="text"
        maxLength={100}
        value={values.name}
        onChange={event => onValues({ ...values, name: event.target.value })}
      />
    </Field>
  );
}

function QueueField({ values, queues, problem, onValues }: IFormProps): React.JSX.Element {
  const current = queues.find(queue => queue.name === values.queue);
  return (
    <Field id="queue" label="Queue" problem={problem}>
      <HTMLSelect
        id="jp-gq-send-queue"
        value={values.queue}
        aria-describedby="jp-gq-send-queue-totals"
        onChange={event => onValues({ ...values, queue: event.target.value })}
      >
        {queues.map(queue => (
          <option key={queue.name} value={queue.name}>
            {queue.name}
          </option>
        ))}
      </HTMLSelect>
      <span className="jp-gq-hint" id="jp-gq-send-queue-totals">
        {current === undefined ? '' : describeGpuUsage(current)}
      </span>
    </Field>
  );
}

/** A field for the number of GPUs, which cannot be used while GPU memory is named instead. */
function GpusField({ values, largest, problem, onValues }: IFormProps): React.JSX.Element {
  const byMemory = values.gpuMemory.trim() !== '';
  // A job that is sent again may have an amount that is not among the usual ones, such as 0.3.
  const [first] = React.useState(values.gpus);
  return (
    <Field id="gpus" label="GPUs" problem={problem}>
      <HTMLSelect
        id="jp-gq-send-gpus"
        value={values.gpus}
        disabled={byMemory}
        onChange={event => onValues({ ...values, gpus: event.target.value })}
      >
        {listGpuChoices(largest, first).map(gpus => (
          <option key={gpus} value={gpus}>
            {formatGpus(gpus)}
          </option>
        ))}
      </HTMLSelect>
      {byMemory && <span className="jp-gq-hint">{`a part of one, with ${addUnit(values.gpuMemory)}`}</span>}
    </Field>
  );
}

/** The field for the variables that the job brings back. */
function ReturnsField({ returns, proposed, problem, onReturns }: IFormProps): React.JSX.Element {
  return (
    <TextField
      id="returns"
      label="Bring back"
      hint={describeMade(proposed.makes)}
      maxLength={4000}
      value={returns ?? proposed.returns.join(', ')}
      problem={problem}
      onChange={onReturns}
    />
  );
}

function Targets({
  targets,
  warnings,
  problem
}: Pick<IFormProps, 'targets' | 'warnings' | 'problem'>): React.JSX.Element {
  return (
    <section aria-label="Cells that are sent">
      <h3>{targets.length === 1 ? 'Sends this cell' : `Sends these ${targets.length} cells`}</h3>
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

const ORIGINS: Readonly<Record<IPrefix['from'], string>> = {
  history: 'A new kernel runs them in the order in which they ran here.',
  part: 'A new kernel runs them in the order in which they ran here. What ran before them is not known.',
  'nothing-ran':
    'Nothing has run in this kernel since it started. A new kernel runs the cells above in the order of the document.',
  document: 'A new kernel runs them in the order of the document, because the run order is not known.'
};
const NOTHING: Readonly<Record<IPrefix['from'], string>> = {
  history: 'No other cell ran in this kernel.',
  part: 'No other cell is known to have run in this kernel.',
  'nothing-ran': 'Nothing has run in this kernel since it started.',
  document: 'No cell with code stands above.'
};

function Replay({ prefix, entries, warnings, sending, onEntries }: IFormProps): React.JSX.Element {
  if (entries.length === 0) {
    return (
      <section aria-label="Cells that run first">
        <h3>No cell runs first</h3>
        <p className="jp-gq-hint">{NOTHING[prefix.from]} The job starts with a new kernel.</p>
      </section>
    );
  }
  return (
    <section aria-label="Cells that run first">
      <h3>{describeReplay(entries)}</h3>
      <p className="jp-gq-hint">
        {ORIGINS[prefix.from]}
        {hasRepeats(entries) && (
          <button type="button" className="jp-gq-action" onClick={() => onEntries(keepLastRuns(entries))}>
            Only the last run of each
          </button>
        )}
      </p>
      <ol className="jp-gq-replay">
        {entries.map((entry, index) => (
          <ReplayRow
            key={entry.key}
            entry={entry}
            notes={entry.included ? (warnings.entries.get(entry.key) ?? []) : []}
            number={index + 1}
            disabled={sending || entry.fixed}
            onToggle={() => onEntries(toggleEntry(entries, entry.key))}
          />
        ))}
      </ol>
    </section>
  );
}

function describeReplay(entries: readonly IPrefixEntry[]): string {
  const count = entries.filter(entry => entry.included).length;
  const seconds = sumKnownSeconds(entries);
  const cells = count === 1 ? '1 cell' : count === 0 ? 'no cell' : `${count} cells`;
  return seconds === null
    ? `Runs first: ${cells}`
    : `Runs first: ${cells}, which took ${formatDuration(seconds)} here`;
}

interface IReplayRowProps {
  entry: IPrefixEntry;
  /** Warnings of the server about the cell. */
  notes: readonly string[];
  number: number;
  disabled: boolean;
  onToggle: () => void;
}

function ReplayRow({ entry, notes, number, disabled, onToggle }: IReplayRowProps): React.JSX.Element {
  const id = `jp-gq-replay-${number}`;
  return (
    <li className={entry.included ? '' : 'jp-gq-mod-left-out'} onClick={disabled ? undefined : onToggle}>
      <input
        type="checkbox"
        aria-label={`Replay cell ${number}`}
        aria-describedby={id}
        checked={entry.included}
        disabled={disabled}
        onChange={onToggle}
        onClick={event => event.stopPropagation()}
      />
      <span className="jp-gq-replay-what" id={id}>
        <code title={entry.source.slice(0, 600)}>{findTitle(entry.source)}</code>
        <CellNotes notes={entry.note === null ? notes : [entry.note, ...notes]} />
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
    <p className="jp-gq-problem" role="alert">
      {problem.message}
    </p>
  ) : null;
}

/** A problem that is about none of the fields, shown at the end near the button. */
function GeneralProblem({ problem }: Pick<IFormProps, 'problem'>): React.JSX.Element | null {
  if (problem === null || FIELDS.includes(problem.field ?? '')) {
    return null;
  }
  return (
    <p className="jp-gq-problem" role="alert">
      {problem.message}
    </p>
  );
}
