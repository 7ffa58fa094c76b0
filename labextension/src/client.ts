/** The only file that knows addresses. It talks to the Jupyter server that this page came from, and to nothing else. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type {
  ICellsRequest,
  IJob,
  IJobPage,
  IJobRequest,
  IKernelExecution,
  IMe,
  INotebook,
  IOutputPage,
  IPreview,
  IProblem,
  IQueue,
  ISendRequest,
  IStatus,
  IWarned
} from './wire';

const NAMESPACE = 'jupyter-gq';

/** A request was answered with a problem, or could not be asked at all. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly problem: IProblem
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

  status(): Promise<IStatus> {
    return this._get('status');
  }

  me(): Promise<IMe> {
    return this._get('me');
  }

  async queues(): Promise<IQueue[]> {
    return (await this._get<{ queues: IQueue[] }>('queues')).queues;
  }

  async notebooks(): Promise<INotebook[]> {
    return (await this._get<{ notebooks: INotebook[] }>('notebooks')).notebooks;
  }

  jobs(limit: number, before?: string): Promise<IJobPage> {
    return this._get('jobs', before === undefined ? { limit } : { limit, before });
  }

  job(id: string): Promise<IJob> {
    return this._get(`jobs/${encodeURIComponent(id)}`);
  }

  cancel(id: string): Promise<IJob> {
    return this._json(`jobs/${encodeURIComponent(id)}`, { method: 'DELETE' });
  }

  outputs(id: string, after: number): Promise<IOutputPage> {
    return this._get(`jobs/${encodeURIComponent(id)}/outputs`, { after });
  }

  async log(id: string): Promise<string> {
    const response = await this._request(`jobs/${encodeURIComponent(id)}/log`, {});
    return response.text();
  }

  /** Copies the executed notebook into the user's folder and says where it lies. */
  async openResult(id: string): Promise<string> {
    const answer = await this._post<{ path: string }>(`open-result/${encodeURIComponent(id)}`, {});
    return answer.path;
  }

  preview(request: IJobRequest): Promise<IPreview> {
    return this._post('preview', { ...request });
  }

  /** What to know about these cells before they are sent; refused where sending would be. */
  async check(request: ICellsRequest): Promise<IWarned[]> {
    return (await this._post<{ warnings: IWarned[] }>('check', { ...request })).warnings;
  }

  send(request: ISendRequest): Promise<IJob> {
    return this._post('send', { ...request });
  }

  keep(): Promise<INotebook> {
    return this._post('keep', {});
  }

  async kernelHistory(kernelId: string): Promise<IKernelExecution[]> {
    const answer = await this._get<IKernelExecution[] | { history: IKernelExecution[] }>(
      `kernels/${encodeURIComponent(kernelId)}/history`
    );
    return Array.isArray(answer) ? answer : answer.history;
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
        message: 'Your Jupyter server does not answer. It may have been stopped, or the network is down.'
      });
    }
    if (!response.ok) {
      throw new RequestError(response.status, await problemOf(response));
    }
    return response;
  }
}

async function problemOf(response: Response): Promise<IProblem> {
  const text = await response.text();
  let body: Partial<IProblem> | null = null;
  try {
    body = JSON.parse(text) as Partial<IProblem> | null;
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
        'This Jupyter server has no GPU training extension. `pip install jupyter-gq` where the server runs, then restart it.'
    };
  }
  return {
    code: 'unexpected_answer',
    message: `The Jupyter server answered ${response.status} ${response.statusText}.`
  };
}
