import type { TranslationBundle } from '@jupyterlab/translation';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { describeJob, isCancellable, lookOf, mergeJobs } from '../jobs';
import { Action, PhaseTag, ProgressBar } from '../panel/parts';
import type { ITraining } from '../tokens';
import { CommandIDs } from '../tokens';
import type { JobSummary, SentSweep } from '../wire';
import type { ISweepRow, Numbers } from './sweep';
import {
  describeStates,
  findMetric,
  formatNumber,
  listNumbers,
  readNumbers,
  readSweep,
  sortRows
} from './sweep';

/** The table of a sweep under its cell: values, states and numbers, best first. It is live while the page is open. */
export class SweepRenderer extends ReactWidget implements IRenderMime.IRenderer {
  constructor(
    private readonly _training: ITraining,
    private readonly _commands: CommandRegistry,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-gq-status-host');
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._sweep = readSweep(model.data);
    this.update();
    return Promise.resolve();
  }

  protected render(): React.JSX.Element {
    if (this._sweep === null) {
      return <span>{this._trans.__('This version of the extension cannot show this sweep.')}</span>;
    }
    const run = (command: string, args: { job: string } | { jobs: string[] }): void => {
      void this._commands.execute(command, args);
    };
    return <LiveSweep sweep={this._sweep} training={this._training} run={run} trans={this._trans} />;
  }

  private _sweep: SentSweep | null = null;
}

type Run = (command: string, args: { job: string } | { jobs: string[] }) => void;

interface ILiveSweepProps {
  sweep: SentSweep;
  training: ITraining;
  run: Run;
  trans: TranslationBundle;
}

function LiveSweep({ sweep, training, run, trans }: ILiveSweepProps): React.JSX.Element {
  const jobs = useJobs(sweep, training);
  const numbers = useNumbers(jobs, training);
  const rows = sortRows(sweep, jobs, numbers);
  const left = rows.filter(({ job }) => job !== null && isCancellable(job)).map(({ id }) => id);
  return (
    <div className="jp-gq-sweep" role="group" aria-label={trans.__('Sweep %1', sweep.name)}>
      <div className="jp-gq-status">
        <span className="jp-gq-status-name" title={sweep.group}>
          {sweep.name}
        </span>
        <span className="jp-gq-status-sentence" role="status">
          {describeStates(
            rows.map(({ job }) => job),
            trans
          )}
        </span>
        <span className="jp-gq-status-actions">
          {left.length > 0 && (
            <Action
              label={trans.__('Cancel the rest')}
              about={trans.__('of sweep %1', sweep.name)}
              onClick={() => run(CommandIDs.cancelJobs, { jobs: left })}
            />
          )}
        </span>
      </div>
      <Rows rows={rows} metric={findMetric(sweep, numbers)} run={run} trans={trans} />
    </div>
  );
}

/** Return the jobs of a sweep by id: as the server knows them at first, and then as events change them. */
function useJobs(sweep: SentSweep, training: ITraining): ReadonlyMap<string, JobSummary> {
  const [jobs, setJobs] = React.useState<ReadonlyMap<string, JobSummary>>(new Map());
  const { group } = sweep;
  React.useEffect(() => {
    let current = true;
    const add = (found: readonly JobSummary[]): void =>
      setJobs(before => new Map(mergeJobs([...before.values()], found).map(job => [job.id, job])));
    const fetchAll = (): void => {
      training.client.listGroup(group).then(
        found => current && add(found),
        () => undefined // Events, and the return of the service, bring what is missing.
      );
    };
    const onJob = (_: unknown, job: JobSummary): void => {
      if (job.group === group) {
        add([job]);
      }
    };
    training.jobChanged.connect(onJob);
    training.resumed.connect(fetchAll);
    fetchAll();
    return () => {
      current = false;
      training.jobChanged.disconnect(onJob);
      training.resumed.disconnect(fetchAll);
    };
  }, [group, training]);
  return jobs;
}

/** Return the numbers of the jobs that are done, by job; each job is asked for them once. */
function useNumbers(
  jobs: ReadonlyMap<string, JobSummary>,
  training: ITraining
): ReadonlyMap<string, Numbers> {
  const [numbers, setNumbers] = React.useState<ReadonlyMap<string, Numbers>>(new Map());
  const asked = React.useRef(new Set<string>());
  React.useEffect(() => {
    for (const { id, phase } of jobs.values()) {
      if (phase === 'done' && !asked.current.has(id)) {
        asked.current.add(id);
        training.client.getResults(id).then(
          ({ variables }) => {
            setNumbers(before => new Map([...before, [id, readNumbers(variables)]]));
          },
          () => asked.current.delete(id) // The next change of a job asks again.
        );
      }
    }
  }, [jobs, training]);
  return numbers;
}

interface IRowsProps {
  rows: readonly ISweepRow[];
  metric: string;
  run: Run;
  trans: TranslationBundle;
}

function Rows({ rows, metric, run, trans }: IRowsProps): React.JSX.Element {
  const names = [...new Set(rows.flatMap(row => Object.keys(row.values)))];
  const numbers = listNumbers(rows, metric);
  return (
    <div className="jp-gq-sweep-scroll">
      <table>
        <thead>
          <tr>
            {[...names, trans.__('State')].map(name => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
            {numbers.map(name => (
              <th key={`number ${name}`} scope="col" className="jp-gq-sweep-number">
                {name}
              </th>
            ))}
            <td />
          </tr>
        </thead>
        <tbody>
          {rows.map(row => (
            <tr key={row.id} data-job={row.id} data-phase={row.job?.phase}>
              {names.map(name => (
                <td key={name}>
                  <code>{row.values[name] ?? ''}</code>
                </td>
              ))}
              <td>
                <State job={row.job} trans={trans} />
              </td>
              {numbers.map(name => (
                <td key={name} className="jp-gq-sweep-number">
                  {name in row.numbers ? formatNumber(row.numbers[name]) : ''}
                </td>
              ))}
              <td className="jp-gq-sweep-actions">
                <RowActions row={row} run={run} trans={trans} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The state of a job, with its sentence on hover and its progress while it runs. */
function State({ job, trans }: { job: JobSummary | null; trans: TranslationBundle }): React.JSX.Element {
  if (job === null) {
    return <span className="jp-gq-hint">{trans.__('unknown')}</span>;
  }
  return (
    <span className="jp-gq-sweep-state" title={describeJob(job, Date.now() / 1000, trans)}>
      <PhaseTag look={lookOf(job, trans)} />
      {job.phase === 'running' && (
        <ProgressBar fraction={job.progress?.fraction ?? null} label={trans.__('Progress')} />
      )}
    </span>
  );
}

function RowActions({
  row,
  run,
  trans
}: { row: ISweepRow } & Omit<IRowsProps, 'rows' | 'metric'>): React.JSX.Element {
  const about = Object.entries(row.values)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
  return (
    <>
      <Action
        label={trans.__('Log')}
        about={about}
        onClick={() => run(CommandIDs.openLog, { job: row.id })}
      />
      <Action
        label={trans.__('Details')}
        about={about}
        onClick={() => run(CommandIDs.showJob, { job: row.id })}
      />
    </>
  );
}
