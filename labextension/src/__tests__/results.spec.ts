import { describeReasons, describeVariables, formatBytes, listLoadable, makeLoadingCode } from '../results';
import { ENGLISH, someResults } from './builders';

const [VARIABLE] = someResults().variables;
const LOST = { ...VARIABLE, name: 'lock', bytes: null, reason: 'It cannot be pickled.' };

it('says what can be loaded, with sizes, and what did not come back', () => {
  expect(describeVariables(someResults(), false, ENGLISH)).toBe('model (12 MB) can be loaded');
  expect(describeVariables(someResults(), true, ENGLISH)).toBe('model (12 MB) loaded into the notebook');
  const variables = [VARIABLE, { ...VARIABLE, name: 'loss', bytes: 130 }, LOST];
  const results = someResults('', { variables });
  expect(describeVariables(results, false, ENGLISH)).toBe(
    'model (12 MB) and loss (130 B) can be loaded; lock did not come back'
  );
  expect(describeReasons(results)).toEqual(['lock: It cannot be pickled.']);
  expect(listLoadable(results).map(variable => variable.name)).toEqual(['model', 'loss']);
});

it('makes code that the user can read and run again', () => {
  expect(makeLoadingCode('job-1', ['model', 'loss'])).toBe(
    'import jupyter_gq\nmodel = jupyter_gq.result("job-1", "model")\nloss = jupyter_gq.result("job-1", "loss")'
  );
});

it('loads a variable of the name of the package after all others', () => {
  expect(makeLoadingCode('job-1', ['jupyter_gq', 'K']).split('\n')).toEqual([
    'import jupyter_gq',
    'K = jupyter_gq.result("job-1", "K")',
    'jupyter_gq = jupyter_gq.result("job-1", "jupyter_gq")'
  ]);
});

it('shows sizes as people write them', () => {
  expect([0, 999, 1000, 1_234_000, 12_300_000, 5e12].map(formatBytes)).toEqual([
    '0 B',
    '999 B',
    '1.0 kB',
    '1.2 MB',
    '12 MB',
    '5.0 TB'
  ]);
});
