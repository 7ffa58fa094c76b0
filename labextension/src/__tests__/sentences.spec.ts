import { readFileSync } from 'fs';
import { resolve } from 'path';

import { makePlaceholder } from '../attach/metadata';
import type { JobPhase, NotebookPhase } from '../jobs';
import { describeJob, describeNotebook, lookOf, lookOfNotebook } from '../jobs';
import { listDetails } from '../panel/facts';
import { omitState } from '../sentences';
import type { JobSummary } from '../wire';
import { aJob, aNotebook, ENGLISH } from './builders';

/** Sentences, words and the sentences without them; `tests/unit/domain/test_phases.py` reads the same file. */
const SENTENCES = JSON.parse(
  readFileSync(resolve(__dirname, '../../../tests/data/sentences.json'), 'utf-8')
) as [string, string, string][];
/** What the service says of a job in each phase, and what stands beside the word of the phase. */
const JOBS: [JobPhase, Partial<JobSummary>, string, string][] = [
  ['waiting', {}, 'Waiting: it is considered next.', 'It is considered next.'],
  ['waiting', {}, 'Waiting: vision uses 1 GPU.', 'vision uses 1 GPU.'],
  ['waiting', { position: 2 }, 'Waiting: it needs 2 GPUs.', '2nd in line: it needs 2 GPUs.'],
  ['waiting', { position: 1 }, 'It starts soon.', '1st in line. It starts soon.'],
  ['waiting', { held_since: 9 }, 'Held by you since noon. It waits.', 'By you since noon. It waits.'],
  ['starting', {}, 'Starting on 1 GPU of A100.', 'On 1 GPU of A100.'],
  ['running', {}, 'Running on no GPU. It began with 2 tasks.', 'On no GPU. It began with 2 tasks.'],
  ['pausing', {}, 'Pausing: nlp needed it back.', 'nlp needed it back.'],
  ['pausing', {}, 'Pausing: the-boss needed it back.', 'the-boss needed it back.'],
  ['paused', {}, 'Paused: it had lost tasks. It goes on.', 'It had lost tasks. It goes on.'],
  ['paused', {}, 'Waiting: it is considered next.', 'Waiting: it is considered next.'],
  ['cancelling', {}, 'Cancelling: it has a few seconds.', 'It has a few seconds.'],
  ['failed', {}, 'Failed after 12 min.', 'After 12 min.'],
  ['failed', {}, 'Cell “train()” raised ValueError.', 'Cell “train()” raised ValueError.'],
  ['cancelled', {}, 'Cancelled.', 'Before it began'],
  ['cancelled', { ran_seconds: 65 }, 'Cancelled.', 'After 1 min 5 s'],
  ['cancelled', {}, 'Cancelled by bob.', 'By bob.']
];

describe('the sentence beside the word of a state', () => {
  it.each(SENTENCES)('is that of commands and magics: %p beside %p', (sentence, word, expected) => {
    expect(omitState(sentence, word)).toBe(expected);
  });

  it.each(JOBS)('does not repeat it: %s %j %s', (phase, given, sentence, expected) => {
    const job = aJob({ phase, progress: null, sentence, ...given });
    expect(describeJob(job, 100, ENGLISH)).toBe(expected);
    expect(lookOf(job, ENGLISH).word).not.toBe('');
  });

  it.each<[NotebookPhase, number | null, string, string]>([
    ['waiting', 3, 'Waiting: your fixed quota is used.', '3rd in line: your fixed quota is used.'],
    ['waiting', null, 'Waiting: it is considered next.', 'It is considered next.'],
    ['suspended', null, 'Suspended: your 0.5 GPU was idle.', 'Your 0.5 GPU was idle.'],
    ['stopped', null, 'Stopped: your server was idle.', 'Your server was idle.'],
    ['stopping', null, 'Stopped: your server was idle.', 'Stopped: your server was idle.']
  ])('of a notebook does not repeat it either: %s %s %s', (phase, position, sentence, expected) => {
    expect(describeNotebook(aNotebook({ phase, position, sentence }), 100, ENGLISH)).toBe(expected);
    expect(lookOfNotebook(phase, ENGLISH).word).not.toBe('');
  });

  it('is in the details beside the term of a pause', () => {
    const eviction = { at: 100, reason: 'RECLAIMED', sentence: 'Paused: nlp needed it.', by: null } as const;
    const details = Object.fromEntries(listDetails(aJob({ eviction }), 100, ENGLISH));
    expect(details['Paused']).toMatch(/^nlp needed it\. \(/);
  });

  it.each([
    ['cancelled', 'Cancelled.', /: cancelled [^.]*\. After 5 s$/],
    ['failed', 'Failed after 12 min.', /: failed [^.]*\. After 12 min\.$/]
  ] as const)('is in a file for readers without the extension: %s', (phase, sentence, expected) => {
    const job = aJob({ phase, sentence, finished_at: 100, ran_seconds: 5, error: null });
    expect(makePlaceholder(job).data['text/plain']).toMatch(expected);
  });
});
