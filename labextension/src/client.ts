/** The client of the Jupyter server that this page came from. No other file knows the addresses of its routes. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { isLost, LOGGED_OUT, readProblem, STOPPED_OR_LOGGED_OUT } from './hub';
import type {
  AlreadySent,
  Announcement,
  CancelledJobs,
  Captured,
  CaptureRequest,
  CellsRequest,
  CopyConflict,
  CopyNews,
  CopyRequest,
  JobChange,
  JobList,
  JobLog,
  JobRequest,
  JobResults,
  JobSummary,
  JobUsage,
  JobView,
  KernelHistory,
  LogLines,
  Me,
  NotebookList,
  NotebookView,
  OutputPage,
  Plan,
  Preview,
  Problem,
  QueueList,
  QueueView,
  ResultPath,
  SameFile,
  SendRequest,
  SentSweep,
  ServerStatus,
  SweepRequest
} from './wire';

const NAMESPACE = 'jupyter-gq';
/** Jobs of a group in one answer: the most that the service gives. */
const GROUP_PAGE = 500;

/** Milliseconds after which a request without an answer counts as slow: people wonder after three seconds. */
export const PATIENCE = 2500;

/** Seconds between two clocks that count: a server writes whole seconds, and its answers take a while. */
const LEAST_SKEW = 60;

/** A request that was answered with a problem, or could not be sent. `status` is 0 if there was no answer. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
    /** The files beside the notebook that differ; null if the request was refused for another reason. */
    readonly conflict: CopyConflict | null = null,
    /** Jobs of the same cell that another page has sent; none if the request was refused for another reason. */
    readonly otherJobs: readonly string[] = []
  ) {
    super(problem.message);
    this.name = 'RequestError';
  }
}

/** Return whether a request failed because the service does not know what it names, or no more. */
export function isMissing(reason: unknown): boolean {
  return (
    reason instanceof RequestError && reason.status === 404 && reason.problem.code !== 'extension_missing'
  );
}

/** A place in the log of a task: a byte, and the number of the line that begins there. */
export interface ILogPlace {
  readonly task: number;
  readonly start: number;
  readonly line: number;
}

/** Return the message of an error, or the text of any other thrown value. */
export function describeError(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

/** Tell whether a value is a problem, and not what was asked for. */
export function isProblem(value: object | number | null): value is Problem {
  return typeof value === 'object' && value !== null && 'code' in value;
}

/** The requests of this extension. Each method raises `RequestError` if the request fails. */
export class Client {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** Emitted with true when the first request becomes slow, and with false when none is slow any more. */
  get slowChanged(): ISignal<this, boolean> {
    return this._slowChanged;
  }

  /** Emitted when a request fails because the user is logged out or the user's server does not run. */
  get lost(): ISignal<this, Problem> {
    return this._lost;
  }

  /**
   * Seconds since the epoch by the clock of the server, to which all times in its answers belong: that of the browser may
   * be hours off. A difference of less than a minute is left as it is.
   */
  get now(): number {
    return Date.now() / 1000 + this._ahead;
  }

  getStatus(): Promise<ServerStatus> {
    return this._get('status');
  }

  getMe(): Promise<Me> {
    return this._get('me');
  }

  async listQueues(): Promise<QueueView[]> {
    return (await this._get<QueueList>('queues')).queues;
  }

  async listNotebooks(): Promise<NotebookView[]> {
    return (await this._get<NotebookList>('notebooks')).notebooks;
  }

  /** Return a page of jobs, newest first; `before` is the `next` of the page before. */
  listJobs(limit: number, before?: string): Promise<JobList> {
    return this._get('jobs', before === undefined ? { limit } : { limit, before });
  }

  getJob(id: string): Promise<JobView> {
    return this._get(`jobs/${encodeURIComponent(id)}`);
  }

  cancelJob(id: string): Promise<JobView> {
    return this._json(`jobs/${encodeURIComponent(id)}`, { method: 'DELETE' });
  }

  /** Delete a job that has ended, with all that the service keeps of it; return it as it was. */
  deleteJob(id: string): Promise<JobView> {
    return this._json(`jobs/${encodeURIComponent(id)}/record`, { method: 'DELETE' });
  }

  /** Cancel several jobs; return those that end, and those that could not be cancelled with the reason. */
  cancelJobs(ids: readonly string[]): Promise<CancelledJobs> {
    return this._post('cancel', { jobs: ids });
  }

  /** Hold, release or change a job that is not over. */
  changeJob(id: string, change: JobChange): Promise<JobView> {
    return this._json(`jobs/${encodeURIComponent(id)}`, { method: 'PATCH', body: JSON.stringify(change) });
  }

  /** Return the pieces of a job's output that follow number `after`. */
  listOutputs(id: string, after: number): Promise<OutputPage> {
    return this._get(`jobs/${encodeURIComponent(id)}/outputs`, { after });
  }

  /** Return the end of the log of a job, or of one of its tasks. */
  async getLog(id: string, task: number | null = null): Promise<string> {
    const query = task === null ? '' : `?task=${task}`;
    const response = await this._request(`jobs/${encodeURIComponent(id)}/log${query}`, {});
    return response.text();
  }

  /** Return how much of the log of each task is kept. */
  getLogSize(id: string): Promise<JobLog> {
    return this._get(`jobs/${encodeURIComponent(id)}/log/size`);
  }

  /** Return the next lines of a task's log with a text, searched from byte `start` on, where line `line` begins. */
  findLogLines(id: string, contains: string, at: ILogPlace): Promise<LogLines> {
    return this._get(`jobs/${encodeURIComponent(id)}/log/lines`, { contains, ...at });
  }

  /** Return the address at which the browser downloads the log of a job, or of one of its tasks. */
  getLogUrl(id: string, task: number | null): string {
    const query = task === null ? '' : `?task=${task}`;
    return `${URLExt.join(this._settings.baseUrl, NAMESPACE)}/jobs/${encodeURIComponent(id)}/log/file${query}`;
  }

  /** Copy the executed notebook into the user's folder; return the path of the copy. */
  async copyResult(id: string): Promise<string> {
    const answer = await this._post<ResultPath>(`open-result/${encodeURIComponent(id)}`, {});
    return answer.path;
  }

  /** Return whether two paths of notebooks lead to one file, such as through a link. */
  async isSameFile(one: string, other: string): Promise<boolean> {
    return (await this._get<SameFile>('same-file', { one, other })).same;
  }

  /** Return the service's forecast for this job if it were sent now; nothing is sent. */
  previewJob(request: JobRequest): Promise<Preview> {
    return this._post('preview', { ...request });
  }

  /** Return what would run, with warnings. Raises `RequestError` if sending the cells would be refused. */
  checkCells(request: CellsRequest): Promise<Plan> {
    return this._post('check', { ...request });
  }

  /** Let the kernel pickle the variables that cells need; return their names, sizes and reasons. Nothing is sent. */
  async captureVariables(request: CaptureRequest): Promise<Captured> {
    const init = { method: 'POST', body: JSON.stringify(request) };
    // Large variables take a while, and that is not the scheduler's doing.
    const response = await this._request('variables', init, new DisposableDelegate(() => undefined));
    return (await response.json()) as Captured;
  }

  /** Return the GPU use of a job over time. */
  getUsage(id: string): Promise<JobUsage> {
    return this._get(`jobs/${encodeURIComponent(id)}/usage`);
  }

  /** Return what a job brings back. */
  getResults(id: string): Promise<JobResults> {
    return this._get(`jobs/${encodeURIComponent(id)}/results`);
  }

  /** Return the address at which the browser downloads a file that a job brings back. */
  getFileUrl(id: string, path: string): string {
    const query = new URLSearchParams({ path }).toString();
    return `${URLExt.join(this._settings.baseUrl, NAMESPACE)}/jobs/${encodeURIComponent(id)}/file?${query}`;
  }

  /**
   * Copy files of a job beside its notebook; return the last news, which has what was copied.
   *
   * `onNews` hears how far the copies are. Raises `RequestError`, with the files that differ in `conflict`.
   */
  async copyFiles(
    id: string,
    request: CopyRequest,
    onNews: (news: CopyNews) => void,
    signal: AbortSignal
  ): Promise<CopyNews> {
    const init = { method: 'POST', body: JSON.stringify(request), signal };
    // Large files take a while, and that is not the scheduler's doing.
    const answered = new DisposableDelegate(() => undefined);
    const response = await this._request(`jobs/${encodeURIComponent(id)}/copies`, init, answered);
    const last = await readNews(response, onNews);
    if (last.problem !== '') {
      throw new RequestError(response.status, { code: 'copy_ended', message: last.problem, field: null });
    }
    if ((request.paths ?? []).length === 0) {
      this._copied.add(id);
      this._copiedChanged.emit();
    }
    return last;
  }

  /** Return whether this page has copied all files of a job beside its notebook. */
  hasCopied(id: string): boolean {
    return this._copied.has(id);
  }

  /** Emitted when all files of a job were copied. */
  get copiedChanged(): ISignal<this, void> {
    return this._copiedChanged;
  }

  /** Submit a job; return it. Sending the same key again returns the same job. */
  sendCells(request: SendRequest): Promise<JobView> {
    return this._post('send', { ...request });
  }

  /** Submit the jobs of a sweep; return their ids. Sending the same key again returns the same jobs. */
  sendSweep(request: SweepRequest): Promise<SentSweep> {
    return this._post('sweep', { ...request });
  }

  /** Return all jobs of a group, newest first. */
  async listGroup(group: string): Promise<JobSummary[]> {
    const jobs: JobSummary[] = [];
    let page: JobList | null = null;
    do {
      const rest: Record<string, string> = page?.next ? { before: page.next } : {};
      page = await this._get<JobList>('jobs', { limit: GROUP_PAGE, group, ...rest });
      jobs.push(...page.jobs);
    } while (page.next && page.jobs.length > 0);
    return jobs;
  }

  /** Keep the share of this server for longer; return the notebook with its new warning. */
  keepShare(): Promise<NotebookView> {
    return this._post('keep', {});
  }

  /** Return the cells that the server saw in a kernel's present session, in run order. */
  getKernelHistory(kernelId: string): Promise<KernelHistory> {
    return this._get(`kernels/${encodeURIComponent(kernelId)}/history`);
  }

  /** Tell the server which cells of a notebook were handed to a kernel, in run order. */
  announceCells(kernelId: string, announcement: Announcement): Promise<KernelHistory> {
    return this._post(`kernels/${encodeURIComponent(kernelId)}/history`, announcement);
  }

  private _get<T>(path: string, query: Record<string, string | number> = {}): Promise<T> {
    const pairs = Object.entries(query).map(([key, value]) => [key, String(value)]);
    const search = new URLSearchParams(pairs).toString();
    return this._json(search === '' ? path : `${path}?${search}`, {});
  }

  private _post<T>(path: string, body: object): Promise<T> {
    return this._json(path, { method: 'POST', body: JSON.stringify(body) });
  }

  private async _json<T>(path: string, init: RequestInit): Promise<T> {
    const response = await this._request(path, init);
    try {
      return (await response.json()) as T;
    } catch {
      throw this._tellIfLost(new RequestError(response.status, LOGGED_OUT)); // a page to log in, after a redirection
    }
  }

  private async _request(
    path: string,
    init: RequestInit,
    told: IDisposable = this._tellIfSlow()
  ): Promise<Response> {
    const url = URLExt.join(this._settings.baseUrl, NAMESPACE) + '/' + path;
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this._settings);
    } catch {
      throw new RequestError(0, {
        code: 'server_unreachable',
        message:
          'Your Jupyter server does not answer. The server may have been stopped, or the network is down.',
        field: null
      });
    } finally {
      told.dispose();
    }
    this._readClock(response);
    if (!response.ok) {
      throw await this._tellApart(await readError(response), init);
    }
    return response;
  }

  private _readClock(response: Response): void {
    const ahead = (Date.parse(response.headers.get('Date') ?? '') - Date.now()) / 1000;
    if (!Number.isNaN(ahead)) {
      this._ahead = Math.abs(ahead) < LEAST_SKEW ? 0 : ahead;
    }
  }

  /**
   * Return the error, or a clearer one if the server may be stopped or the user logged out: the Hub answers both alike,
   * unless the request only reads. Tells if the connection is lost.
   *
   * See docs/decisions/0456-ask-by-a-read-whether-the-server-is-stopped.md.
   */
  private async _tellApart(error: RequestError, { method }: RequestInit): Promise<RequestError> {
    if (error.problem !== STOPPED_OR_LOGGED_OUT || method === undefined) {
      return this._tellIfLost(error);
    }
    const found: unknown = await this.getStatus().catch((reason: unknown) => reason);
    return found instanceof RequestError && isLost(found.problem) ? found : this._tellIfLost(error);
  }

  private _tellIfLost(error: RequestError): RequestError {
    if (isLost(error.problem)) {
      this._lost.emit(error.problem);
    }
    return error;
  }

  /** Count a request that begins as slow once its time is over; dispose the result when it is answered. */
  private _tellIfSlow(): IDisposable {
    let slow = false;
    const timer = window.setTimeout(() => {
      slow = true;
      this._countSlow(1);
    }, PATIENCE);
    return new DisposableDelegate(() => {
      window.clearTimeout(timer);
      if (slow) {
        this._countSlow(-1);
      }
    });
  }

  private _countSlow(change: 1 | -1): void {
    const before = this._slow;
    this._slow += change;
    if ((before === 0) !== (this._slow === 0)) {
      this._slowChanged.emit(this._slow > 0);
    }
  }

  private _slow = 0;
  /** Seconds that the clock of the server is ahead of that of the browser. */
  private _ahead = 0;
  private readonly _copied = new Set<string>();
  private readonly _copiedChanged = new Signal<this, void>(this);
  private readonly _lost = new Signal<this, Problem>(this);
  private readonly _slowChanged = new Signal<this, boolean>(this);
}

/** Return the last news in an answer that is written line by line; `onNews` hears each. */
async function readNews(response: Response, onNews: (news: CopyNews) => void): Promise<CopyNews> {
  let last: CopyNews | null = null;
  let rest = '';
  const take = (text: string): void => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      last = JSON.parse(line) as CopyNews;
      onNews(last);
    }
  };
  try {
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      take(decoder.decode(part.value, { stream: true }));
    }
  } catch {
    // The connection was lost, which the missing end below says.
  }
  const news = last as CopyNews | null;
  if (news === null || (news.copied === null && news.problem === '')) {
    throw new RequestError(0, {
      code: 'server_unreachable',
      message: 'The connection to your Jupyter server was lost while files were copied. Copy them again.',
      field: null
    });
  }
  return news;
}

/** Return the error for a response that is a refusal. */
async function readError(response: Response): Promise<RequestError> {
  const text = await response.text();
  let body: Partial<CopyConflict & AlreadySent> | null = null;
  try {
    body = JSON.parse(text) as Partial<CopyConflict & AlreadySent> | null;
  } catch {
    // The body is not from this extension; it may be a page of a proxy. The status says enough.
  }
  const conflict = Array.isArray(body?.files) ? (body as CopyConflict) : null;
  return new RequestError(response.status, readProblem(response, body), conflict, body?.other_jobs ?? []);
}
