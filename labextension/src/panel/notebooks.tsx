/** The user's notebook servers and their shares: props in, no requests. */

import * as React from 'react';

import { gpuWords } from '../amounts';
import { NOTEBOOK_LOOKS, notebookLine, serverName } from '../jobs';
import type { NotebookView } from '../wire';
import { Age, PhaseTag } from './parts';

export interface INotebooksProps {
  notebooks: readonly NotebookView[];
  /** Id of the one that this page belongs to. */
  here: string | null;
  now: number;
}

export function Notebooks({ notebooks, here, now }: INotebooksProps): React.JSX.Element {
  if (notebooks.length === 0) {
    return (
      <p className="jp-gq-empty">
        No notebook server of yours holds a share of a GPU. Take one when you start a server.
      </p>
    );
  }
  return (
    <ul className="jp-gq-list" aria-label="Notebooks">
      {notebooks.map(notebook => (
        <NotebookRow key={notebook.id} notebook={notebook} isHere={notebook.id === here} now={now} />
      ))}
    </ul>
  );
}

interface IRowProps {
  notebook: NotebookView;
  isHere: boolean;
  now: number;
}

function NotebookRow({ notebook, isHere, now }: IRowProps): React.JSX.Element {
  const look = NOTEBOOK_LOOKS[notebook.phase];
  const name = serverName(notebook);
  const sentence = notebookLine(notebook, now);
  const where = [notebook.model, ...notebook.devices].filter(part => part !== null).join(' · ');
  return (
    <li className="jp-gq-row jp-gq-row-flat" aria-label={`${name}, ${look.word}, ${gpuWords(notebook.gpus)}`}>
      <div className="jp-gq-row-line">
        <span className="jp-gq-row-name" title={where || name}>
          {name}
          {isHere && <span className="jp-gq-here">here</span>}
        </span>
        <span className="jp-gq-row-amount">{gpuWords(notebook.gpus)}</span>
        <PhaseTag look={look} />
        <span className="jp-gq-row-sentence" title={sentence}>
          {sentence}
        </span>
        <Age instant={notebook.started_at ?? notebook.submitted_at} now={now} />
      </div>
    </li>
  );
}
