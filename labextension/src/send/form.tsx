/** The body of the send dialog: props in, no requests. */

import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { choices, gpuWords } from '../amounts';
import type { IPrefix, IPrefixEntry } from '../bundle/prefix';
import { hasRepeats, knownSeconds, lastRuns, title, toggled } from '../bundle/prefix';
import { queueTotals } from '../jobs';
import { duration } from '../times';
import type { PoolView, Preview, Problem, QueueView } from '../wire';
import type { IAsked } from './asked';
import { poolOf } from './asked';
import { Field } from './field';
import { More, MORE_FIELDS } from './more';

export interface IFormProps {
  asked: IAsked;
  queues: readonly QueueView[];
  pools: readonly PoolView[];
  /** The most GPUs that can be asked for. */
  largest: string;
  targets: readonly string[];
  prefix: Pick<IPrefix, 'from'>;
  entries: readonly IPrefixEntry[];
  notes: readonly string[];
  /** null while it is being asked. */
  preview: Preview | null;
  problem: Problem | null;
  sending: boolean;
  onAsked: (asked: IAsked) => void;
  onEntries: (entries: readonly IPrefixEntry[]) => void;
}

export function SendForm(props: IFormProps): React.JSX.Element {
  const queue = props.queues.find(known => known.name === props.asked.queue);
  return (
    <div className="jp-gq-send" aria-busy={props.sending}>
      <div className="jp-gq-send-fields">
        <NameField {...props} />
        <QueueField {...props} />
        <GpusField {...props} />
      </div>
      <More {...props} queue={queue} pool={poolOf(queue, props.pools)} />
      <Forecast preview={props.preview} problem={props.problem} />
      <Targets targets={props.targets} problem={props.problem} />
      <Replay {...props} />
      {props.notes.map(note => (
        <p className="jp-gq-note" key={note}>
          {note}
        </p>
      ))}
      <GeneralProblem problem={props.problem} />
    </div>
  );
}

const FIELDS = ['name', 'queue', 'gpus', 'targets', ...MORE_FIELDS];

function NameField({ asked, problem, onAsked }: IFormProps): React.JSX.Element {
  return (
    <Field id="name" label="Name" problem={problem}>
      <input
        id="jp-gq-send-name"
        className="jp-mod-styled"
        type="text"
        maxLength={100}
        value={asked.name}
        onChange={event => onAsked({ ...asked, name: event.target.value })}
      />
    </Field>
  );
}

function QueueField({ asked, queues, problem, onAsked }: IFormProps): React.JSX.Element {
  const current = queues.find(queue => queue.name === asked.queue);
  return (
    <Field id="queue" label="Queue" problem={problem}>
      <HTMLSelect
        id="jp-gq-send-queue"
        value={asked.queue}
        aria-describedby="jp-gq-send-queue-totals"
        onChange={event => onAsked({ ...asked, queue: event.target.value })}
      >
        {queues.map(queue => (
          <option key={queue.name} value={queue.name}>
            {queue.name}
          </option>
        ))}
      </HTMLSelect>
      <span className="jp-gq-hint" id="jp-gq-send-queue-totals">
        {current === undefined ? '' : queueTotals(current)}
      </span>
    </Field>
  );
}

function GpusField({ asked, largest, problem, onAsked }: IFormProps): React.JSX.Element {
  return (
    <Field id="gpus" label="GPUs" problem={problem}>
      <HTMLSelect
        id="jp-gq-send-gpus"
        value={asked.gpus}
        onChange={event => onAsked({ ...asked, gpus: event.target.value })}
      >
        {choices(largest).map(gpus => (
          <option key={gpus} value={gpus}>
            {gpuWords(gpus)}
          </option>
        ))}
      </HTMLSelect>
    </Field>
  );
}

function Forecast({ preview, problem }: Pick<IFormProps, 'preview' | 'problem'>): React.JSX.Element {
  if (problem !== null) {
    return <p className="jp-gq-forecast jp-gq-mod-none" />;
  }
  if (preview === null) {
    return <p className="jp-gq-forecast jp-gq-mod-pending">Asking the scheduler…</p>;
  }
  const tone = preview.starts_now ? 'jp-gq-tone-good' : 'jp-gq-tone-warn';
  return (
    <p className={`jp-gq-forecast ${tone}`} role="status" aria-label="Forecast">
      {preview.sentence}
    </p>
  );
}

function Targets({ targets, problem }: Pick<IFormProps, 'targets' | 'problem'>): React.JSX.Element {
  return (
    <section aria-label="Cells that are sent">
      <h3>{targets.length === 1 ? 'Sends this cell' : `Sends these ${targets.length} cells`}</h3>
      <ul className="jp-gq-targets">
        {targets.map((source, index) => (
          <li key={index}>
            <code>{title(source)}</code>
          </li>
        ))}
      </ul>
      {problem?.field === 'targets' && (
        <p className="jp-gq-problem" role="alert">
          {problem.message}
        </p>
      )}
    </section>
  );
}

const ORIGINS: Readonly<Record<IPrefix['from'], string>> = {
  history: 'in the order in which they ran here',
  server: 'in the order in which they ran here, as the server saw it',
  document: 'in the order of the document, since what ran here is not known'
};

function Replay({ prefix, entries, sending, onEntries }: IFormProps): React.JSX.Element {
  if (entries.length === 0) {
    return (
      <section aria-label="Cells that run first">
        <h3>Nothing runs before it</h3>
        <p className="jp-gq-hint">No other cell ran in this kernel. The job starts with a fresh kernel.</p>
      </section>
    );
  }
  return (
    <section aria-label="Cells that run first">
      <h3>{heading(entries)}</h3>
      <p className="jp-gq-hint">
        A fresh kernel runs them {ORIGINS[prefix.from]}.
        {hasRepeats(entries) && (
          <button type="button" className="jp-gq-action" onClick={() => onEntries(lastRuns(entries))}>
            Only the last run of each
          </button>
        )}
      </p>
      <ol className="jp-gq-replay">
        {entries.map((entry, index) => (
          <ReplayRow
            key={entry.key}
            entry={entry}
            number={index + 1}
            disabled={sending || entry.fixed}
            onToggle={() => onEntries(toggled(entries, entry.key))}
          />
        ))}
      </ol>
    </section>
  );
}

function heading(entries: readonly IPrefixEntry[]): string {
  const count = entries.filter(entry => entry.included).length;
  const seconds = knownSeconds(entries);
  const cells = count === 1 ? '1 cell' : count === 0 ? 'no cell' : `${count} cells`;
  return seconds === null
    ? `Runs first: ${cells}`
    : `Runs first: ${cells}, which took ${duration(seconds)} here`;
}

interface IReplayRowProps {
  entry: IPrefixEntry;
  number: number;
  disabled: boolean;
  onToggle: () => void;
}

function ReplayRow({ entry, number, disabled, onToggle }: IReplayRowProps): React.JSX.Element {
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
        <code title={entry.source.slice(0, 600)}>{title(entry.source)}</code>
        {entry.note !== null && <span className="jp-gq-replay-note">{entry.note}</span>}
      </span>
      <span className="jp-gq-replay-time">{entry.seconds === null ? '' : duration(entry.seconds)}</span>
    </li>
  );
}

/** A problem that belongs to none of the fields stands at the end, where the button is. */
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
