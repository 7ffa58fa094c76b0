/** The section in which the user sends several jobs with different values: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Caret } from '../panel/parts';
import { isProblem } from '../client';
import type { Plan, Problem } from '../wire';
import { Field, TextField } from './field';
import { useUnfolded } from './section';
import type { ISweepChoice } from './sweep';
import { describeSweep, fieldOf, findMode, listGrid, makeSweep } from './sweep';

export interface ISweepProps {
  choice: ISweepChoice;
  assignments: Plan['assignments'];
  /** Names that the job brings back, of which one may be the number to compare. */
  returns: readonly string[];
  problem: Problem | null;
  trans: TranslationBundle;
  onChoice: (choice: ISweepChoice) => void;
}

/** Return whether a problem of this field is shown in this section. */
export function isSweepField(field: string): boolean {
  return (
    ['grid', 'group_parallel', 'group_metric', 'group_mode'].includes(field) || field.startsWith(fieldOf(''))
  );
}

export function SweepSection(given: ISweepProps): React.JSX.Element | null {
  const { choice, assignments, trans } = given;
  const sweep = makeSweep(choice, trans);
  const problem = isProblem(sweep) ? sweep : given.problem;
  const props = { ...given, problem };
  const [isOpen, toggle] = useUnfolded(isSweepField(problem?.field ?? ''));
  const said = describeSweep(choice, trans);
  if (assignments.length === 0) {
    return null;
  }
  const varies = Object.keys(listGrid(choice)).length > 0;
  return (
    <section className="jp-gq-extras" aria-label={trans.__('Send as sweep')}>
      <button
        type="button"
        className="jp-gq-extras-head"
        aria-expanded={isOpen}
        aria-controls="jp-gq-send-sweep"
        onClick={toggle}
      >
        <Caret open={isOpen} />
        {trans.__('Send as sweep')}
        {!isOpen && <span className="jp-gq-hint">{said || describeNames(assignments, trans)}</span>}
      </button>
      <div id="jp-gq-send-sweep" className="jp-gq-send-fields" hidden={!isOpen}>
        <p className="jp-gq-hint">
          {trans.__('One job for each combination. Write several values, separated by commas.')}
        </p>
        <div className="jp-gq-sweep-names">
          <Values {...props} />
        </div>
        {problem?.field === 'grid' && (
          <p className="jp-gq-problem" role="alert" tabIndex={-1}>
            {problem.message}
          </p>
        )}
        {varies && <Options {...props} />}
        {said !== '' && <p role="status">{said}</p>}
      </div>
    </section>
  );
}

/** The most names with a field before the user asks for all: a long cell assigns hundreds. */
const MOST_FIELDS = 12;

/**
 * Most characters in the field of a name: the browser cuts longer text without a word, so that the last number would be
 * another one. Here, as many values as a sweep takes may have 500 characters each.
 */
const LONGEST = 100_000;

/** A field for the values of each name: for the first ones and those in use, until the user asks for all. */
function Values({ choice, assignments, problem, trans, onChoice }: ISweepProps): React.JSX.Element {
  const [isComplete, setComplete] = React.useState(false);
  const isUsed = (name: string): boolean =>
    (choice.values[name] ?? '') !== '' || problem?.field === fieldOf(name);
  const shown = assignments.filter(({ name }, index) => isComplete || index < MOST_FIELDS || isUsed(name));
  return (
    <>
      {shown.map(({ name, value, line, title }) => (
        <TextField
          key={name}
          id={fieldOf(name)}
          label={name}
          hint={trans.__('line %1 of “%2”', line, title)}
          placeholder={value}
          maxLength={LONGEST}
          value={choice.values[name] ?? ''}
          problem={problem}
          onChange={text => onChoice({ ...choice, values: { ...choice.values, [name]: text } })}
        />
      ))}
      {shown.length < assignments.length && (
        <button type="button" className="jp-gq-action" onClick={() => setComplete(true)}>
          {trans.__('Show all %1 variables', assignments.length)}
        </button>
      )}
    </>
  );
}

/** The fields for the jobs as a whole: how many at once, and how they are compared. */
function Options({ choice, returns, problem, trans, onChoice }: ISweepProps): React.JSX.Element {
  return (
    <>
      <TextField
        id="group_parallel"
        label={trans.__('At once')}
        hint={trans.__('jobs that run at the same time at most')}
        placeholder={trans.__('all')}
        maxLength={5}
        value={choice.parallel}
        problem={problem}
        onChange={parallel => onChoice({ ...choice, parallel })}
      />
      <TextField
        id="group_metric"
        label={trans.__('Compare by')}
        hint={trans.__('variable with the number of each job, such as loss')}
        placeholder={returns[0]}
        maxLength={100}
        value={choice.metric}
        problem={problem}
        onChange={metric => onChoice({ ...choice, metric })}
      />
      <Field id="group_mode" label={trans.__('Best is')} problem={problem}>
        <HTMLSelect
          id="jp-gq-send-group_mode"
          value={findMode(choice, returns)}
          onChange={event => onChoice({ ...choice, mode: event.target.value === 'min' ? 'min' : 'max' })}
        >
          <option value="max">{trans.__('the highest number')}</option>
          <option value="min">{trans.__('the lowest number')}</option>
        </HTMLSelect>
      </Field>
    </>
  );
}

/** The most names in the hint. */
const MOST_NAMED = 4;

/** Return the names that can vary, as a hint. */
function describeNames(assignments: Plan['assignments'], trans: TranslationBundle): string {
  const names = assignments.map(({ name }) => name);
  const said = trans.__('several jobs with other values of %1', names.slice(0, MOST_NAMED).join(', '));
  const more = names.length - MOST_NAMED;
  return more > 0 ? `${said} ${trans._n('and %1 more variable', 'and %1 more variables', more)}` : said;
}
