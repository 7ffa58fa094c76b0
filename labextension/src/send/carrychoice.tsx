/** The section of the send dialog about variables that go along in place of cells: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IPrefixEntry } from '../bundle/prefix';
import { findTitle, sumKnownSeconds } from '../bundle/prefix';
import { formatBytes } from '../results';
import { formatDuration } from '../times';
import type { Captured, CapturedVariable, Problem } from '../wire';
import type { ICarry } from './carry';
import { askForVariables, selectReplayed, selectRunning, summarizeVariables, toggleName } from './carry';
import { TextField } from './field';
import { parseNames } from './values';

export interface ICarryProps {
  carry: ICarry;
  entries: readonly IPrefixEntry[];
  sending: boolean;
  problem: Problem | null;
  trans: TranslationBundle;
  onCarry: (carry: ICarry) => void;
  /** Called when the kernel is to be asked at once for the variables that were written. */
  onWritten: () => void;
}

/** The choice, with the captured variables; nothing if no variable can go along or no cell would run first. */
export function CarryChoice(props: ICarryProps): React.JSX.Element | null {
  const { carry, entries, problem, trans } = props;
  if (carry.offer?.offered !== true || entries.length === 0) {
    return null;
  }
  const refusal = carry.problem ?? (problem?.field === 'capture' ? problem : null);
  const isOfField = refusal?.field === ALSO;
  return (
    <section aria-label={trans.__('Cells or variables')}>
      <Ways {...props} />
      {carry.wanted && carry.captured === null && refusal === null && (
        <p className="jp-gq-hint" role="status">
          {trans.__('Asking the kernel for its variables, and loading them in a new process…')}
        </p>
      )}
      {carry.wanted && carry.captured !== null && <Variables {...props} captured={carry.captured} />}
      {carry.wanted && <AlsoTake {...props} problem={refusal} />}
      {carry.wanted && refusal !== null && !isOfField && (
        <p className="jp-gq-problem" role="alert" tabIndex={-1}>
          {refusal.message}
        </p>
      )}
    </section>
  );
}

/** The two ways to give the cell its variables. */
function Ways({ carry, entries, sending, trans, onCarry }: ICarryProps): React.JSX.Element {
  const seconds = sumKnownSeconds(selectReplayed(entries, carry));
  const again =
    seconds === null
      ? trans.__('the job runs them again')
      : trans.__('the job runs them again, which took %1 here', formatDuration(seconds));
  return (
    <div className="jp-gq-ways" role="radiogroup" aria-label={trans.__('How the cell gets its variables')}>
      <label>
        <input
          type="radio"
          name="jp-gq-send-way"
          checked={!carry.wanted}
          disabled={sending}
          onChange={() => onCarry({ ...carry, wanted: false, captured: null, problem: null })}
        />
        {trans.__('Replay these cells')}
        <span className="jp-gq-hint">{again}</span>
      </label>
      <label>
        <input
          type="radio"
          name="jp-gq-send-way"
          checked={carry.wanted}
          disabled={sending}
          onChange={() => onCarry(askForVariables(carry))}
        />
        {trans.__('Take the variables along')}
        <span className="jp-gq-hint">
          {carry.offer?.suggested === true
            ? trans.__('suggested, because these cells took long')
            : trans.__('as they are now in this kernel')}
        </span>
      </label>
    </div>
  );
}

/** Name of the field for further variables, as in the request. */
const ALSO = 'more_variables';

/** The field for variables that the cells do not name. Each letter counts; Enter, or leaving it, asks the kernel at once. */
function AlsoTake({ carry, sending, problem, trans, onCarry, onWritten }: ICarryProps): React.JSX.Element {
  const [text, setText] = React.useState(carry.also.join(', '));
  const take = (written: string): void => {
    setText(written);
    const also = parseNames(written);
    if (also.join() !== carry.also.join()) {
      onCarry(askForVariables(carry, { also }));
    }
  };
  return (
    <TextField
      id={ALSO}
      label={trans.__('Also take variables')}
      hint={trans.__('variables that the cells do not name, such as those that eval reads')}
      maxLength={1000}
      takesEnter={true}
      disabled={sending}
      problem={problem}
      value={text}
      onChange={take}
      onDone={onWritten}
    />
  );
}

/** The captured variables, and the cells that run because of those that stay. */
function Variables({
  captured,
  carry,
  entries,
  sending,
  trans,
  onCarry
}: ICarryProps & { captured: Captured }): React.JSX.Element {
  const running = selectRunning(entries, carry);
  return (
    <>
      <h3>{summarizeVariables(captured, trans)}</h3>
      <VariableList captured={captured} carry={carry} sending={sending} trans={trans} onCarry={onCarry} />
      {running.length > 0 && (
        <>
          <h3>{trans._n('Runs first: %1 cell', 'Runs first: %1 cells', running.length)}</h3>
          <ul className="jp-gq-targets" aria-label={trans.__('Cells that run first all the same')}>
            {running.map(entry => (
              <li key={entry.key}>
                <code title={entry.source.slice(0, 600)}>{findTitle(entry.source)}</code>
                <span className="jp-gq-hint">
                  {' '}
                  {entry.fixed ? trans.__('always runs') : trans.__('makes a variable that stays')}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      {captured.notes.map(note => (
        <p className="jp-gq-note" key={note}>
          {note}
        </p>
      ))}
    </>
  );
}

type IVariableListProps = Pick<ICarryProps, 'carry' | 'sending' | 'trans' | 'onCarry'> & {
  captured: Captured;
};

/** The captured variables, each of which can be left out; nothing if there are none. */
function VariableList(props: IVariableListProps): React.JSX.Element | null {
  const { captured, carry, sending, trans, onCarry } = props;
  if (captured.variables.length === 0) {
    return null;
  }
  return (
    <ul
      className="jp-gq-replay"
      aria-label={trans.__('Variables that go along')}
      // A list that can only be read is scrolled by keys too.
      tabIndex={captured.variables.some(each => isChoice(each, carry)) ? undefined : 0}
    >
      {captured.variables.map(variable => (
        <VariableRow
          key={variable.name}
          variable={variable}
          leftOut={carry.leftOut.has(variable.name)}
          disabled={sending}
          trans={trans}
          onToggle={() =>
            onCarry(askForVariables(carry, { leftOut: toggleName(carry.leftOut, variable.name) }))
          }
        />
      ))}
    </ul>
  );
}

/** Return whether the user may choose if the variable goes along. */
function isChoice({ name, why }: CapturedVariable, carry: ICarryProps['carry']): boolean {
  return why === '' || carry.leftOut.has(name);
}

interface IVariableRowProps {
  variable: CapturedVariable;
  /** Whether the variable stays because the user says so. */
  leftOut: boolean;
  disabled: boolean;
  trans: TranslationBundle;
  onToggle: () => void;
}

function VariableRow({ variable, leftOut, disabled, trans, onToggle }: IVariableRowProps): React.JSX.Element {
  const { name, type, bytes, why } = variable;
  const goes = why === '';
  const fixed = disabled || !(goes || leftOut);
  return (
    <li className={goes ? '' : 'jp-gq-mod-left-out'} onClick={fixed ? undefined : onToggle}>
      <input
        type="checkbox"
        aria-label={trans.__('Take %1 along', name)}
        checked={goes}
        disabled={fixed}
        onChange={onToggle}
        onClick={event => event.stopPropagation()}
      />
      <span className="jp-gq-replay-what">
        <code>{name}</code>{' '}
        <span className="jp-gq-hint">
          {variable.on_gpu ? trans.__('%1, in the memory of a GPU', type) : type}
        </span>
        {!goes && !leftOut && <span className="jp-gq-replay-note">{why}</span>}
      </span>
      <span className="jp-gq-replay-time">{goes ? formatBytes(bytes) : ''}</span>
    </li>
  );
}
