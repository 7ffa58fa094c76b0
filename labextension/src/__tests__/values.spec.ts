import { readFileSync } from 'fs';
import { resolve } from 'path';

import { describeHostUsage } from '../queues';
import { readDuration } from '../send/duration';
import type { IFormValues } from '../send/values';
import {
  describeRequest,
  formatDefault,
  canChooseModel,
  formatHint,
  summarizeValues,
  findPool,
  proposeValues,
  readRemembered,
  selectRemembered,
  makeRequest,
  addUnit
} from '../send/values';
import { parseSpan } from '../times';
import { ENGLISH, aPool, aQueue } from './builders';

/** Texts with their seconds; `tests/unit/notebook/test_durations.py` reads the same file. */
const SPANS = JSON.parse(readFileSync(resolve(__dirname, '../../../tests/data/durations.json'), 'utf-8')) as [
  string,
  number | null
][];

const NOTHING: IFormValues = {
  name: 'digits',
  queue: 'vision',
  gpus: '1',
  gpuMemory: '',
  tasks: '',
  minTasks: '',
  cpus: '',
  memory: '',
  model: '',
  expected: '',
  maxTime: '',
  priority: '',
  software: '',
  continueFrom: ''
};
const ALL: IFormValues = {
  ...NOTHING,
  cpus: ' 4 ',
  memory: '16',
  model: 'H100',
  expected: '2 h',
  maxTime: ' 1 d '
};
const OFFER = { models: ['A100', 'H100'], maxPriority: 0, maxSeconds: null };

describe('what is asked for', () => {
  it('says null for what is left empty', () => {
    expect(makeRequest(NOTHING, OFFER, ENGLISH)).toEqual({
      name: 'digits',
      queue: 'vision',
      gpus: '1',
      gpu_memory: null,
      tasks: 1,
      min_tasks: null,
      cpus: null,
      memory: null,
      gpu_model: null,
      expected_seconds: null,
      max_seconds: null,
      priority: 0,
      software: ''
    });
  });

  it('names the job to continue from only if the user wants that: an earlier service does not know the field', () => {
    expect(makeRequest({ ...NOTHING, continueFrom: 'job-1' }, OFFER, ENGLISH)).toMatchObject({
      continue_from: 'job-1'
    });
    expect(makeRequest(NOTHING, OFFER, ENGLISH)).not.toHaveProperty('continue_from');
  });

  it('sends what is written, and seconds', () => {
    expect(makeRequest(ALL, OFFER, ENGLISH)).toMatchObject({
      cpus: '4',
      memory: '16',
      gpu_model: 'H100',
      expected_seconds: 7200,
      max_seconds: 86400
    });
  });

  it('asks for GPU memory of one GPU, whatever number is chosen', () => {
    const byMemory = { ...ALL, gpus: '0', gpuMemory: ' 12 GB ' };
    expect(makeRequest(byMemory, OFFER, ENGLISH)).toMatchObject({
      gpus: '1',
      gpu_memory: '12 GB',
      gpu_model: 'H100'
    });
    expect(summarizeValues({ ...NOTHING, gpuMemory: '12', tasks: '4' }, OFFER, ENGLISH)).toBe(
      '12 GiB of GPU memory · 4 tasks'
    );
  });

  it('is wrong where the number of tasks is none that the service takes', () => {
    const of = (tasks: string): unknown => makeRequest({ ...NOTHING, tasks }, OFFER, ENGLISH);
    expect([of('0'), of('65'), of('-1'), of('1.5'), of('two')]).toEqual(
      Array(5).fill(expect.objectContaining({ field: 'tasks' }))
    );
    expect([of(' 4 '), of('64')]).toEqual([
      expect.objectContaining({ tasks: 4 }),
      expect.objectContaining({ tasks: 64 })
    ]);
  });

  it('asks for a least number of tasks that is at most the number of tasks', () => {
    const of = (tasks: string, minTasks: string): unknown =>
      makeRequest({ ...NOTHING, tasks, minTasks }, OFFER, ENGLISH);
    expect([of('4', '2'), of('4', ' 4 '), of('4', '')]).toEqual([
      expect.objectContaining({ tasks: 4, min_tasks: 2 }),
      expect.objectContaining({ tasks: 4, min_tasks: 4 }),
      expect.objectContaining({ tasks: 4, min_tasks: null })
    ]);
    expect([of('4', '5'), of('', '2'), of('4', '0'), of('4', 'two')]).toEqual(
      Array(4).fill(expect.objectContaining({ field: 'min_tasks' }))
    );
    expect(summarizeValues({ ...NOTHING, tasks: '4', minTasks: '2' }, OFFER, ENGLISH)).toBe('2 to 4 tasks');
  });

  it('names no model where none can be chosen', () => {
    expect(makeRequest(ALL, { ...OFFER, models: ['H100'] }, ENGLISH)).toMatchObject({ gpu_model: null });
    expect(makeRequest(ALL, { ...OFFER, models: ['A100', 'V100'] }, ENGLISH)).toMatchObject({
      gpu_model: null
    });
    expect(makeRequest({ ...ALL, gpus: '0' }, OFFER, ENGLISH)).toMatchObject({ gpu_model: null });
    expect([canChooseModel(ALL, OFFER.models), canChooseModel(ALL, ['H100'])]).toEqual([true, false]);
  });

  it('is wrong at its field where a length of time cannot be read', () => {
    expect(makeRequest({ ...ALL, expected: 'soon' }, OFFER, ENGLISH)).toEqual({
      code: 'invalid_duration',
      field: 'expected_seconds',
      message:
        '“soon” is not a length of time. Write a number with a unit, such as 45 min, 2 h 30 min or 3 d.'
    });
  });

  it('is wrong at the field for the maximum time, too', () => {
    const of = (maxTime: string): unknown => makeRequest({ ...NOTHING, maxTime }, OFFER, ENGLISH);
    expect([of('soon'), of('0.5s'), of('3661 d')]).toEqual(
      Array(3).fill(expect.objectContaining({ code: 'invalid_duration', field: 'max_seconds' }))
    );
    expect(summarizeValues({ ...NOTHING, maxTime: '2 h' }, OFFER, ENGLISH)).toBe('at most 2 h');
  });

  it('is wrong where the service would not take it', () => {
    expect(makeRequest({ ...ALL, expected: '3660 d' }, OFFER, ENGLISH)).toHaveProperty(
      'expected_seconds',
      316224000
    );
    expect(makeRequest({ ...ALL, expected: '3661 d' }, OFFER, ENGLISH)).toHaveProperty(
      'field',
      'expected_seconds'
    );
  });

  it('is wrong where the priority is no whole number, or not allowed in the queue', () => {
    const of = (priority: string, maxPriority = 0): unknown =>
      makeRequest({ ...NOTHING, priority }, { ...OFFER, maxPriority }, ENGLISH);
    expect([of('1'), of('-101'), of('0.5'), of('1e1'), of('high')]).toEqual(
      Array(5).fill(expect.objectContaining({ field: 'priority' }))
    );
    expect([of('-100'), of(' 0 '), of('7', 7)]).toEqual([
      expect.objectContaining({ priority: -100 }),
      expect.objectContaining({ priority: 0 }),
      expect.objectContaining({ priority: 7 })
    ]);
  });

  it('is said in short beside the closed section', () => {
    expect(summarizeValues(NOTHING, OFFER, ENGLISH)).toBe('');
    expect(summarizeValues(ALL, OFFER, ENGLISH)).toBe(
      '4 CPU cores · 16 GiB · H100 · about 2 h · at most 1 d'
    );
    expect(summarizeValues({ ...NOTHING, cpus: '1', expected: 'soon' }, OFFER, ENGLISH)).toBe(
      '1 CPU core · soon'
    );
    expect(['512 MiB', '1.5'].map(addUnit)).toEqual(['512 MiB', '1.5 GiB']);
  });

  it('is remembered without the name, and read back whatever was kept', () => {
    expect(readRemembered(selectRemembered(ALL, 'a.ipynb'))).toEqual({
      notebook: 'a.ipynb',
      queue: 'vision',
      gpus: '1',
      gpuMemory: '',
      cpus: ' 4 ',
      memory: '16',
      model: 'H100',
      expected: '2 h'
    });
    expect([
      readRemembered(undefined),
      readRemembered(null),
      readRemembered('x'),
      readRemembered({ cpus: 4, gpus: '1' })
    ]).toEqual([{}, {}, {}, { gpus: '1' }]);
  });

  it('is proposed again where it is still possible', () => {
    const me = { queues: [aQueue(), aQueue({ name: 'nlp' })], largest_request: '4' };
    const kept = selectRemembered({ ...ALL, queue: 'nlp', gpus: '4' }, 'a.ipynb');
    expect(proposeValues(kept, me, 'a.ipynb', 'a')).toEqual({
      ...ALL,
      name: 'a',
      queue: 'nlp',
      gpus: '4',
      maxTime: ''
    });
    expect(proposeValues({}, me, 'a.ipynb', 'a')).toEqual({ ...NOTHING, name: 'a' });
    expect(proposeValues(kept, { ...me, queues: [aQueue()] }, 'a.ipynb', 'a').queue).toBe('vision');
    expect(proposeValues(kept, me, 'b.ipynb', 'b')).toMatchObject({ expected: '', cpus: ' 4 ' });
  });

  it('is proposed with as many GPUs as can be chosen', () => {
    const gpus = (largest: string): string =>
      proposeValues({ gpus: '4' }, { queues: [aQueue()], largest_request: largest }, '', '').gpus;
    expect(['8', '4', '2', '0.5', '0.3', '0'].map(gpus)).toEqual(['4', '4', '1', '0.5', '0.25', '0']);
  });

  it('has hints with what the queue gives and the most there is', () => {
    const bounds = { quota: null, limit: null, used: '0', default: '2' };
    expect([formatHint('cores', '8', ENGLISH), formatHint('GiB', null, ENGLISH)]).toEqual([
      'cores, at most 8',
      'GiB'
    ]);
    expect([formatDefault(bounds, ENGLISH), formatDefault({ ...bounds, default: null }, ENGLISH)]).toEqual([
      '2 by default',
      ''
    ]);
    const pools = ['build', 'train'].map(name => aPool({ name }));
    expect([findPool(aQueue(), pools)?.name, findPool(undefined, pools)]).toEqual(['train', undefined]);
  });

  it('stands with the job', () => {
    const job = {
      gpus: '0.5',
      gpu_memory: null,
      cpus: null,
      memory: null,
      gpu_model: null,
      preferred_gpu_models: [],
      expected_seconds: null,
      priority: 0
    };
    expect(describeRequest(job, ENGLISH)).toBe('0.5 GPU');
    expect(
      describeRequest(
        {
          ...job,
          gpus: '2',
          cpus: '1',
          memory: '16 GiB',
          gpu_model: 'H100',
          expected_seconds: 90,
          priority: -5
        },
        ENGLISH
      )
    ).toBe('2 GPUs of H100, 1 CPU core, 16 GiB of memory, expected to run 1 min 30 s, priority -5');
    expect(
      describeRequest(
        {
          ...job,
          gpus: '0.3',
          gpu_memory: '12 GiB',
          preferred_gpu_models: ['H100', 'A100']
        },
        ENGLISH
      )
    ).toBe('12 GiB of GPU memory (0.3 GPU), H100, then A100 preferred');
  });
});

describe('a queue', () => {
  it('says what of CPU and memory is in use where it has bounds of them', () => {
    const cpus = { quota: '32', limit: '48', used: '12', default: null };
    const memory = { quota: null, limit: '512 GiB', used: '64 GiB', default: null };
    expect(describeHostUsage(aQueue(), ENGLISH)).toBe('');
    expect(describeHostUsage(aQueue({ cpus, memory }), ENGLISH)).toBe(
      '12 of 32 CPU cores, 64 GiB of at most 512 GiB of memory'
    );
  });
});

describe('a length of time', () => {
  it.each([
    ['90', null],
    ['0 min', null],
    ['', null]
  ])('%p is %p seconds', (text, seconds) => {
    expect(parseSpan(text)).toBe(seconds);
  });

  it.each(SPANS)('is read as by commands and magics: %p is %p seconds', (text, seconds) => {
    const found = readDuration(text, 'max_seconds', ENGLISH);
    if (seconds === null) {
      expect(found).toMatchObject({ code: 'invalid_duration', field: 'max_seconds' });
    } else {
      expect(found).toBeCloseTo(seconds);
    }
  });
});
