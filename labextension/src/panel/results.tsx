/** What a finished job brings back: the list is fetched once, and shown when it is there. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Client } from '../client';
import { describeFile, describeReasons, describeVariables, listLoadable } from '../results';
import type { JobResults, JobSummary } from '../wire';
import { Action } from './parts';

export interface IResultsProps {
  job: JobSummary;
  client: Client;
  onLoad: () => void;
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

/** The variables of a job, in the line under its cell. */
export function BroughtBack({ job, client, onLoad, trans }: IResultsProps): React.JSX.Element | null {
  const results = useResults(client, job.id, job.phase === 'done' && job.returns.length > 0);
  if (results === null || results.variables.length === 0) {
    return null;
  }
  return (
    <>
      <span className="jp-gq-status-results" title={describeReasons(results).join('\n')}>
        {describeVariables(results, trans)}
      </span>
      {listLoadable(results).length > 0 && (
        <Action
          label={trans.__('Load into notebook')}
          about={trans.__('from job %1', job.name)}
          onClick={onLoad}
        />
      )}
    </>
  );
}

/** The files of a job with links for their download, and the reasons of variables that did not come back. */
export function ResultList({ job, client, onLoad, trans }: IResultsProps): React.JSX.Element | null {
  const results = useResults(client, job.id, job.finished_at !== null);
  if (results === null) {
    return null;
  }
  return (
    <section
      className="jp-gq-results"
      aria-label={trans.__('Results of %1', job.name || trans.__('unnamed job'))}
    >
      {results.variables.length > 0 && <p>{describeVariables(results, trans)}</p>}
      {describeReasons(results).map(reason => (
        <p className="jp-gq-note" key={reason}>
          {reason}
        </p>
      ))}
      {listLoadable(results).length > 0 && (
        <Action
          label={trans.__('Load into notebook')}
          about={trans.__('from %1', job.name)}
          onClick={onLoad}
        />
      )}
      {results.files.length > 0 && (
        <ul className="jp-gq-files" aria-label={trans.__('Files')}>
          {results.files.map(file => (
            <li key={file.path}>
              {file.reason === '' ? (
                <a href={client.getFileUrl(job.id, file.path)} download={file.path.split('/').pop()}>
                  {file.path}
                </a>
              ) : (
                file.path
              )}{' '}
              <span className="jp-gq-hint">{describeFile(file)}</span>
            </li>
          ))}
        </ul>
      )}
      {results.omitted_files > 0 && <p>{trans.__('%1 more files are not listed.', results.omitted_files)}</p>}
    </section>
  );
}
