/** The field for the variables that a job brings back. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Action } from '../panel/parts';
import type { Plan, Problem } from '../wire';
import { TextField } from './field';
import { parseNames, toggleName } from './values';

/** Most variables that the hint of a field names at first. */
const MOST_MADE = 6;

interface IReturnsProps {
  /** Names that the user wrote; null before the first change, and the proposal is shown. */
  returns: string | null;
  proposed: Pick<Plan, 'returns' | 'makes'>;
  problem: Problem | null;
  onReturns: (names: string) => void;
  trans: TranslationBundle;
}

/** The field for the variables that the job brings back, and those that the cells make, which a click adds or removes. */
export function ReturnsField({
  returns,
  proposed,
  problem,
  onReturns,
  trans
}: IReturnsProps): React.JSX.Element {
  const text = returns ?? proposed.returns.join(', ');
  return (
    <TextField
      id="returns"
      label={trans.__('Bring back')}
      hint={
        <MadeNames
          makes={proposed.makes}
          chosen={parseNames(text)}
          onToggle={name => onReturns(toggleName(text, name))}
          trans={trans}
        />
      }
      maxLength={20_000}
      value={text}
      problem={problem}
      onChange={onReturns}
    />
  );
}

interface IMadeNamesProps {
  makes: readonly string[];
  chosen: readonly string[];
  onToggle: (name: string) => void;
  trans: TranslationBundle;
}

/** The variables that the cells make: the first ones, and a button that shows all or fewer, and so keeps the focus. */
function MadeNames({ makes, chosen, onToggle, trans }: IMadeNamesProps): React.JSX.Element {
  const [showsAll, setShowsAll] = React.useState(false);
  const hidden = makes.length - MOST_MADE;
  if (makes.length === 0) {
    return <>{trans.__('variables for this notebook, such as model')}</>;
  }
  return (
    <>
      {trans.__('variables of this cell:')}{' '}
      {(showsAll ? makes : makes.slice(0, MOST_MADE)).map((name, place) => (
        <React.Fragment key={name}>
          {place > 0 && ', '}
          <Action
            label={name}
            pressed={chosen.includes(name)}
            title={chosen.includes(name) ? trans.__('Leave it in the job.') : trans.__('Bring it back.')}
            onClick={() => onToggle(name)}
          />
        </React.Fragment>
      ))}{' '}
      {hidden > 0 && (
        <Action
          label={showsAll ? trans.__('(show fewer)') : trans._n('and %1 more', 'and %1 more', hidden)}
          onClick={() => setShowsAll(!showsAll)}
        />
      )}
    </>
  );
}
