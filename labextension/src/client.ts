/** The only file that knows addresses. It talks to the Jupyter server that this page came from, and to nothing else. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type {
  CellsRequest,
  JobList,
  JobRequest,
  JobView,
  Me,
  NotebookList,
  NotebookView,
  OutputPage,
  Plan,
  Preview,
  Problem,
  QueueList,
  QueueView,
  RanCell,
  ResultPath,
  SendRequest,
  ServerStatus,
  Warned
} from './wire';

const NAMESPACE = 'jupyter-gq';

/** A request was answered with a problem, or could not be asked at all. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem
  ) {
    super(problem.message);
    this.name = 'RequestError';
  }

  /** It is not about this request: nothing can be asked at present, and asking again later may help. */
  get isOutage(): boolean {
    return this.status === 0 || this.status >= 502 || this.problem.code === 'service_unavailable';
  }
}

/** The words for a person, whatever was thrown. */
export function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

export class Client {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  status(): Promise<ServerStatus> {
    return this._get('status');
  }

  me(): Promise<Me> {
    return this._get('me');
  }

  async queues(): Promise<QueueView[]> {
    return (await this._get<QueueList>('queues')).queues;
  }

  async notebooks(): Promise<NotebookView[]> {
    return (await this._get<NotebookList>('notebooks')).notebooks;
  }

  jobs(limit: number, before?: string): Promise<JobList> {
    return this._get('jobs', before === undefined ? { limit } : { limit, before });
  }

  job(id: string): Promise<JobView> {
    return this._get(`jobs/${encodeURIComponent(id)}`);
  }

  cancel(id: string): Promise<JobView> {
    return this._json(`jobs/${encodeURIComponent(id)}`, { method: 'DELETE' });
  }

  outputs(id: string, after: number): Promise<OutputPage> {
    return this._get(`jobs/${encodeURIComponent(id)}/outputs`, { after });
  }

  async log(id: string): Promise<string> {
    const response = await this._request(`jobs/${encodeURIComponent(id)}/log`, {});
    return response.text();
  }

  /** Copies the executed notebook into the user's folder and says where it lies. */
  async openResult(id: string): Promise<string> {
    const answer = await this._post<ResultPath>(`open-result/${encodeURIComponent(id)}`, {});
    return answer.path;
  }

  preview(request: JobRequest): Promise<Preview> {
    return this._post('preview', { ...request });
  }

  /** What to know about these cells before they are sent; refused where sending would be. */
  async check(request: CellsRequest): Promise<Warned[]> {
    return (await this._post<Plan>('check', { ...request })).warnings;
  }

  send(request: SendRequest): Promise<JobView> {
    return this._post('send', { ...request });
  }

  keep(): Promise<NotebookView> {
    return this._post('keep', {});
  }

  kernelHistory(kernelId: string): Promise<RanCell[]> {
    return this._get(`kernels/${encodeURIComponent(kernelId)}/history`);
  }

  private _get<T>(path: string, query: Record<string, string | number> = {}): Promise<T> {
    const search = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]));
    return this._json(search.size > 0 ? `${path}?${search.toString()}` : path, {});
  }

  private _post<T>(path: string, body: object): Promise<T> {
    return this._json(path, { method: 'POST', body: JSON.stringify(body) });
  }

  private async _json<T>(path: string, init: RequestInit): Promise<T> {
    const response = await this._request(path, init);
    return (await response.json()) as T;
  }

  private async _request(path: string, init: RequestInit): Promise<Response> {
    const url = URLExt.join(this._settings.baseUrl, NAMESPACE) + '/' + path;
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this._settings);
    } catch {
      throw new RequestError(0, {
        code: 'server_unreachable',
        message: 'Your Jupyter server does not answer. It may have been stopped, or the network is down.',
        field: null
      });
    }
    if (!response.ok) {
      throw new RequestError(response.status, await problemOf(response));
    }
    return response;
  }
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  let body: Partial<Problem> | null = null;
  try {
    body = JSON.parse(text) as Partial<Problem> | null;
  } catch {
    // Not ours: a proxy's page, for example. The status below says enough.
  }
  if (body !== null && typeof body.message === 'string' && typeof body.code === 'string') {
    return { code: body.code, message: body.message, field: body.field ?? null };
  }
  if (response.status === 404) {
    return {
      code: 'extension_missing',
      message:
        'This Jupyter server has no GPU training extension. `pip install jupyter-gq` where the server runs, then restart it.',
      field: null
    };
  }
  return {
    code: 'unexpected_answer',
    message: `The Jupyter server answered ${response.status} ${response.statusText}.`,
    field: null
  };
}
