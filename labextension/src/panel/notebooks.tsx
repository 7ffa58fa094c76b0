/** The list of the user's notebook servers and their shares: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { formatGpus } from '../amounts';
import { describeNotebook, formatServerName, lookOfNotebook } from '../jobs';
import { formatLevel } from '../live/share';
import type { NotebookView } from '../wire';
import { Age, PhaseTag } from './parts';

export interface INotebooksProps {
  notebooks: readonly NotebookView[];
  /** Id of the notebook that this page belongs to; null if it holds no share. */
  here: string | null;
  /** Seconds since the epoch. */
  now: number;
  trans: TranslationBundle;
}

export function Notebooks({ notebooks, here, now, trans }: INotebooksProps): React.JSX.Element {
  if (notebooks.length === 0) {
    return (
      <p className="jp-gq-empty">
        {trans.__(
          'None of your notebook servers holds a share of a GPU. Choose a share when you start a server.'
        )}
      </p>
    );
  }
  return (
    <ul className="jp-gq-list" aria-label={trans.__('Notebooks')}>
      {notebooks.map(notebook => (
        <NotebookRow
          key={notebook.id}
          notebook={notebook}
          isHere={notebook.id === here}
          now={now}
          trans={trans}
        />
      ))}
    </ul>
  );
}

interface IRowProps {
  notebook: NotebookView;
  isHere: boolean;
  now: number;
  trans: TranslationBundle;
}

function NotebookRow({ notebook, isHere, now, trans }: IRowProps): React.JSX.Element {
  const look = lookOfNotebook(notebook.phase, trans);
  const name = formatServerName(notebook, trans);
  const sentence = describeNotebook(notebook, now, trans);
  const where = [notebook.model, ...notebook.devices].filter(part => part !== null).join(' · ');
  return (
    <li
      className="jp-gq-row jp-gq-row-flat"
      aria-label={`${name}, ${look.word}, ${formatGpus(notebook.gpus, trans)}`}
    >
      <div className="jp-gq-row-line">
        <span className="jp-gq-row-name" title={where || name}>
          {name}
          {isHere && <span className="jp-gq-here">{trans.__('here')}</span>}
        </span>
        <span className="jp-gq-row-amount" title={formatLevel(notebook, trans)}>
          {formatGpus(notebook.gpus, trans)}
        </span>
        <PhaseTag look={look} />
        <span className="jp-gq-row-sentence" title={sentence}>
          {sentence}
        </span>
        <Age instant={notebook.started_at ?? notebook.submitted_at} now={now} trans={trans} />
      </div>
    </li>
  );
}
