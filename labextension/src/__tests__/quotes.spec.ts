import { readdirSync, readFileSync, statSync } from 'fs';
import { join } from 'path';

/** A call of the translation function with straight quotation marks in its text, or in that for several. */
const STRAIGHT =
  /__?n?\(\s*(?:(?:'(?:[^'\\]|\\.)*'|"[^"]*")\s*,\s*)?(?:'[^']*"[^']*'|"[^"]*'%\d'[^"]*"|'(?:[^'\\]|\\.)*\\'%\d\\'|`[^`]*["'][^`]*`)/g;

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

function find(source: string): string[] {
  return [...source.matchAll(STRAIGHT)].map(each => each[0]);
}

it('has one kind of quotation marks in all that the page says', () => {
  const sources = listSources(join(__dirname, '..'));
  const texts = sources.map(path => readFileSync(path, 'utf-8'));
  expect(texts.filter(text => /\b__\(/.test(text)).length).toBeGreaterThan(10);
  expect(texts.flatMap((text, at) => find(text).map(each => `${sources[at]}: ${each}`))).toEqual([]);
});

it.each([
  `trans.__('Delete "%1"?', name)`,
  `trans.__(\n  'Delete "%1"?',\n  name\n)`,
  `trans.__("Delete '%1'?", name)`,
  `trans.__('Delete \\'%1\\'?', name)`,
  'trans.__(`Delete "%1"?`, name)',
  "trans.__(`Delete '%1'?`, name)",
  `trans._n('Delete "%2"', 'Delete %1 jobs', count, name)`,
  `trans._n('Delete one', 'Delete %1 of "%2"', count, name)`
])('finds straight quotation marks in %s', source => {
  expect(find(source)).toHaveLength(1);
});

it.each([`trans.__('Delete “%1”?', name)`, `trans.__("The job's name: %1", name)`, `open("'%1'")`])(
  'finds none in %s',
  source => {
    expect(find(source)).toEqual([]);
  }
);
