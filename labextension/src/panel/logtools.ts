/** The tools above the log of a job: the choice of a task, the search, and the download. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { downloadIcon, ToolbarButton } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import type { Client } from '../client';
import { LONGEST_TEXT } from '../logs';
import type { LogView } from './log';

/** Return a widget that chooses the task whose log is shown, for a job of several tasks. */
export function makeTaskChoice(view: LogView, tasks: number, trans: TranslationBundle): Widget {
  const choice = document.createElement('select');
  choice.setAttribute('aria-label', trans.__('Task'));
  choice.append(new Option(trans.__('All tasks'), ''));
  for (let task = 0; task < tasks; task++) {
    choice.append(new Option(trans.__('Task %1', task), String(task)));
  }
  choice.onchange = () => void view.showTask(choice.value === '' ? null : Number(choice.value));
  const widget = new Widget();
  widget.addClass('jp-gq-log-task');
  widget.node.append(choice);
  return widget;
}

/** Return a field that searches the whole log when the user presses Enter; an empty field shows the end again. */
export function makeLogSearch(view: LogView, trans: TranslationBundle): Widget {
  const field = document.createElement('input');
  field.type = 'search';
  field.maxLength = LONGEST_TEXT;
  field.placeholder = trans.__('Search the log');
  field.setAttribute('aria-label', trans.__('Search the whole log; Enter begins'));
  field.onchange = () => void view.search(field.value);
  field.oninput = () => {
    if (field.value === '') {
      void view.search('');
    }
  };
  const widget = new Widget();
  widget.addClass('jp-gq-log-search');
  widget.node.append(field);
  return widget;
}

/** Return a button that downloads the whole log, or that of the task that is shown. */
export function makeLogDownload(view: LogView, client: Client, trans: TranslationBundle): Widget {
  return new ToolbarButton({
    icon: downloadIcon,
    tooltip: trans.__('Download the whole log'),
    onClick: () => {
      const link = document.createElement('a');
      link.href = client.getLogUrl(view.job, view.task);
      link.download = '';
      link.click();
    }
  });
}
