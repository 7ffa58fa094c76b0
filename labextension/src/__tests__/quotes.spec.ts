import { readdirSync, readFileSync, statSync } from 'fs';
import { join } from 'path';

import { readProblem } from '../hub';
import { showQuotes, showQuotesOfPlan } from '../quotes';
import { showSentence } from '../sentences';
import { aPlan } from './builders';

/** Return the sources of the product, without tests and generated types. */
function listSources(folder: string): string[] {
  return readdirSync(folder).flatMap(name => {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) {
      return name === '__tests__' ? [] : listSources(path);
    }
    return /\.tsx?$/.test(name) && name !== 'wire.ts' ? [path] : [];
  });
}

describe('what a server quotes', () => {
  it.each([
    ["The name 'a b' is taken.", 'The name “a b” is taken.'],
    ["'digits' is waiting.", '“digits” is waiting.'],
    ['"it\'s" stays: it is a link.', "“it's” stays: it is a link."],
    ["Models are 'H200', 'A100' and 'T4'.", 'Models are “H200”, “A100” and “T4”.'],
    [
      "This folder is '/home/ann', where the kernel was started.",
      'This folder is “/home/ann”, where the kernel was started.'
    ]
  ])('has the quotation marks of the page: %s', (sentence, shown) => {
    expect(showQuotes(sentence)).toBe(shown);
    expect(showQuotes(shown)).toBe(shown);
  });

  it.each([
    "the job's files and the users' quotas",
    "run sys.path.insert(0, 'lib') in a cell before",
    'jupyter_gq.job("job-4f1c").cancel() ends it',
    "ValueError: could not convert 'a"
  ])('is left as it is in code and with apostrophes: %s', sentence => {
    expect(showQuotes(sentence)).toBe(sentence);
  });

  it('is the same in sentences, problems and plans', () => {
    expect(showSentence("'a' waits for `import b`.", 0)).toBe('“a” waits for “import b”.');
    const body = { code: 'unknown_queue', message: "There is no queue 'nlp'." };
    expect(readProblem({ status: 422 } as Response, body).message).toBe('There is no queue “nlp”.');
    const warning = { code: 'edited', message: "writes 'a.csv'.", index: null, cell_id: null } as const;
    const files = {
      going: [],
      staying: [],
      notes: ["'x' stays."],
      own_folder: false,
      pattern_notes: ["'y' fits."]
    };
    const shown = showQuotesOfPlan(aPlan({ warnings: [warning], files }));
    expect([shown.warnings[0].message, ...shown.files.notes, ...shown.files.pattern_notes]).toEqual([
      'writes “a.csv”.',
      '“x” stays.',
      '“y” fits.'
    ]);
  });
});

it('has one kind of quotation marks in all that the page says', () => {
  const straight =
    /__?n?\(\s*(?:'[^']*"[^']*'|"[^"]*'%\d'[^"]*"|'(?:[^'\\]|\\.)*\\'%\d\\'|`[^`]*["'][^`]*`)/g;
  const found = listSources(join(__dirname, '..')).flatMap(path =>
    [...readFileSync(path, 'utf-8').matchAll(straight)].map(each => `${path}: ${each[0]}`)
  );
  expect(found).toEqual([]);
});
