import { nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import type { IOutlookProps } from '../send/outlook';
import { describeWait, Outlook } from '../send/outlook';
import { NO_SWEEP } from '../send/sweep';
import type { IFormValues } from '../send/values';
import { proposeValues } from '../send/values';
import type { Alternative, Preview } from '../wire';
import { aMe, aQueue, WOULD_WAIT } from './builders';
import { all, clearScreen, perform, show, words } from './screen';

const trans = nullTranslator.load('jupyter_gq');
const VALUES = proposeValues({}, aMe({ queues: [aQueue()] }), 'a.ipynb', 'a');

function anAlternative(given: Partial<Alternative> = {}): Alternative {
  return {
    label: '0.5 GPU',
    sentence: '0.5 GPU would start now, within the quota.',
    queue: 'vision',
    gpus: '0.5',
    gpu_model: null,
    starts_now: true,
    over_quota: null,
    expected_start: null,
    ...given
  };
}

function aPreview(given: Partial<Preview> = {}): Preview {
  return {
    ...WOULD_WAIT,
    over_quota: null,
    gpus: '1',
    cpus: null,
    memory: null,
    max_seconds: null,
    ...given
  };
}

/** Show a prediction; return the values that the user takes over from alternatives. */
async function ask(preview: Preview, given: Partial<IOutlookProps> = {}): Promise<IFormValues[]> {
  const taken: IFormValues[] = [];
  const idle = { slow: false, withdrawn: false, asking: false, sending: false, now: 1000 };
  const props = { ...idle, preview, problem: null, values: VALUES, sweep: NO_SWEEP, trans };
  await show(<Outlook {...props} onValues={values => taken.push(values)} {...given} />);
  return taken;
}

afterEach(() => clearScreen());

describe('the alternatives', () => {
  it('are buttons, each with what would happen', async () => {
    const queue = anAlternative({
      label: 'The queue nlp',
      sentence: 'The queue nlp would probably start within 4 min.',
      queue: 'nlp',
      gpus: '1'
    });
    await ask(aPreview({ alternatives: [anAlternative(), queue] }));
    expect(all('[aria-label="Alternatives"] li').map(words)).toEqual([
      '0.5 GPU would start now, within the quota.',
      'The queue nlp would probably start within 4 min.'
    ]);
    expect(all('[aria-label="Alternatives"] button').map(words)).toEqual(['0.5 GPU', 'The queue nlp']);
  });

  it('change the fields with one click and keep all other values', async () => {
    const values = { ...VALUES, name: 'mine', model: 'H100', cpus: '4' };
    const offer = anAlternative({ queue: 'nlp', gpus: '0.5', gpu_model: 'A100' });
    const taken = await ask(aPreview({ alternatives: [offer] }), { values });
    await perform(() => all('[aria-label="Alternatives"] button')[0].click());
    expect(taken).toEqual([{ ...values, queue: 'nlp', gpus: '0.5', model: 'A100' }]);
  });

  it('leave the focus inside of the dialog when they go away', async () => {
    await ask(aPreview({ alternatives: [anAlternative()] }));
    const offer = all('[aria-label="Alternatives"] button')[0];
    offer.focus();
    await perform(() => offer.click());
    expect(document.activeElement).toBe(all('[aria-label="Forecast"]')[0]);
  });

  it('are shown beside a refusal of another field, with the forecast', async () => {
    const preview = aPreview({ alternatives: [anAlternative()] });
    await ask(preview, { problem: { code: 'invalid', message: 'No name.', field: 'returns' } });
    expect(all('[aria-label="Alternatives"]')).toHaveLength(1);
    expect(words(all('[aria-label="Forecast"]')[0])).toContain(preview.sentence);
  });

  it('are not shown during an outage or while no answer comes', async () => {
    const preview = aPreview({ alternatives: [anAlternative()] });
    await ask(preview, { problem: { code: 'service_unavailable', message: 'Away.', field: null } });
    expect(all('[aria-label="Alternatives"]')).toEqual([]);
    expect(words(all('[aria-label="Forecast"]')[0])).toBe('');
    await ask(preview, { slow: true });
    expect(all('[aria-label="Alternatives"]')).toEqual([]);
  });
});

describe('the outlook of a sweep', () => {
  const forecast = (): string => words(all('[aria-label="Forecast"]')[0]);
  const preview = aPreview({ starts_now: true, sentence: 'Starts now, within the quota.' });

  it('is that of its first job', async () => {
    await ask(preview, { sweep: { ...NO_SWEEP, values: { lr: '0.1, 0.2', depth: '1, 2, 3' } } });
    expect(forecast()).toBe(
      'The first of 6 jobs: Starts now, within the quota. When the others start is not known.'
    );
  });

  it('is empty while a value cannot vary or the jobs are too many', async () => {
    for (const lr of ['0.1, oops', Array.from(Array(201).keys()).join()]) {
      await ask(preview, { sweep: { ...NO_SWEEP, values: { lr } } });
      expect(forecast()).toBe('');
    }
  });

  it('of one job is that of the job', async () => {
    await ask(preview, { sweep: { ...NO_SWEEP, values: { lr: '0.1' } } });
    expect(forecast()).toBe('Starts now, within the quota.');
  });
});

describe('the outlook of a job that waits', () => {
  it('has its place and its start as a range', () => {
    const expected_start = { p50: 1240, p90: 1840, outcomes: 3 };
    expect(describeWait(aPreview({ expected_start }), 1000, trans)).toBe(
      '2nd in line. Probably starts within 4 min, almost surely within 15 min.'
    );
  });

  it('says so if its start is not known', () => {
    expect(describeWait(aPreview({ position: null }), 1000, trans)).toBe('The start is not known.');
  });

  it('says nothing about a wait if there is none', () => {
    expect(describeWait(aPreview({ starts_now: true, position: null }), 1000, trans)).toBe('');
  });
});
