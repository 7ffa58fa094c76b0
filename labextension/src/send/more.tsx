/** What is seldom asked for, in a section that is closed until somebody opens it: props in, no requests. */

import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Caret } from '../panel/parts';
import type { PoolView, Problem, QueueView } from '../wire';
import type { IAsked } from './asked';
import { byDefault, choosesModel, hint, inShort } from './asked';
import { Field, TextField } from './field';

export interface IMoreProps {
  asked: IAsked;
  queue: QueueView | undefined;
  pool: PoolView | undefined;
  problem: Problem | null;
  onAsked: (asked: IAsked) => void;
}

/** Fields of a problem that stand here. */
export const MORE_FIELDS = ['cpus', 'memory', 'gpu_model', 'expected_seconds'];

export function More(props: IMoreProps): React.JSX.Element {
  const { asked, pool, problem } = props;
  const [open, setOpen] = React.useState(false);
  const wrong = MORE_FIELDS.includes(problem?.field ?? '');
  React.useEffect(() => {
    if (wrong) {
      setOpen(true);
    }
  }, [wrong]);
  const short = inShort(asked, pool?.models ?? []);
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
          value={asked.expected}
          problem={problem}
          onChange={expected => props.onAsked({ ...asked, expected })}
        />
      </div>
    </section>
  );
}

function Amounts({ asked, queue, pool, problem, onAsked }: IMoreProps): React.JSX.Element {
  return (
    <>
      <TextField
        id="cpus"
        label="CPU"
        hint={hint('cores', pool?.largest_cpus)}
        placeholder={byDefault(queue?.cpus)}
        value={asked.cpus}
        problem={problem}
        onChange={cpus => onAsked({ ...asked, cpus })}
      />
      <TextField
        id="memory"
        label="Memory"
        hint={hint('GiB', pool?.largest_memory)}
        placeholder={byDefault(queue?.memory)}
        value={asked.memory}
        problem={problem}
        onChange={memory => onAsked({ ...asked, memory })}
      />
    </>
  );
}

function ModelField({ asked, pool, problem, onAsked }: IMoreProps): React.JSX.Element | null {
  const models = pool?.models ?? [];
  if (!choosesModel(asked, models)) {
    return null;
  }
  const wrong = problem?.field === 'gpu_model';
  return (
    <Field id="gpu_model" label="GPU model" problem={problem}>
      <HTMLSelect
        id="jp-gq-send-gpu_model"
        aria-invalid={wrong}
        aria-describedby={wrong ? 'jp-gq-send-gpu_model-problem' : undefined}
        value={models.includes(asked.model) ? asked.model : ''}
        onChange={event => onAsked({ ...asked, model: event.target.value })}
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
