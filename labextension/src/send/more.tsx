/** The seldom used fields, in a section that is closed until the user opens it: props in, no requests. */

import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Caret } from '../panel/parts';
import type { PoolView, Problem, QueueView } from '../wire';
import type { IFormValues } from './values';
import { formatDefault, canChooseModel, formatHint, summarizeValues } from './values';
import { Field, TextField } from './field';

export interface IMoreProps {
  values: IFormValues;
  queue: QueueView | undefined;
  pool: PoolView | undefined;
  problem: Problem | null;
  onValues: (values: IFormValues) => void;
}

/** Fields of this section, as a problem names them. */
export const MORE_FIELDS = ['cpus', 'memory', 'gpu_model', 'expected_seconds'];

export function More(props: IMoreProps): React.JSX.Element {
  const { values, pool, problem } = props;
  const [open, setOpen] = React.useState(false);
  const wrong = MORE_FIELDS.includes(problem?.field ?? '');
  React.useEffect(() => {
    if (wrong) {
      setOpen(true);
    }
  }, [wrong]);
  const short = summarizeValues(values, pool?.models ?? []);
  return (
    <section className="jp-gq-extras" aria-label="More">
      <button
        type="button"
        className="jp-gq-extras-head"
        aria-expanded={open}
        aria-controls="jp-gq-send-more"
        onClick={() => setOpen(!open)}
      >
        <Caret open={open} />
        More
        {!open && <span className="jp-gq-hint">{short || 'CPU, memory, expected duration'}</span>}
      </button>
      <div id="jp-gq-send-more" className="jp-gq-send-fields" hidden={!open}>
        <Amounts {...props} />
        <ModelField {...props} />
        <TextField
          id="expected_seconds"
          label="Expected duration"
          hint="such as 2 h 30 min; not a limit"
          value={values.expected}
          problem={problem}
          onChange={expected => props.onValues({ ...values, expected })}
        />
      </div>
    </section>
  );
}

function Amounts({ values, queue, pool, problem, onValues }: IMoreProps): React.JSX.Element {
  return (
    <>
      <TextField
        id="cpus"
        label="CPU"
        hint={formatHint('cores', pool?.largest_cpus)}
        placeholder={formatDefault(queue?.cpus)}
        value={values.cpus}
        problem={problem}
        onChange={cpus => onValues({ ...values, cpus })}
      />
      <TextField
        id="memory"
        label="Memory"
        hint={formatHint('GiB', pool?.largest_memory)}
        placeholder={formatDefault(queue?.memory)}
        value={values.memory}
        problem={problem}
        onChange={memory => onValues({ ...values, memory })}
      />
    </>
  );
}

function ModelField({ values, pool, problem, onValues }: IMoreProps): React.JSX.Element | null {
  const models = pool?.models ?? [];
  if (!canChooseModel(values, models)) {
    return null;
  }
  const wrong = problem?.field === 'gpu_model';
  return (
    <Field id="gpu_model" label="GPU model" problem={problem}>
      <HTMLSelect
        id="jp-gq-send-gpu_model"
        aria-invalid={wrong}
        aria-describedby={wrong ? 'jp-gq-send-gpu_model-problem' : undefined}
        value={models.includes(values.model) ? values.model : ''}
        onChange={event => onValues({ ...values, model: event.target.value })}
      >
        <option value="">any</option>
        {models.map(model => (
          <option key={model} value={model}>
            {model}
          </option>
        ))}
      </HTMLSelect>
    </Field>
  );
}
