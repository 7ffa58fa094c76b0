import type { RequestError } from '../client';
import { Client, describeError } from '../client';
import type { SendRequest } from '../wire';
import { aJob, aLogSize, aMe, aNotebook, aPlan, aQueue, aStatus } from './builders';
import { FakeServer } from './fakes';

let server: FakeServer;
let client: Client;

beforeEach(() => {
  server = new FakeServer();
  client = new Client(server.settings);
});

/** The error that a request ends with. */
async function failureOf(request: Promise<unknown>): Promise<RequestError> {
  return request.then(
    () => {
      throw new Error('The request did not fail.');
    },
    (reason: unknown) => reason as RequestError
  );
}

describe('the client', () => {
  it('asks the server that the page came from, below its own prefix', async () => {
    let asked = '';
    const { settings } = server;
    const watched = new Client({
      ...settings,
      fetch: ((request: Request) => {
        asked = request.url;
        return settings.fetch(request);
      }) as typeof fetch
    });
    await watched.getStatus();
    expect(asked).toBe('http://localhost:8888/user/ann/jupyter-gq/status');
  });

  it.each<[string, (client: Client) => Promise<unknown>, unknown, unknown]>([
    ['GET status', client => client.getStatus(), aStatus(), aStatus()],
    ['GET me', client => client.getMe(), aMe(), aMe()],
    ['GET queues', client => client.listQueues(), { queues: [aQueue()] }, [aQueue()]],
    ['GET notebooks', client => client.listNotebooks(), { notebooks: [aNotebook()] }, [aNotebook()]],
    ['GET jobs/job-1', client => client.getJob('job-1'), aJob(), aJob()],
    ['DELETE jobs/job-1', client => client.cancelJob('job-1'), aJob(), aJob()],
    ['DELETE jobs/job-1/record', client => client.deleteJob('job-1'), aJob(), aJob()],
    ['GET jobs/job-1/log', client => client.getLog('job-1'), 'epoch 1\n', 'epoch 1\n'],
    ['GET jobs/job-1/log/size', client => client.getLogSize('job-1'), aLogSize(7), aLogSize(7)],
    ['POST open-result/job-1', client => client.copyResult('job-1'), { path: 'a.ipynb' }, 'a.ipynb'],
    ['POST keep', client => client.keepShare(), aNotebook(), aNotebook()],
    [
      'GET kernels/k/history',
      client => client.getKernelHistory('k'),
      { cells: [], complete: true },
      { cells: [], complete: true }
    ]
  ])('%s returns what the server answers', async (route, ask, answer, expected) => {
    server.answer(route, answer);
    expect(await ask(client)).toEqual(expected);
    expect(server.asked).toEqual([route]);
  });

  it('asks for a page of jobs, and for the page that follows it', async () => {
    await client.listJobs(50);
    await client.listJobs(50, 'job-9');
    expect(server.asked).toEqual(['GET jobs?limit=50', 'GET jobs?limit=50&before=job-9']);
  });

  it('asks for all pages of the jobs of a group', async () => {
    const [first, second] = [
      { jobs: [aJob({ id: 'b' })], next: 'b' },
      { jobs: [aJob({ id: 'a' })], next: null }
    ];
    server.answer('GET jobs', first);
    server.answer('GET jobs?limit=500&group=sweep-1&before=b', second);
    expect((await client.listGroup('sweep-1')).map(({ id }) => id)).toEqual(['b', 'a']);
    expect(server.asked).toEqual([
      'GET jobs?limit=500&group=sweep-1',
      'GET jobs?limit=500&group=sweep-1&before=b'
    ]);
  });

  it('asks for the pieces of output after the last one', async () => {
    server.answer('GET jobs/job-1/outputs', { events: [], last_seq: 7, finished: false });
    expect((await client.listOutputs('job-1', 7)).last_seq).toBe(7);
    expect(server.asked).toEqual(['GET jobs/job-1/outputs?after=7']);
  });

  it.each([
    ['two hours behind', -7200, -7200],
    ['two hours ahead', 7200, 7200],
    ['some seconds behind, as by its way', -20, 0]
  ])('reads the clock of the server, which is %s that of the browser', async (_, ahead, expected) => {
    server.date = new Date(Date.now() + ahead * 1000).toUTCString();
    await client.getMe();
    expect(Math.abs(client.now - Date.now() / 1000 - expected)).toBeLessThan(2);
    server.date = null;
    await client.getMe();
    expect(Math.abs(client.now - Date.now() / 1000 - expected)).toBeLessThan(2);
  });

  it('escapes ids, so that none can lead to another route', async () => {
    await failureOf(client.getJob('../me?x=1'));
    await failureOf(client.cancelJob('a/b'));
    await failureOf(client.getKernelHistory('a/b'));
    expect(server.asked).toEqual([
      'GET jobs/..%2Fme%3Fx%3D1',
      'DELETE jobs/a%2Fb',
      'GET kernels/a%2Fb/history'
    ]);
  });

  it('sends requests as JSON', async () => {
    const request: SendRequest = {
      key: 'k',
      name: 'digits',
      queue: 'vision',
      gpus: '1',
      notebook: { cells: [] },
      targets: ['a']
    };
    server.answer('POST send', aJob());
    server.answer('POST preview', { starts_now: true, sentence: 'Starts now.', alternatives: [] });
    server.answer('POST check', aPlan());
    await client.sendCells(request);
    await client.previewJob({ queue: 'vision', gpus: '1' });
    await client.checkCells({ notebook: {}, targets: ['a'] });
    expect(server.asked).toEqual(['POST send', 'POST preview', 'POST check']);
    expect(server.bodies).toEqual([
      request,
      { queue: 'vision', gpus: '1' },
      { notebook: {}, targets: ['a'] }
    ]);
  });

  it('returns the answer of a check', async () => {
    const warnings = [{ code: 'edited', message: 'Cell 1 was edited.', cell_id: 'a', index: null }];
    server.answer('POST check', aPlan({ warnings }));
    expect(await client.checkCells({ notebook: {} })).toEqual(aPlan({ warnings }));
  });
});

describe('a request that fails', () => {
  it('has the problem that the server answered', async () => {
    const problem = { code: 'unknown_queue', message: 'There is no queue “x”.', field: 'queue' };
    server.answer('POST preview', problem, 422);
    const failure = await failureOf(client.previewJob({ queue: 'x', gpus: '1' }));
    expect([failure.status, failure.problem, failure.message]).toEqual([422, problem, problem.message]);
  });

  it('knows a problem without a field', async () => {
    server.answer('GET me', { code: 'forbidden', message: 'Not yours.' }, 403);
    expect((await failureOf(client.getMe())).problem.field).toBeNull();
  });

  it('says what to do if the server does not have the extension', async () => {
    server.answer('GET status', '<html>404</html>', 404);
    const failure = await failureOf(client.getStatus());
    expect(failure.problem.code).toBe('extension_missing');
    expect(failure.message).toContain('pip install jupyter-gq');
  });

  it.each(['<html>Bad gateway</html>', 'null', '{"detail": "no"}', '[]'])(
    'names the status if a proxy answers %s',
    async body => {
      server.answer('GET me', body, 502);
      const failure = await failureOf(client.getMe());
      expect([failure.status, failure.problem.code]).toEqual([502, 'unexpected_answer']);
      expect(failure.message).toContain('502');
    }
  );

  it.each<[number, string, RegExp]>([
    [
      424,
      '{"message": "JupyterHub server no longer running at /user/ann"}',
      /^Your server is not running\. Start it/
    ],
    [503, '<html>503</html>', /^Your server is not running\. Start it/],
    [403, '<html>403 : Forbidden</html>', /^Your server is not running, or you are logged out\./],
    [403, '{"code": "forbidden", "message": "Forbidden"}', /^You are logged out\. Log in again/],
    [
      403,
      '{"code": "forbidden", "message": "XSRF cookie does not match DELETE argument"}',
      /^You are logged out\. Log in again/
    ],
    [200, '<html>Sign in</html>', /^You are logged out\. Log in again/]
  ])(
    'says what to do, here and to all, if the Hub or the login answers %s %s',
    async (status, body, said) => {
      const told: string[] = [];
      client.lost.connect((_, problem) => told.push(problem.message));
      server.answer('DELETE jobs/job-1', body, status);
      const failure = await failureOf(client.cancelJob('job-1'));
      expect(failure.message).toMatch(said);
      expect(told).toEqual([failure.message]);
    }
  );

  it.each<[number, string, RegExp]>([
    [424, '<html>424</html>', /^Your server is not running\. Start it/],
    [200, '<html>Sign in</html>', /^You are logged out\. Log in again/]
  ])(
    'tells a stopped server and a lost login apart: a request that only reads is answered %s',
    async (status, body, said) => {
      const told: string[] = [];
      client.lost.connect((_, problem) => told.push(problem.message));
      server.answer('POST keep', '<html>403 : Forbidden</html>', 403);
      server.answer('GET status', body, status);
      const failure = await failureOf(client.keepShare());
      expect(failure.message).toMatch(said);
      expect(told).toEqual([failure.message]);
    }
  );

  it.each([
    [403, { code: 'forbidden', message: 'The queue is not yours.', field: null }],
    [503, { code: 'service_unavailable', message: 'The GPU scheduler cannot be reached.', field: null }]
  ])('of which the server gives the reason with %s is not taken for the Hub’s', async (status, problem) => {
    const told: string[] = [];
    client.lost.connect((_, problem) => told.push(problem.message));
    server.answer('GET me', problem, status);
    expect((await failureOf(client.getMe())).problem).toEqual(problem);
    expect(told).toEqual([]);
  });

  it('says that the server does not answer if there is no connection', async () => {
    server.isDown = true;
    const failure = await failureOf(client.getStatus());
    expect([failure.status, failure.problem.code]).toEqual([0, 'server_unreachable']);
    expect(failure.message).toMatch(/does not answer/);
  });
});

it('an error has words, whatever was thrown', () => {
  expect([describeError(new Error('broken')), describeError('text'), describeError(7)]).toEqual([
    'broken',
    'text',
    '7'
  ]);
});
