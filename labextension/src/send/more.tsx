/** The seldom used fields, in a section that is closed until the user opens it: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Caret } from '../panel/parts';
import type { PoolView, Problem, QueueView } from '../wire';
import type { IFormValues, IOffer } from './values';
import { formatDefault, canChooseModel, describePriority, formatHint, summarizeValues } from './values';
import { describeMaxTime } from './duration';
import { describeField, Field, TextField } from './field';
import type { ISoftware } from './software';
import { addChosen } from './software';
import { useUnfolded } from './section';

export interface IMoreProps {
  values: IFormValues;
  queue: QueueView | undefined;
  pool: PoolView | undefined;
  offer: IOffer;
  /** What the user can choose in place of the notebook's software. */
  software: readonly ISoftware[];
  problem: Problem | null;
  onValues: (values: IFormValues) => void;
  trans: TranslationBundle;
}

/** Fields of this section, as a problem names them. */
export const MORE_FIELDS = [
  'gpu_memory',
  'tasks',
  'min_tasks',
  'cpus',
  'memory',
  'gpu_model',
  'expected_seconds',
  'max_seconds',
  'priority',
  'software'
];

export function More(props: IMoreProps): React.JSX.Element {
  const { values, offer, problem, trans } = props;
  const [open, toggle] = useUnfolded(MORE_FIELDS.includes(problem?.field ?? ''));
  const short = summarizeValues(values, offer, trans);
  return (
    <section className="jp-gq-extras" aria-label={trans.__('More')}>
      <button
        type="button"
        className="jp-gq-extras-head"
        aria-expanded={open}
        aria-controls="jp-gq-send-more"
        onClick={toggle}
      >
        <Caret open={open} />
        {trans.__('More')}
        {!open && (
          <span className="jp-gq-hint">
            {short || trans.__('GPU memory, tasks, CPU, memory, duration, maximum time, priority')}
          </span>
        )}
      </button>
      <div id="jp-gq-send-more" className="jp-gq-send-fields" hidden={!open}>
        <GangFields {...props} />
        <Amounts {...props} />
        <ModelField {...props} />
        <TextField
          id="expected_seconds"
          label={trans.__('Expected duration')}
          hint={trans.__('such as 2 h 30 min; not a limit')}
          value={values.expected}
          problem={problem}
          onChange={expected => props.onValues({ ...values, expected })}
        />
        <TextField
          id="max_seconds"
          label={trans.__('Maximum time')}
          hint={describeMaxTime(offer.maxSeconds, trans)}
          value={values.maxTime}
          problem={problem}
          onChange={maxTime => props.onValues({ ...values, maxTime })}
        />
        <PriorityField {...props} />
        <SoftwareField {...props} />
      </div>
    </section>
  );
}

/** The fields for GPU memory, which takes the place of a fraction of a GPU, and for the numbers of tasks. */
function GangFields({ values, problem, onValues, trans }: IMoreProps): React.JSX.Element {
  return (
    <>
      <TextField
        id="gpu_memory"
        label={trans.__('GPU memory')}
        hint={trans.__('GiB, instead of a fraction of a GPU')}
        value={values.gpuMemory}
        problem={problem}
        onChange={gpuMemory => onValues({ ...values, gpuMemory })}
      />
      <TextField
        id="tasks"
        label={trans.__('Tasks')}
        hint={trans.__('processes that start together, each with these GPUs')}
        placeholder="1"
        value={values.tasks}
        problem={problem}
        onChange={tasks => onValues({ ...values, tasks })}
      />
      <TextField
        id="min_tasks"
        label={trans.__('At least')}
        hint={trans.__('tasks to start with; the job then grows and shrinks')}
        placeholder={trans.__('all')}
        value={values.minTasks}
        problem={problem}
        onChange={minTasks => onValues({ ...values, minTasks })}
      />
    </>
  );
}

function Amounts({ values, queue, pool, problem, onValues, trans }: IMoreProps): React.JSX.Element {
  return (
    <>
      <TextField
        id="cpus"
        label={trans.__('CPU')}
        hint={formatHint(trans.__('cores'), pool?.largest_cpus, trans)}
        placeholder={formatDefault(queue?.cpus, trans)}
        value={values.cpus}
        problem={problem}
        onChange={cpus => onValues({ ...values, cpus })}
      />
      <TextField
        id="memory"
        label={trans.__('Memory')}
        hint={formatHint('GiB', pool?.largest_memory, trans)}
        placeholder={formatDefault(queue?.memory, trans)}
        value={values.memory}
        problem={problem}
        onChange={memory => onValues({ ...values, memory })}
      />
    </>
  );
}

/** A field for the priority. The browser does not check it: the dialog says what is wrong, as of all fields. */
function PriorityField({ values, offer, problem, onValues, trans }: IMoreProps): React.JSX.Element {
  return (
    <TextField
      id="priority"
      label={trans.__('Priority')}
      hint={describePriority(offer, trans)}
      placeholder="0"
      value={values.priority}
      problem={problem}
      onChange={priority => onValues({ ...values, priority })}
    />
  );
}

function ModelField({ values, offer, problem, onValues, trans }: IMoreProps): React.JSX.Element | null {
  const { models } = offer;
  if (!canChooseModel(values, models)) {
    return null;
  }
  return (
    <Field id="gpu_model" label={trans.__('GPU model')} problem={problem}>
      <HTMLSelect
        id="jp-gq-send-gpu_model"
        {...describeField('gpu_model', problem)}
        value={models.includes(values.model) ? values.model : ''}
        onChange={event => onValues({ ...values, model: event.target.value })}
      >
        <option value="">{trans.__('any')}</option>
        {models.map(model => (
          <option key={model} value={model}>
            {model}
          </option>
        ))}
      </HTMLSelect>
    </Field>
  );
}

/** The choice of the software; nothing if there is no choice. */
function SoftwareField({ values, software, problem, onValues, trans }: IMoreProps): React.JSX.Element | null {
  const choices = addChosen(software, values.software);
  if (choices.length === 0) {
    return null;
  }
  const hint = 'jp-gq-send-software-hint';
  return (
    <Field id="software" label={trans.__('Software')} problem={problem}>
      <HTMLSelect
        id="jp-gq-send-software"
        className="jp-gq-mod-wide"
        {...describeField('software', problem, hint)}
        value={values.software}
        onChange={event => onValues({ ...values, software: event.target.value })}
      >
        <option value="">{trans.__('as in this notebook')}</option>
        {choices.map(({ name, title }) => (
          <option key={name} value={name}>
            {title}
          </option>
        ))}
      </HTMLSelect>
      <span className="jp-gq-hint" id={hint}>
        {choices.find(({ name }) => name === values.software)?.isImage === true &&
          trans.__('an image; variables of this kernel cannot go along')}
      </span>
    </Field>
  );
}
