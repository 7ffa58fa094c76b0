/** Things to test with: name what matters, the rest is ordinary. */

import type { IJob, INotebook, IQueue } from '../wire';

export function aJob(given: Partial<IJob> = {}): IJob {
  return {
    id: 'job-1',
    name: 'digits',
    owner: 'ann',
    queue: 'vision',
    gpus: '1',
    cpus: null,
    memory: null,
    gpu_model: null,
    tasks: 1,
    priority: 0,
    expected_seconds: null,
    phase: 'running',
    sentence: 'Runs.',
    position: null,
    expected_start: null,
    over_quota: null,
    submitted_at: 1000,
    started_at: 1010,
    finished_at: null,
    run: 1,
    devices: [],
    node: null,
    server: '',
    notebook_path: 'digits.ipynb',
    targets: [],
    prefix: [],
    progress: null,
    last_seq: 0,
    eviction: null,
    error: null,
    ...given
  };
}

export function aNotebook(given: Partial<INotebook> = {}): INotebook {
  return {
    id: 'nb-1',
    server: '',
    owner: 'ann',
    gpus: '0.5',
    phase: 'running',
    sentence: '',
    position: null,
    submitted_at: 1000,
    started_at: 1010,
    finished_at: null,
    devices: [],
    model: null,
    memory_quota_mib: null,
    memory_used_mib: null,
    utilisation: null,
    enforcement: 'cooperative',
    idle_since: null,
    warning: null,
    trouble: '',
    eviction: null,
    ...given
  };
}

export function aQueue(given: Partial<IQueue> = {}): IQueue {
  return {
    name: 'vision',
    parent: null,
    pool: 'train',
    quota: '0.5',
    limit: null,
    used: '0',
    over_quota: '0',
    cpus: { quota: null, limit: null, used: '0', default: null },
    memory: { quota: null, limit: null, used: '0 MiB', default: null },
    waiting: 0,
    running: 0,
    over_quota_weight: 1,
    priority: 0,
    member: true,
    ...given
  };
}
