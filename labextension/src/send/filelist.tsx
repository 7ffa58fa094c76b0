/** The section of the send dialog about files, closed until the user opens it: props in, no requests. */

import * as React from 'react';

import { Caret } from '../panel/parts';
import { formatBytes } from '../results';
import type { FilesPlan, PlannedFile, Problem } from '../wire';
import { TextField } from './field';
import type { IFileChoice } from './files';
import { listUnreached, summarizeFiles, toggleFile } from './files';

export interface IFilesProps {
  /** What the server proposes; null until it has answered. */
  files: FilesPlan | null;
  fileChoice: IFileChoice;
  problem: Problem | null;
  sending: boolean;
  onFiles: (choice: IFileChoice) => void;
}

export function Files(props: IFilesProps): React.JSX.Element | null {
  const { files, fileChoice, problem, onFiles } = props;
  const [open, setOpen] = React.useState(false);
  if (files === null) {
    return null;
  }
  return (
    <section className="jp-gq-extras" aria-label="Files">
      <button
        type="button"
        className="jp-gq-extras-head"
        aria-expanded={open}
        aria-controls="jp-gq-send-files"
        onClick={() => setOpen(!open)}
      >
        <Caret open={open} />
        Files
        <span className="jp-gq-hint">{summarizeFiles(files, fileChoice)}</span>
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
            label="Also take"
            hint="patterns such as *.yaml or conf/"
            maxLength={1000}
            value={fileChoice.patterns}
            problem={problem}
            onChange={patterns => onFiles({ ...fileChoice, patterns })}
          />
        </div>
        <LiveFolder {...props} />
      </div>
    </section>
  );
}

/** The choice to run in the notebook's own folder. */
function LiveFolder({ fileChoice, sending, onFiles }: IFilesProps): React.JSX.Element {
  return (
    <label className="jp-gq-hint jp-gq-live-folder">
      <input
        type="checkbox"
        checked={fileChoice.live}
        disabled={sending}
        onChange={() => onFiles({ ...fileChoice, live: !fileChoice.live })}
      />
      Run in the live folder of the notebook: no file goes along, and later edits count
    </label>
  );
}

/** The list of files that go along, with ticks; nothing if there are none. */
function Going({
  going,
  fileChoice,
  sending,
  onFiles
}: Omit<IFilesProps, 'files'> & Pick<FilesPlan, 'going'>): React.JSX.Element | null {
  return going.length === 0 ? null : (
    <ul className="jp-gq-replay" aria-label="Files that go along">
      {going.map(file => (
        <FileRow
          key={file.path}
          file={file}
          goes={!fileChoice.leftOut.has(file.path)}
          disabled={sending}
          onToggle={() => onFiles(toggleFile(fileChoice, file.path))}
        />
      ))}
    </ul>
  );
}

/** What stays and is read where it is, and sentences on the folder of the job. */
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

const REASONS: Readonly<Record<PlannedFile['why'], string>> = {
  imported: 'is imported',
  opened: 'is named in the code',
  pattern: 'fits your pattern'
};

interface IFileRowProps {
  file: PlannedFile;
  goes: boolean;
  disabled: boolean;
  onToggle: () => void;
}

function FileRow({ file, goes, disabled, onToggle }: IFileRowProps): React.JSX.Element {
  return (
    <li className={goes ? '' : 'jp-gq-mod-left-out'} onClick={disabled ? undefined : onToggle}>
      <input
        type="checkbox"
        aria-label={`Take ${file.path} along`}
        checked={goes}
        disabled={disabled}
        onChange={onToggle}
        onClick={event => event.stopPropagation()}
      />
      <span className="jp-gq-replay-what">
        <code title={file.path}>{file.path}</code> <span className="jp-gq-hint">{REASONS[file.why]}</span>
      </span>
      <span className="jp-gq-replay-time">{formatBytes(file.bytes)}</span>
    </li>
  );
}
