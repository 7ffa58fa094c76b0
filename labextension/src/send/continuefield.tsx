/** The choice to begin with the checkpoints of an ended job: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Problem } from '../wire';
import type { IEarlierJob } from './continuing';
import { describeField, Field } from './field';
import type { IFormValues } from './values';

interface IContinueProps {
  /** The job whose checkpoints are offered; null if there is none. */
  earlier: IEarlierJob | null;
  values: IFormValues;
  problem: Problem | null;
  sending: boolean;
  onValues: (values: IFormValues) => void;
  trans: TranslationBundle;
}

/** The checkbox of the field; nothing if there is no job to continue from. */
export function ContinueField(props: IContinueProps): React.JSX.Element | null {
  const { earlier, values, problem, sending, onValues, trans } = props;
  if (earlier === null) {
    return null;
  }
  const continues = values.continueFrom !== '';
  return (
    <Field id="continue_from" label={trans.__('Checkpoints')} problem={problem}>
      <label className="jp-gq-continue">
        <input
          id="jp-gq-send-continue_from"
          type="checkbox"
          {...describeField('continue_from', problem)}
          checked={continues}
          disabled={sending}
          onChange={() => onValues({ ...values, continueFrom: continues ? '' : earlier.id })}
        />
        {trans.__('Continue from a copy of those of “%1”', earlier.title)}
      </label>
    </Field>
  );
}
