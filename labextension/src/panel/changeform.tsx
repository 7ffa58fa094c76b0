/** The form in which the owner of a job asks for other GPUs and tasks, another priority or another maximum time. */

import type { Dialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { isProblem } from '../client';
import { isWaiting } from '../jobs';
import { warnOfChange } from '../pauses';
import { describeMaxTime } from '../send/duration';
import { TextField } from '../send/field';
import type { IOffer } from '../send/values';
import { describePriority } from '../send/values';
import type { JobChange, JobSummary, Problem } from '../wire';
import type { IChangeFields } from './change';
import { openFields, readChange } from './change';

/** Fields that show their own problem. */
const FIELDS = ['gpus', 'tasks', 'min_tasks', 'priority', 'max_seconds'];

/** The text that the user wrote, and the problem that the service found with it. */
export interface IRefusedChange {
  readonly fields: IChangeFields;
  readonly problem: Problem | null;
}

/** The text that the user wrote, with the change of the job, a problem with a field, or null for no change. */
export interface IWrittenChange {
  readonly fields: IChangeFields;
  readonly change: JobChange | Problem | null;
}

/** The body of a dialog. After a refusal it opens with what the user wrote, and says what is wrong. */
export class ChangeForm extends ReactWidget implements Dialog.IBodyWidget<IWrittenChange> {
  constructor(
    private readonly _job: JobSummary,
    private readonly _offer: Pick<IOffer, 'maxPriority' | 'maxSeconds'>,
    private readonly _trans: TranslationBundle,
    refused: IRefusedChange | null = null
  ) {
    super();
    this.addClass('jp-gq-send-body');
    this._fields = refused?.fields ?? openFields(_job);
    this._problem = refused?.problem ?? null;
  }

  getValue(): IWrittenChange {
    return { fields: this._fields, change: readChange(this._job, this._fields, this._offer, this._trans) };
  }

  protected render(): React.JSX.Element {
    const trans = this._trans;
    const { change } = this.getValue();
    const problem = isProblem(change) ? change : this._problem;
    const warning = isWaiting(this._job.phase) ? warnOfChange(this._job, trans) : '';
    return (
      <div className="jp-gq-send">
        <div className="jp-gq-send-fields">
          {isWaiting(this._job.phase) && this._renderSizes(problem)}
          {this._renderLimits(problem)}
          {warning !== '' && <p>{warning}</p>}
          {problem !== null && !FIELDS.includes(problem.field ?? '') && (
            <p className="jp-gq-problem" role="alert">
              {problem.message}
            </p>
          )}
        </div>
      </div>
    );
  }

  /** The fields of what changes only while the job waits. */
  private _renderSizes(problem: Problem | null): React.JSX.Element {
    const trans = this._trans;
    const { devices, tasks, minTasks } = this._fields;
    return (
      <>
        <TextField
          id="gpus"
          label={trans.__('GPUs')}
          hint={trans.__(
            'of each task: 0, a fraction such as 0.25, a whole number, or GPU memory such as 12 GiB'
          )}
          problem={problem}
          value={devices}
          onChange={written => this._set({ devices: written })}
        />
        <TextField
          id="tasks"
          label={trans.__('Tasks')}
          hint={trans.__('processes that start together, each with these GPUs')}
          placeholder="1"
          problem={problem}
          value={tasks}
          onChange={written => this._set({ tasks: written })}
        />
        <TextField
          id="min_tasks"
          label={trans.__('At least')}
          hint={trans.__('tasks to start with; the job then grows and shrinks')}
          placeholder={trans.__('all')}
          problem={problem}
          value={minTasks}
          onChange={written => this._set({ minTasks: written })}
        />
      </>
    );
  }

  /** The fields of what changes at any time. */
  private _renderLimits(problem: Problem | null): React.JSX.Element {
    const trans = this._trans;
    const { priority, maxTime } = this._fields;
    return (
      <>
        <TextField
          id="priority"
          label={trans.__('Priority')}
          hint={describePriority(this._offer, trans)}
          placeholder="0"
          problem={problem}
          value={priority}
          onChange={written => this._set({ priority: written })}
        />
        <TextField
          id="max_seconds"
          label={trans.__('Maximum time')}
          hint={describeMaxTime(this._offer.maxSeconds, trans)}
          problem={problem}
          value={maxTime}
          onChange={written => this._set({ maxTime: written })}
        />
      </>
    );
  }

  private _set(changed: Partial<IChangeFields>): void {
    this._fields = { ...this._fields, ...changed };
    this._problem = null;
    this.update();
  }

  private _fields: IChangeFields;
  private _problem: Problem | null;
}
