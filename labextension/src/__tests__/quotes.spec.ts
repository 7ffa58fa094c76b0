import { readdirSync, readFileSync, statSync } from 'fs';
import { join } from 'path';

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

it('has one kind of quotation marks in all that the page says', () => {
  const straight =
    /__?n?\(\s*(?:'[^']*"[^']*'|"[^"]*'%\d'[^"]*"|'(?:[^'\\]|\\.)*\\'%\d\\'|`[^`]*["'][^`]*`)/g;
  const found = listSources(join(__dirname, '..')).flatMap(path =>
    [...readFileSync(path, 'utf-8').matchAll(straight)].map(each => `${path}: ${each[0]}`)
  );
  expect(found).toEqual([]);
});
