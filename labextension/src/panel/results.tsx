/** The results of a job: the list is fetched once, and shown when it is there. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Client } from '../client';
import { describeFile, describeReasons, describeVariables, listCopyable, listLoadable } from '../results';
import type { ILoadedVariables } from '../tokens';
import type { JobResults, JobSummary, ResultFile } from '../wire';
import { Action, useSignal } from './parts';

export interface IResultsProps {
  job: JobSummary;
  client: Client;
  /** What is in the kernels of the notebooks. */
  loaded: ILoadedVariables;
  /** Load the variables. */
  onLoad: () => void;
  /** Copy a file beside the notebook, or all files. */
  onCopy: (path?: string) => void;
  trans: TranslationBundle;
}

/** Return the results of a job; null while they are not known, and if there are none. */
function useResults(client: Client, job: string, wanted: boolean): JobResults | null {
  const [results, setResults] = React.useState<JobResults | null>(null);
  React.useEffect(() => {
    let current = true;
    if (wanted) {
      client.getResults(job).then(
        found => current && setResults(found),
        () => undefined // The details and the command that loads say what is wrong.
      );
    }
    return () => {
      current = false;
    };
  }, [client, job, wanted]);
  return results;
}

/** Return whether all variables that can be loaded are in the notebook of the job. */
function useIsLoaded(loaded: ILoadedVariables, job: JobSummary, results: JobResults | null): boolean {
  const names = results === null ? [] : listLoadable(results).map(variable => variable.name);
  return useSignal(loaded.changed, () => names.length > 0 && loaded.hasAll(job, names));
}

/** The results of a job in the line under its cell: its variables, and how many files it wrote. */
export function BroughtBack(props: IResultsProps): React.JSX.Element | null {
  const { job, client, loaded, onLoad, onCopy, trans } = props;
  const results = useResults(client, job.id, job.finished_at !== null);
  const isLoaded = useIsLoaded(loaded, job, results);
  if (results === null) {
    return null;
  }
  const files = listCopyable(results).length;
  const parts = [
    describeVariables(results, isLoaded, trans),
    files === 0 ? '' : trans._n('%1 file', '%1 files', files),
    results.omitted_files === 0 ? '' : trans.__('%1 more are not listed', results.omitted_files)
  ];
  return (
    <>
      {parts.some(part => part !== '') && (
        <span className="jp-gq-status-results" title={describeReasons(results).join('\n')}>
          {parts.filter(part => part !== '').join('; ')}
        </span>
      )}
      {listLoadable(results).length > 0 && (
        <Load isLoaded={isLoaded} about={trans.__('from job %1', job.name)} onLoad={onLoad} trans={trans} />
      )}
      {files > 0 && (
        <CopyAll
          job={job.id}
          client={client}
          files={files}
          about={trans.__('of job %1', job.name)}
          onCopy={onCopy}
          trans={trans}
        />
      )}
    </>
  );
}

interface ILoadProps {
  isLoaded: boolean;
  about: string;
  onLoad: () => void;
  trans: TranslationBundle;
}

/** The button that loads the variables of a job, also once more: a restart of the kernel takes them away. */
function Load({ isLoaded, about, onLoad, trans }: ILoadProps): React.JSX.Element {
  const label = isLoaded ? trans.__('Load again') : trans.__('Load into notebook');
  return <Action label={label} about={about} onClick={onLoad} />;
}

interface ICopyAllProps {
  /** The id of the job. */
  job: string;
  client: Client;
  files: number;
  about: string;
  onCopy: () => void;
  trans: TranslationBundle;
}

/** The button that copies all files of a job, also once more: a copy may have been changed. */
function CopyAll({ job, client, files, about, onCopy, trans }: ICopyAllProps): React.JSX.Element {
  const isCopied = useSignal(client.copiedChanged, () => client.hasCopied(job));
  return (
    <Action
      label={
        isCopied
          ? trans.__('Copy again')
          : trans._n('Copy file beside the notebook', 'Copy files beside the notebook', files)
      }
      about={about}
      title={trans.__(
        'Into the folder of the notebook. You are asked before a file that differs is replaced.'
      )}
      onClick={() => onCopy()}
    />
  );
}

interface IResultListProps extends IResultsProps {
  /** Copy a file beside the notebook, and open the copy. */
  onOpen: (path: string) => void;
}

/** The files of a job with links for their download, and the reasons of variables that did not come back. */
export function ResultList(props: IResultListProps): React.JSX.Element | null {
  const { job, client, loaded, onLoad, onCopy, onOpen, trans } = props;
  const results = useResults(client, job.id, job.finished_at !== null);
  const isLoaded = useIsLoaded(loaded, job, results);
  if (results === null) {
    return null;
  }
  return (
    <section
      className="jp-gq-results"
      aria-label={trans.__('Results of %1', job.name || trans.__('unnamed job'))}
    >
      {results.variables.length > 0 && <p>{describeVariables(results, isLoaded, trans)}</p>}
      {describeReasons(results).map(reason => (
        <p className="jp-gq-note" key={reason}>
          {reason}
        </p>
      ))}
      {listLoadable(results).length > 0 && (
        <Load isLoaded={isLoaded} about={trans.__('from %1', job.name)} onLoad={onLoad} trans={trans} />
      )}
      {results.files.length > 0 && (
        <ul className="jp-gq-files" aria-label={trans.__('Files')}>
          {results.files.map(file => (
            <FileLine
              key={file.path}
              file={file}
              url={client.getFileUrl(job.id, file.path)}
              onCopy={() => onCopy(file.path)}
              onOpen={() => onOpen(file.path)}
              trans={trans}
            />
          ))}
        </ul>
      )}
      {listCopyable(results).length > 1 && (
        <CopyAll
          job={job.id}
          client={client}
          files={listCopyable(results).length}
          about={trans.__('of %1', job.name)}
          onCopy={onCopy}
          trans={trans}
        />
      )}
      <Unlisted count={results.omitted_files} trans={trans} />
    </section>
  );
}

/** The number of files that the list leaves out; nothing if it names all. */
function Unlisted({ count, trans }: { count: number; trans: TranslationBundle }): React.JSX.Element | null {
  return count === 0 ? null : (
    <p>
      {trans.__(
        '%1 more files are not listed. On one machine, copy them by name in a terminal or in Python; a cluster keeps no others.',
        count
      )}
    </p>
  );
}

interface IFileLineProps {
  file: ResultFile;
  url: string;
  onCopy: () => void;
  onOpen: () => void;
  trans: TranslationBundle;
}

/** A file of a job: its download and its size, and if its content was kept, what can be done with it. */
function FileLine({ file, url, onCopy, onOpen, trans }: IFileLineProps): React.JSX.Element {
  const hint = <span className="jp-gq-hint">{describeFile(file)}</span>;
  if (file.reason !== '') {
    return (
      <li>
        {file.path} {hint}
      </li>
    );
  }
  return (
    <li>
      <a href={url} download={file.path.split('/').pop()}>
        {file.path}
      </a>{' '}
      {hint}{' '}
      <Action
        label={trans.__('Open')}
        about={file.path}
        title={trans.__('Copy the file beside the notebook, and open the copy.')}
        onClick={onOpen}
      />
      <Action label={trans.__('Copy beside the notebook')} about={file.path} onClick={onCopy} />
    </li>
  );
}
