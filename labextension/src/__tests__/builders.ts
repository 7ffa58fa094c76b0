/** Things to test with: name what matters, the rest is ordinary. */

import { loadTranslations } from '../translation';
import type {
  SuspensionView,
  Captured,
  CopyNews,
  JobLog,
  JobResults,
  JobSummary,
  JobUsage,
  JobView,
  Me,
  NotebookView,
  Plan,
  PoolView,
  QueueView,
  RanCell,
  ServerStatus
} from '../wire';

/** The words as they are in the code. */
export const ENGLISH = loadTranslations(null);

export function aJob(given: Partial<JobView> = {}): JobView {
  return {
    id: 'job-1',
    name: 'digits',
    owner: 'ann',
    queue: 'vision',
    gpus: '1',
    cpus: null,
    memory: null,
    gpu_model: null,
    gpu_memory: null,
    within: null,
    preferred_gpu_models: [],
    tasks: 1,
    min_tasks: null,
    tasks_now: null,
    priority: 0,
    expected_seconds: null,
    phase: 'running',
    sentence: 'Runs.',
    position: null,
    expected_start: null,
    held_since: null,
    max_seconds: null,
    over_quota: null,
    submitted_at: 1000,
    started_at: 1010,
    finished_at: null,
    ran_seconds: 0,
    running_since: null,
    run: 1,
    devices: [],
    node: null,
    server: '',
    idempotency_key: '',
    notebook_path: 'digits.ipynb',
    origin: 'notebook',
    targets: [],
    prefix: [],
    left_out_cells: null,
    carries_variables: null,
    progress: null,
    saved_at: null,
    pause: null,
    utilisation: null,
    gpu_memory_used_mib: null,
    gpu_memory_limit_mib: null,
    unused_gpu: null,
    last_seq: 0,
    disk: null,
    eviction: null,
    error: null,
    returns: [],
    secrets: [],
    software: '',
    continue_from: '',
    group: '',
    group_parallel: null,
    group_metric: '',
    group_mode: 'max',
    ...given
  };
}

/** What the server says about cells before they are sent. */
export function aPlan(given: Partial<Plan> = {}): Plan {
  const environment = { always: ['PATH'], variables: [], secrets: [] };
  const files = { going: [], staying: [], notes: [], own_folder: false, pattern_notes: [] };
  const carry = { offered: false, suggested: false };
  return {
    prefix: [],
    targets: [],
    warnings: [],
    makes: [],
    assignments: [],
    returns: [],
    environment,
    files,
    carry,
    kernels: [],
    takes_images: true,
    ...given
  };
}

/** How much is kept of a log of so many bytes in each task. */
export function aLogSize(bytes: number, tasks = 1): JobLog {
  const spans = Array.from({ length: tasks }, (_, task) => ({ task, start: 0, end: bytes }));
  return { run: 1, tasks: spans, complete: true, note: '' };
}

/** What a job brings back: one variable of this name. */
export function someResults(name = 'model', given: Partial<JobResults> = {}): JobResults {
  const variable = {
    name,
    type: 'dict',
    bytes: 12_300_000,
    sha256: 'ab',
    path: 'vars/0.pickle',
    reason: '',
    number: null
  };
  return { python: '3.12', variables: [variable], files: [], omitted_files: 0, ...given };
}

/** The GPU use of a job in intervals of 15 s, of which one is not known. */
export function aUsage(given: Partial<JobUsage> = {}): JobUsage {
  const point = (
    at: number,
    utilisation: number | null,
    memory_mib: number | null
  ): JobUsage['points'][0] => ({
    at,
    utilisation,
    highest: utilisation === null ? null : utilisation + 10,
    memory_mib
  });
  return {
    run: 1,
    since: 1010,
    seconds: 15,
    points: [point(1010, 40, 10_240), point(1025, 80, null), point(1055, 60, 20_480)],
    memory_limit_mib: 40_960,
    sentence: 'The job uses 60 % of its GPU and 20 GiB of 40 GiB of GPU memory.',
    ...given
  };
}

/** News of copies of files. */
export function someNews(given: Partial<CopyNews> = {}): CopyNews {
  return { path: '', done: 0, total: 0, copied: null, left_out: [], problem: '', ...given };
}

/** A job as lists show it. */
export function aSummary(given: Partial<JobSummary> = {}): JobSummary {
  const job: Partial<JobView> = aJob(given);
  delete job.targets;
  delete job.prefix;
  return job as JobSummary;
}

export function aSuspension(given: Partial<SuspensionView> = {}): SuspensionView {
  return {
    since: 1020,
    sentence: 'Lent to bob.',
    memory_mib: 1024,
    expected_seconds: 8,
    back_within: null,
    wanted: false,
    position: null,
    leaving: 0,
    ...given
  };
}

export function aNotebook(given: Partial<NotebookView> = {}): NotebookView {
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
    enforcement_sentence: '',
    idle_since: null,
    warning: null,
    kept_until: null,
    over_limit: null,
    suspension: null,
    suspension_refusal: '',
    trouble: '',
    eviction: null,
    ...given
  };
}

export function aQueue(given: Partial<QueueView> = {}): QueueView {
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
    max_priority: 0,
    max_seconds: null,
    ...given
  };
}

export function aPool(given: Partial<PoolView> = {}): PoolView {
  return {
    name: 'train',
    devices: 4,
    model: null,
    models: [],
    memory_mib: null,
    largest_cpus: null,
    largest_memory: null,
    total: '4',
    free: '4',
    largest_fraction: '1',
    ...given
  };
}

export function aMe(given: Partial<Me> = {}): Me {
  return {
    user: 'ann',
    groups: ['vision'],
    admin: false,
    quota: '0.5',
    used: '0',
    left: '0.5',
    choices: [],
    queues: [aQueue()],
    pools: [aPool()],
    build_pool: 'build',
    largest_request: '2',
    last_eviction: null,
    devices_sentence: 'Two simulated GPUs.',
    level_sentence: '',
    secrets: [],
    secrets_in_home: false,
    images: [],
    ...given
  };
}

export function aStatus(given: Partial<ServerStatus> = {}): ServerStatus {
  return { available: true, message: 'Connected.', user: 'ann', server: '', hub: true, ...given };
}

/** A cell that ran in a kernel. */
export function aRun(given: Partial<RanCell> = {}): RanCell {
  return { cell_id: 'a', code: 'a()', seconds: 1, failed: false, execution_count: 1, began: 0, ...given };
}

/** Take no variables along, as of a kernel that has none. */
export function captureNothing(): Promise<Captured> {
  return Promise.resolve({ id: 'c', variables: [], bytes: 0, replayed: [], notes: [] });
}

/** What the service answers about a job that would wait, of whose start nothing is known. */
export const WOULD_WAIT = {
  starts_now: false,
  sentence: 'Would wait.',
  position: 2,
  expected_start: null,
  alternatives: []
};
