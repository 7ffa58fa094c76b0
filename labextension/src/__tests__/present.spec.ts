import type { JobPhase } from '../jobs';
import type { IPresentWork } from '../send/present';
import { askAboutPresentWork, cancelPresentWork, describeReplaced, findPresentWork } from '../send/present';
import type { JobView } from '../wire';
import { ENGLISH, aJob } from './builders';
import { FakeTraining, settle } from './fakes';
import { clearScreen, perform, press, words } from './screen';

let training: FakeTraining;

const swept = (at: number, phase: JobPhase): JobView =>
  aJob({ id: `job-${at}`, name: `digits lr=0.${at}`, group: 'sweep-1', phase });

/** Let the server know the jobs of the sweep in these phases. */
function serverKnows(...phases: JobPhase[]): void {
  training.server.answer('GET jobs', { jobs: phases.map((phase, at) => swept(at, phase)), next: null });
}

const said = (): string => words(document.querySelector('.jp-Dialog'));

/** Ask about the job of a cell, which the page knows; return the work, and the answer to come. */
async function ask(
  job = swept(2, 'waiting')
): Promise<{ work: IPresentWork; answer: Promise<string | null> }> {
  training.state = { ...training.state, jobs: [job, aJob({ id: 'other' })] };
  const work = await findPresentWork(training, job);
  let answer: Promise<string | null> = Promise.resolve(null);
  await perform(() => {
    answer = askAboutPresentWork(training, work, ENGLISH);
    answer.catch(() => undefined);
  });
  return { work, answer };
}

beforeEach(() => {
  training = new FakeTraining();
  serverKnows('done', 'running', 'waiting', 'waiting');
});
afterEach(clearScreen);

it('the job of a cell that is sent again is said to have ended once it has, and is not cancelled then', async () => {
  const job = aJob({ phase: 'running' });
  const { work, answer } = await ask(job);
  expect(said()).toContain(
    '“digits” in vision: Running. Replacing it cancels this job, once the new one is accepted.'
  );
  expect(describeReplaced(training, work, ENGLISH)).toBe(
    '“digits” is cancelled once this job is accepted. The forecast still counts it.'
  );
  await perform(() => training.recordJob({ ...job, phase: 'done' }));
  expect(said()).toContain('“digits” in vision has ended by now: Done.');
  expect(said()).not.toContain('Replacing it');
  expect(describeReplaced(training, work, ENGLISH)).toBe('');
  await press('Replace it');
  expect(await answer).toBe('replace');
  await cancelPresentWork(training, work, ENGLISH);
  expect(training.server.asked).toEqual([]);
});

describe('the sweep of a cell that is sent again', () => {
  it('is named with the states of its jobs', async () => {
    const { work } = await ask();
    expect(describeReplaced(training, work, ENGLISH)).toBe(
      'The 3 jobs that are left of the sweep “digits” are cancelled once this one is accepted. ' +
        'The forecast still counts them.'
    );
    expect(said()).toContain('The sweep “digits” in vision, 4 jobs: 1 done, 1 running, 2 waiting.');
    expect(said()).toContain('Replacing it cancels the 3 jobs that are left.');
  });

  it('is named with states that follow its jobs', async () => {
    await ask();
    await perform(() => training.recordJob(swept(2, 'done')));
    expect(said()).toContain(
      '4 jobs: 2 done, 1 running, 1 waiting. Replacing it cancels the 2 jobs that are left.'
    );
  });

  it('that has ended meanwhile is said to have, and nothing would be cancelled', async () => {
    await ask();
    for (const number of [1, 2, 3]) {
      await perform(() => training.recordJob(swept(number, 'done')));
    }
    expect(said()).toContain('4 jobs: 4 done. All of its jobs have ended or are being cancelled by now.');
    expect(said()).not.toContain('Replacing it cancels');
  });

  it('is replaced as a whole: all its jobs that have not ended by then are cancelled', async () => {
    training.server.answer('POST cancel', { jobs: [], refused: [] });
    const { work, answer } = await ask();
    await press('Replace it');
    expect(await answer).toBe('replace');
    serverKnows('done', 'done', 'running', 'waiting');
    await cancelPresentWork(training, work, ENGLISH);
    await settle();
    expect(training.server.bodies).toEqual([{ jobs: ['job-2', 'job-3'] }]);
  });

  it('is named from what the page knows if the server cannot say', async () => {
    training.server.answer('GET jobs', { code: 'service_unavailable', message: 'Later.' }, 503);
    await ask();
    expect(said()).toContain('1 job: 1 waiting. Replacing it cancels the 1 job that is left.');
  });
});
