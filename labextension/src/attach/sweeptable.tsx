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

/** The table of a sweep under its cell: values, states and numbers, best first; live while the page is open. */
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
  const { jobs, isListed } = useJobs(sweep, training);
  const numbers = useNumbers(jobs, training);
  const rows = sortRows(sweep, jobs, numbers).filter(({ job }) => job !== null || !isListed);
  const left = rows.filter(({ job }) => job !== null && isCancellable(job)).map(({ id }) => id);
  return (
    <div className="jp-gq-sweep" role="group" aria-label={trans.__('Sweep %1', sweep.name)}>
      <div className="jp-gq-status">
        <span className="jp-gq-status-name" title={sweep.group}>
          {sweep.name}
        </span>
        <span className="jp-gq-status-sentence" role="status">
          {rows.length === 0
            ? trans.__("Its jobs are not known to you here: they may be deleted, or be somebody else's.")
            : !isListed && rows.some(({ job }) => job === null)
              ? trans._n('%1 job', '%1 jobs', rows.length)
              : describeStates(
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
      {rows.length > 0 && (
        <Rows
          rows={rows}
          metric={findMetric(sweep, numbers)}
          now={training.client.now}
          run={run}
          trans={trans}
        />
      )}
    </div>
  );
}

/** The jobs of a sweep, as far as the server knows them. */
interface IKnownJobs {
  readonly jobs: ReadonlyMap<string, JobSummary>;
  /** Whether the server has listed them: it has not, or no more, those that are missing. */
  readonly isListed: boolean;
}

const NOT_LISTED: IKnownJobs = { jobs: new Map(), isListed: false };

/** Return the jobs of a sweep: as the server lists them at first, and then as events change them. */
function useJobs({ group }: SentSweep, training: ITraining): IKnownJobs {
  const [known, setKnown] = React.useState(NOT_LISTED);
  React.useEffect(() => {
    let current = true;
    const fetchAll = (): void => {
      training.client.listGroup(group).then(
        found => current && setKnown(before => ({ jobs: updateJobs(before.jobs, found), isListed: true })),
        () => undefined // Events, and the return of the service, bring what is missing.
      );
    };
    const onJob = (_: unknown, job: JobSummary): void => {
      if (job.group === group) {
        setKnown(before => ({ ...before, jobs: new Map([...before.jobs, [job.id, job]]) }));
      }
    };
    const onState = (): void => setKnown(before => omitUnknown(before, training.state.unknown));
    training.jobChanged.connect(onJob);
    training.stateChanged.connect(onState);
    training.resumed.connect(fetchAll);
    fetchAll();
    return () => {
      current = false;
      training.jobChanged.disconnect(onJob);
      training.stateChanged.disconnect(onState);
      training.resumed.disconnect(fetchAll);
    };
  }, [group, training]);
  return known;
}

/** Return the listed jobs, each as an event has told of it if that is newer; jobs that are not listed are deleted. */
function updateJobs(
  before: ReadonlyMap<string, JobSummary>,
  listed: readonly JobSummary[]
): ReadonlyMap<string, JobSummary> {
  const kept = listed.flatMap(({ id }) => before.get(id) ?? []);
  return new Map(mergeJobs(kept, listed).map(job => [job.id, job]));
}

/** Return the same without the jobs that the server does not know any more. */
function omitUnknown(known: IKnownJobs, unknown: ReadonlySet<string>): IKnownJobs {
  const kept = [...known.jobs].filter(([id]) => !unknown.has(id));
  return kept.length === known.jobs.size ? known : { ...known, jobs: new Map(kept) };
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
  /** Seconds since the epoch. */
  now: number;
  run: Run;
  trans: TranslationBundle;
}

function Rows({ rows, metric, now, run, trans }: IRowsProps): React.JSX.Element {
  const names = [...new Set(rows.flatMap(row => Object.keys(row.values)))];
  const numbers = listNumbers(rows, metric);
  return (
    <div className="jp-gq-sweep-scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">{trans.__('State')}</th>
            {numbers.map(name => (
              <th key={`number ${name}`} scope="col" className="jp-gq-sweep-number" title={name}>
                {name}
              </th>
            ))}
            {names.map(name => (
              <th key={name} scope="col" title={name}>
                {name}
              </th>
            ))}
            <td className="jp-gq-sweep-actions" />
          </tr>
        </thead>
        <tbody>
          {rows.map(row => (
            <tr key={row.id} data-job={row.id} data-phase={row.job?.phase}>
              <td>
                <State job={row.job} now={now} trans={trans} />
              </td>
              {numbers.map(name => (
                <td key={name} className="jp-gq-sweep-number">
                  {name in row.numbers ? formatNumber(row.numbers[name]) : ''}
                </td>
              ))}
              {names.map(name => (
                <td key={name} title={row.values[name]}>
                  <code>{row.values[name] ?? ''}</code>
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
function State({
  job,
  now,
  trans
}: { job: JobSummary | null } & Pick<IRowsProps, 'now' | 'trans'>): React.JSX.Element {
  if (job === null) {
    return <span className="jp-gq-hint">{trans.__('unknown')}</span>;
  }
  return (
    <span className="jp-gq-sweep-state" title={describeJob(job, now, trans)}>
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
}: { row: ISweepRow } & Omit<IRowsProps, 'rows' | 'metric' | 'now'>): React.JSX.Element {
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
