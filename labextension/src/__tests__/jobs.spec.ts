import { nullTranslator } from '@jupyterlab/translation';

import { formatAmount } from '../amounts';
import type { JobPhase } from '../jobs';
import {
  computeRunSeconds,
  describeAmount,
  describeBriefly,
  describeShortAmount,
  findJobOfCell,
  hasCells,
  isCancellable,
  describeJob,
  omitUnused,
  listActiveJobs,
  formatMemory,
  mergeJobs,
  describeNotebook,
  formatOrdinal,
  summarizeJob
} from '../jobs';
import { describePauseCost } from '../pauses';
import { listMemberQueues, describeGpuUsage } from '../queues';
import { formatClock } from '../times';
import { listDetails } from '../panel/facts';
import { ENGLISH, aJob, aNotebook, aQueue, aSummary } from './builders';
import type { JobSummary } from '../wire';

describe('the list of jobs', () => {
  it('is newest first, and a later version of a job takes its place', () => {
    const jobs = mergeJobs(
      [aJob({ id: 'a', submitted_at: 1 }), aJob({ id: 'b', submitted_at: 2 })],
      [aJob({ id: 'c', submitted_at: 3 }), aJob({ id: 'a', submitted_at: 1, sentence: 'new' })]
    );
    expect(jobs.map(job => job.id)).toEqual(['c', 'b', 'a']);
    expect(jobs[2].sentence).toBe('new');
  });

  it('never goes back: an answer that was under way does not undo an event', () => {
    const final = aJob({ phase: 'done', finished_at: 5 });
    expect(mergeJobs([final], [aJob({ phase: 'running' })])).toEqual([final]);
    const second = aJob({ run: 2, phase: 'paused' });
    expect(mergeJobs([second], [aJob({ run: 1 })])).toEqual([second]);
  });

  it('keeps the cells of a job, which lists leave out', () => {
    const target = { cell_id: 'x', source_hash: '', seconds: null };
    const detail = aJob({ targets: [target] });
    const summary = aSummary({ sentence: 'new' });
    expect(hasCells(summary)).toBe(false);
    const [newer] = mergeJobs([detail], [summary]);
    expect(newer).toMatchObject({ sentence: 'new', targets: [target] });
    const [known] = mergeJobs([{ ...summary, last_seq: 9 }], [detail]);
    expect(known).toMatchObject({ sentence: 'new', last_seq: 9, targets: [target] });
  });

  it.each<[JobPhase, boolean]>([
    ['waiting', true],
    ['running', true],
    ['paused', true],
    ['cancelling', false],
    ['done', false],
    ['failed', false],
    ['cancelled', false]
  ])('%s can be cancelled: %s', (phase, expected) => {
    expect(isCancellable(aJob({ phase }))).toBe(expected);
  });

  it('knows whether a cell is already in training', () => {
    const job = aJob({ targets: [{ cell_id: 'x', source_hash: '', seconds: null }] });
    expect(findJobOfCell([aJob(), job], 'x')).toBe(job);
    expect(findJobOfCell([job], 'y')).toBeNull();
    expect(listActiveJobs([job], 'digits.ipynb')).toEqual([job]);
    expect(listActiveJobs([job], 'other.ipynb')).toEqual([]);
    expect(listActiveJobs([aJob({ ...job, phase: 'done' })], 'digits.ipynb')).toEqual([]);
  });
});

describe('the words of a job', () => {
  it('say what trained where and for how long', () => {
    const job = aJob({ phase: 'done', ran_seconds: 123 });
    expect(summarizeJob(job, 9999, ENGLISH)).toBe('Trained in vision on 1 GPU for 2 min 3 s');
    expect(summarizeJob({ ...job, run: 3 }, 0, ENGLISH)).toBe(
      'Trained in vision on 1 GPU for 2 min 3 s, in 3 runs'
    );
  });

  it('count all runs, and no pause', () => {
    const paused = aJob({ phase: 'paused', run: 1, started_at: 1000, ran_seconds: 60 });
    expect(computeRunSeconds(paused, 9000)).toBe(60);
    expect(computeRunSeconds({ ...paused, phase: 'running', run: 2, running_since: 8990 }, 9000)).toBe(70);
    expect(computeRunSeconds(aJob({ phase: 'starting', started_at: 1000 }), 9000)).toBeNull();
  });

  it('say why it failed', () => {
    const error = { ename: 'ValueError', evalue: 'bad\nmore' };
    const sentence = 'Cell 2 of 3 (`fit()`) raised ValueError: bad. Correct the cell and send it again.';
    expect(summarizeJob(aJob({ phase: 'failed', error, sentence }), 0, ENGLISH)).toBe(sentence);
    expect(summarizeJob(aJob({ phase: 'failed', error, sentence: '' }), 0, ENGLISH)).toBe('ValueError: bad');
    expect(summarizeJob(aJob({ phase: 'failed', sentence: 'The node was lost.' }), 0, ENGLISH)).toBe(
      'The node was lost.'
    );
  });

  it('say the place in the queue first', () => {
    const job = aJob({ phase: 'waiting', position: 2, sentence: 'All devices are in use.' });
    expect(describeJob(job, 0, ENGLISH)).toBe('2nd in line. All devices are in use.');
  });

  it('say briefly where and when, and why only if no start is expected', () => {
    const sentence = 'All devices are in use.';
    const lost = aJob({ phase: 'waiting', position: 1, sentence });
    expect(describeBriefly(lost, 1000, ENGLISH)).toBe('1st in line. All devices are in use.');
    const expected_start = { p50: 1000 + 240, p90: 1000 + 880, outcomes: 9 };
    const waits = { ...lost, position: 3, expected_start };
    expect(describeBriefly(waits, 1000, ENGLISH)).toBe(
      '3rd in line. Probably starts within 4 min, almost surely within 15 min.'
    );
    const paused: JobSummary = { ...waits, phase: 'paused', sentence: 'Paused: it goes on.' };
    expect(describeBriefly(paused, 1000, ENGLISH)).toBe(describeJob(paused, 1000, ENGLISH));
  });

  it('say when it will probably start', () => {
    const expected_start = { p50: 1000 + 240, p90: 1000 + 880, outcomes: 9 };
    const job = aJob({ phase: 'waiting', position: 1, sentence: 'All devices are in use.', expected_start });
    expect(describeJob(job, 1000, ENGLISH)).toBe(
      '1st in line. All devices are in use. Probably starts within 4 min, almost surely within 15 min.'
    );
    const soon = aJob({
      phase: 'paused',
      sentence: 'Paused: it goes on.',
      expected_start: { p50: 1010, p90: 1050, outcomes: 0 }
    });
    expect(describeJob(soon, 1000, ENGLISH)).toBe('It goes on. Probably starts within 1 min.');
  });

  it('say what the code itself says while it runs', () => {
    expect(describeJob(aJob({ progress: { fraction: 0.5, text: 'epoch 5' } }), 0, ENGLISH)).toBe('epoch 5');
    expect(describeJob(aJob({ progress: { fraction: 0.5, text: '' } }), 0, ENGLISH)).toBe('Runs.');
  });

  it('say that a job has GPUs only while it has them', () => {
    const trans = nullTranslator.load('jupyter_gq');
    const amount = (phase: JobPhase): string => describeAmount(aJob({ phase, gpus: '0.5' }), trans);
    expect([amount('waiting'), amount('paused'), amount('running')]).toEqual([
      'for 0.5 GPU',
      'for 0.5 GPU',
      '0.5 GPU'
    ]);
    const terms = (phase: JobPhase): string[] =>
      listDetails(aJob({ phase, devices: ['gpu0'] }), 2000, trans).map(([term]) => term);
    expect(terms('running')).toContain('Has');
    expect(terms('done')).not.toContain('Has');
    expect(terms('done')).toContain('Ran on');
  });

  it('count and amount', () => {
    expect([1, 2, 3, 4, 11, 12, 13, 21, 112].map(place => formatOrdinal(place, ENGLISH))).toEqual(
      '1st 2nd 3rd 4th 11th 12th 13th 21st 112th'.split(' ')
    );
    expect(formatAmount(aJob({ gpus: '0' }), ENGLISH)).toBe('CPU only');
    expect(formatAmount(aJob({ gpus: '0.5', tasks: 2 }), ENGLISH)).toBe('2 × 0.5 GPU');
    const sized = (tasks_now: number | null): string =>
      formatAmount(aJob({ tasks: 4, min_tasks: 2, tasks_now }), ENGLISH);
    expect([sized(3), sized(4), sized(null)]).toEqual([
      '3 of 4 tasks × 1 GPU',
      '4 × 1 GPU',
      '2 to 4 tasks × 1 GPU'
    ]);
    const short = (given: Partial<JobSummary>): string => describeShortAmount(aJob(given), ENGLISH);
    expect(short({ gpus: '0.5', tasks: 2, min_tasks: 1, tasks_now: 1 })).toBe('1 of 2 × 0.5 GPU');
    expect(short({ phase: 'waiting', tasks: 4, min_tasks: 2 })).toBe('for 2 to 4 × 1 GPU');
    expect(short({ phase: 'waiting', gpus: '0.5' })).toBe('for 0.5 GPU');
    expect(formatAmount(aJob({ gpus: '2' }), ENGLISH)).toBe('2 GPUs');
  });
});

describe('the times in the words of the service', () => {
  it('are shown as a clock here shows them', () => {
    const instant = Date.UTC(2026, 10, 27, 6, 12) / 1000;
    const sentence = 'Held by you since 2026-11-27 06:12 UTC. Go on.';
    const job = aJob({ phase: 'waiting', held_since: instant, sentence });
    const shown = `y you since ${formatClock(instant, instant)}. Go on.`;
    const expected = [`B${shown}`, `Held b${shown}`];
    expect([describeJob(job, instant, ENGLISH), omitUnused(job, instant)]).toEqual(expected);
    expect(describeJob({ ...job, sentence: 'At 2026-99-99 06:12 UTC.' }, instant, ENGLISH)).toContain('UTC');
  });

  it('are those of the details too: today as a time of day, before with the day, in another year with that', () => {
    const day = (month: number): number => new Date(2026, month, 20, 12, 34).getTime() / 1000;
    const eviction = {
      at: day(5),
      reason: 'PREEMPTED',
      sentence: 'Paused at 2026-06-20 06:12 UTC.',
      by: null
    } as const;
    const job = aJob({ phase: 'waiting', submitted_at: day(5), finished_at: day(5) + 60, eviction });
    const at = (now: number): string[] =>
      ['Sent', 'Ended', 'Paused'].map(term => Object.fromEntries(listDetails(job, now, ENGLISH))[term]);
    const [sent, ended, paused] = at(day(5));
    expect([sent, ended]).toEqual([formatClock(day(5), day(5)), formatClock(day(5) + 60, day(5))]);
    expect(paused).toMatch(/^Paused at [^U]+\. \(.*\d:34.*\)$/);
    expect(at(day(6))[0]).toMatch(/Jun.*:34/);
    expect(at(day(6))[0]).not.toContain('2026');
    expect(at(day(13))[0]).toMatch(/Jun.*2026.*:34/);
  });
});

describe('the words of a notebook', () => {
  it('never show the unknown as 0', () => {
    expect(formatMemory(aNotebook())).toBe('');
    expect(formatMemory(aNotebook({ memory_quota_mib: 10240 }))).toBe('10 GiB');
    expect(formatMemory(aNotebook({ memory_quota_mib: 10240, memory_used_mib: 6247 }))).toBe('6.1 / 10 GiB');
    expect(describeNotebook(aNotebook({ sentence: 'Runs.' }), 2000, ENGLISH)).toBe('Runs.');
  });

  it('say what is wrong before anything else', () => {
    const trouble = 'Its device may be in other hands as well.';
    expect(
      describeNotebook(aNotebook({ trouble, idle_since: 1000, memory_quota_mib: 10240 }), 9000, ENGLISH)
    ).toBe(trouble);
  });

  it('say how long it has been idle', () => {
    expect(describeNotebook(aNotebook({ idle_since: 1000 }), 1000 + 740, ENGLISH)).toBe('Idle 12 min');
  });
});

describe('queues', () => {
  it('are said with their totals', () => {
    expect(describeGpuUsage(aQueue({ used: '1', waiting: 2, limit: '4' }), ENGLISH)).toBe(
      '0.5 guaranteed, 1 in use, at most 4, 2 waiting'
    );
  });

  it('can be sent to when they are leaves and one is a member', () => {
    const queues = [
      aQueue({ name: 'root' }),
      aQueue({ name: 'leaf', parent: 'root' }),
      aQueue({ name: 'x', member: false })
    ];
    expect(listMemberQueues(queues).map(queue => queue.name)).toEqual(['leaf']);
  });
});

describe('the cost of a pause', () => {
  const withPause = (way: 'suspended' | 'checkpoint' | 'restart', phase: JobPhase): string =>
    describePauseCost(
      aJob({ phase, pause: { way, sentence: 'As the service says.' }, saved_at: 1000, ran_seconds: 60 }),
      1300,
      ENGLISH
    );

  it.each([
    ['suspended', 'paused', /^Nothing is lost: its GPU memory is kept in host memory/],
    ['suspended', 'pausing', /^Its GPU memory is being moved to host memory/],
    ['suspended', 'starting', /^Its GPU memory is coming back/],
    [
      'suspended',
      'running',
      /^If held, or paused for other work, nothing would be lost: .* from its checkpoint of/
    ],
    [
      'checkpoint',
      'paused',
      /^It continues from its checkpoint of \d+:\d\d( [AP]M)?, or from a later one\.$/
    ],
    [
      'checkpoint',
      'running',
      /^It would continue from its checkpoint of \d+:\d\d( [AP]M)?, or from a later one\.$/
    ],
    ['restart', 'paused', /^It starts again from the beginning, since it has saved no checkpoint\.$/],
    ['restart', 'pausing', /^It starts again from the beginning, unless it saves its state/],
    [
      'restart',
      'running',
      /^It has saved no checkpoint so far, and would start again from the beginning unless it saves/
    ]
  ] as const)('%s, of a job that is %s', (way, phase, sentence) => {
    expect(withPause(way, phase)).toMatch(sentence);
  });

  const pause = { way: 'restart', sentence: 'As the service says.' } as const;

  it.each([
    ['starting', {}, 'Its code has not begun yet, so a pause loses nothing.'],
    ['pausing', {}, 'Its code has not begun yet, so nothing is lost.'],
    ['paused', {}, 'Its code has not begun yet, so nothing is lost.'],
    [
      'running',
      { running_since: 1200, continue_from: 'old' },
      'Its code has not begun yet, so a pause loses nothing.'
    ]
  ] as const)('is nothing for a job that is %s and whose code has not begun', (phase, fields, sentence) => {
    expect(describePauseCost(aJob({ phase, pause, ...fields }), 1300, ENGLISH)).toBe(sentence);
  });

  it.each([
    ['starting', { ran_seconds: 5 }],
    ['running', { running_since: 1200 }],
    ['running', { running_since: 1200, continue_from: 'old', saved_at: 1250 }],
    ['paused', { ran_seconds: undefined, running_since: undefined }]
  ])('is all work once the code of a job that is %s has begun: %j', (phase, fields) => {
    const job = aJob({ phase: phase as JobPhase, pause, ...(fields as Partial<JobSummary>) });
    expect(describePauseCost(job, 1300, ENGLISH)).toContain('start');
  });

  it('follows the reason of a pause, and is a detail of a job that runs', () => {
    const pause = { way: 'suspended', sentence: 'As the service says.' } as const;
    const paused = aJob({ phase: 'paused', sentence: 'Paused: nlp needed it back.', pause });
    expect(describeJob(paused, 1300, ENGLISH)).toBe(
      'nlp needed it back. Nothing is lost: its GPU memory is kept in host memory, and it goes on where it was.'
    );
    expect(listDetails(paused, 1300, ENGLISH).map(([term]) => term)).not.toContain('If paused');
    expect(Object.fromEntries(listDetails(aJob({ pause }), 1300, ENGLISH))).toMatchObject({
      'If paused':
        'If held, or paused for other work, nothing would be lost: its GPU memory would be moved to host memory. ' +
        'At a drain or a move, it would start again from the beginning.'
    });
  });

  it('is not told by an earlier release of the service', () => {
    expect(describePauseCost(aJob({ phase: 'paused', pause: undefined }), 1300, ENGLISH)).toBe('');
    expect(describePauseCost(aJob({ phase: 'paused' }), 1300, ENGLISH)).toBe('');
  });
});
