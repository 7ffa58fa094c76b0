/** The fields for the numbers of tasks of a job: how they become a request and are summarized. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { trimBlanks } from '../plain';
import type { JobRequest, Problem } from '../wire';

/** The text in the fields; "" means that the user left the field empty. */
export interface ITaskFields {
  readonly tasks: string;
  readonly minTasks: string;
}

/** The most tasks that the service accepts. */
const MOST_TASKS = 64;

/** Return the numbers of tasks in the fields, or the problem of a text that is no such number. */
export function readTaskFields(
  fields: ITaskFields,
  trans: TranslationBundle
): Pick<JobRequest, 'tasks' | 'min_tasks'> | Problem {
  const tasks = readTasks(fields.tasks);
  if (tasks === null) {
    const message = trans.__('Tasks: write a whole number from 1 to %1.', MOST_TASKS);
    return { code: 'invalid_tasks', field: 'tasks', message };
  }
  const least = trimBlanks(fields.minTasks) === '' ? null : readTasks(fields.minTasks);
  if (trimBlanks(fields.minTasks) !== '' && (least === null || least > tasks)) {
    const message = trans.__('At least: write a whole number from 1 to %1, the number of tasks.', tasks);
    return { code: 'invalid_tasks', field: 'min_tasks', message };
  }
  return { tasks, min_tasks: least };
}

/** Return the number of tasks in a field, 1 for an empty field, or null for a text that is no such number. */
function readTasks(text: string): number | null {
  const written = trimBlanks(text) || '1';
  const tasks = /^\d{1,3}$/.test(written) ? Number(written) : 0;
  return tasks >= 1 && tasks <= MOST_TASKS ? tasks : null;
}

/** Return the tasks in the fields, such as "4 tasks" or "2 to 4 tasks"; null if both are as usual. */
export function summarizeTasks(fields: ITaskFields, trans: TranslationBundle): string | null {
  const [least, most] = [trimBlanks(fields.minTasks), trimBlanks(fields.tasks)];
  if (least !== '') {
    return trans.__('%1 to %2 tasks', least, most || '1');
  }
  return readTasks(most) === 1 ? null : trans.__('%1 tasks', most);
}
