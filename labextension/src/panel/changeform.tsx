/** The form in which the owner of a waiting job asks for other GPUs and other numbers of tasks. */

import type { Dialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { isProblem } from '../client';
import { warnOfChange } from '../jobs';
import { TextField } from '../send/field';
import type { JobChange, JobSummary, Problem } from '../wire';
import type { IChangeFields } from './change';
import { openFields, readChange } from './change';

/** The body of a dialog; its value is the change of the job, a problem with a field, or null for no change. */
export class ChangeForm extends ReactWidget implements Dialog.IBodyWidget<JobChange | Problem | null> {
  constructor(
    private readonly _job: JobSummary,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-gq-send-body');
    this._fields = openFields(_job);
  }

  getValue(): JobChange | Problem | null {
    return readChange(this._job, this._fields, this._trans);
  }

  protected render(): React.JSX.Element {
    const trans = this._trans;
    const value = this.getValue();
    const problem = isProblem(value) ? value : null;
    const warning = warnOfChange(this._job, trans);
    const { devices, tasks, minTasks } = this._fields;
    return (
      <div className="jp-gq-send">
        <div className="jp-gq-send-fields">
          <TextField
            id="gpus"
            label={trans.__('GPUs')}
            hint={trans.__(
              'of each task: 0, a fraction such as 0.25, a whole number, or GPU memory such as 12 GB'
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
          {warning !== '' && <p>{warning}</p>}
        </div>
      </div>
    );
  }

  private _set(changed: Partial<IChangeFields>): void {
    this._fields = { ...this._fields, ...changed };
    this.update();
  }

  private _fields: IChangeFields;
}
