/** The section of the send dialog about files, closed until the user opens it: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Caret } from '../panel/parts';
import { formatBytes } from '../results';
import type { FilesPlan, PlannedFile, Problem } from '../wire';
import { TextField } from './field';
import type { IFileChoice } from './files';
import { listUnreached, summarizeFiles, toggleFile } from './files';
import { useUnfolded } from './section';

export interface IFilesProps {
  /** What the server proposes; null until it has answered. */
  files: FilesPlan | null;
  fileChoice: IFileChoice;
  problem: Problem | null;
  sending: boolean;
  onFiles: (choice: IFileChoice) => void;
  trans: TranslationBundle;
}

export function Files(props: IFilesProps): React.JSX.Element | null {
  const { files, fileChoice, problem, onFiles, trans } = props;
  // An earlier release of the server does not send the notes on patterns.
  const notes = files?.pattern_notes ?? [];
  const [open, toggle] = useUnfolded(problem?.field === 'file_patterns' || notes.length > 0);
  if (files === null) {
    return null;
  }
  return (
    <section className="jp-gq-extras" aria-label={trans.__('Files')}>
      <button
        type="button"
        className="jp-gq-extras-head"
        aria-expanded={open}
        aria-controls="jp-gq-send-files"
        onClick={toggle}
      >
        <Caret open={open} />
        {trans.__('Files')}
        <span className="jp-gq-hint">{summarizeFiles(files, fileChoice, trans)}</span>
      </button>
      {listUnreached(files).map(message => (
        <p className="jp-gq-note" key={message}>
          {message}
        </p>
      ))}
      <div id="jp-gq-send-files" hidden={!open}>
        <Going {...props} going={files.going} />
        <Staying {...files} />
        <div className="jp-gq-send-fields">
          <TextField
            id="file_patterns"
            label={trans.__('Also take')}
            hint={trans.__('patterns such as *.yaml or conf/')}
            maxLength={1000}
            value={fileChoice.patterns}
            problem={problem}
            notes={notes}
            onChange={patterns => onFiles({ ...fileChoice, patterns })}
          />
        </div>
        <LiveFolder {...props} />
      </div>
    </section>
  );
}

/** The choice to run in the notebook's own folder. */
function LiveFolder({ fileChoice, sending, onFiles, trans }: IFilesProps): React.JSX.Element {
  return (
    <label className="jp-gq-hint jp-gq-live-folder">
      <input
        type="checkbox"
        checked={fileChoice.live}
        disabled={sending}
        onChange={() => onFiles({ ...fileChoice, live: !fileChoice.live })}
      />
      <span>
        {trans.__('Run in the live folder of the notebook: no file goes along, and later edits count')}
      </span>
    </label>
  );
}

/** The list of files that go along, with ticks; nothing if there are none. */
function Going({
  going,
  fileChoice,
  sending,
  onFiles,
  trans
}: Omit<IFilesProps, 'files'> & Pick<FilesPlan, 'going'>): React.JSX.Element | null {
  return going.length === 0 ? null : (
    <ul className="jp-gq-replay" aria-label={trans.__('Files that go along')}>
      {going.map(file => (
        <FileRow
          key={file.path}
          file={file}
          goes={!fileChoice.leftOut.has(file.path)}
          disabled={sending}
          onToggle={() => onFiles(toggleFile(fileChoice, file.path))}
          trans={trans}
        />
      ))}
    </ul>
  );
}

/** The files that stay and are read where they are, and sentences on the folder of the job. */
function Staying({ staying, notes }: Pick<FilesPlan, 'staying' | 'notes'>): React.JSX.Element {
  return (
    <>
      {staying
        .filter(file => file.reached)
        .map(file => (
          <p className="jp-gq-hint" key={file.path}>
            <code>{file.path}</code>
            {file.bytes === null ? ' ' : ` (${formatBytes(file.bytes)}) `}
            {file.message}
          </p>
        ))}
      {notes.map(note => (
        <p className="jp-gq-hint" key={note}>
          {note}
        </p>
      ))}
    </>
  );
}

/** Return why a file goes along. */
function explainFile(why: PlannedFile['why'], trans: TranslationBundle): string {
  const reasons: Record<PlannedFile['why'], string> = {
    imported: trans.__('is imported'),
    opened: trans.__('is named in the code'),
    pattern: trans.__('fits your pattern')
  };
  return reasons[why];
}

interface IFileRowProps {
  file: PlannedFile;
  goes: boolean;
  disabled: boolean;
  onToggle: () => void;
  trans: TranslationBundle;
}

function FileRow({ file, goes, disabled, onToggle, trans }: IFileRowProps): React.JSX.Element {
  return (
    <li className={goes ? '' : 'jp-gq-mod-left-out'} onClick={disabled ? undefined : onToggle}>
      <input
        type="checkbox"
        aria-label={trans.__('Take %1 along', file.path)}
        checked={goes}
        disabled={disabled}
        onChange={onToggle}
        onClick={event => event.stopPropagation()}
      />
      <span className="jp-gq-replay-what">
        <code title={file.path}>{file.path}</code>{' '}
        <span className="jp-gq-hint">{explainFile(file.why, trans)}</span>
      </span>
      <span className="jp-gq-replay-time">{formatBytes(file.bytes)}</span>
    </li>
  );
}
