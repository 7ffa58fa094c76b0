import type { JobPhase } from '../jobs';
import type { IPresentWork } from '../send/present';
import { askAboutPresentWork, cancelPresentWork, findPresentWork } from '../send/present';
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

/** Ask about the sweep of a cell, one job of which the page knows; return the work and the words of the question. */
async function ask(): Promise<{ work: IPresentWork; said: string; answer: Promise<string | null> }> {
  const job = swept(2, 'waiting');
  training.state = { ...training.state, jobs: [job, aJob({ id: 'other' })] };
  const work = await findPresentWork(training, job);
  let answer: Promise<string | null> = Promise.resolve(null);
  await perform(() => {
    answer = askAboutPresentWork(work, ENGLISH);
    answer.catch(() => undefined);
  });
  return { work, said: words(document.querySelector('.jp-Dialog')), answer };
}

beforeEach(() => {
  training = new FakeTraining();
  serverKnows('done', 'running', 'waiting', 'waiting');
});
afterEach(clearScreen);

describe('the sweep of a cell that is sent again', () => {
  it('is named with the states of its jobs', async () => {
    const { said } = await ask();
    expect(said).toContain('The sweep “digits” in vision, 4 jobs: 1 done, 1 running, 2 waiting.');
    expect(said).toContain('Replacing it cancels the 3 jobs that are left.');
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
    const { said } = await ask();
    expect(said).toContain('1 job: 1 waiting. Replacing it cancels the 1 job that is left.');
  });
});
