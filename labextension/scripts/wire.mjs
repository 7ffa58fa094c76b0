// Writes `src/wire.ts`, the types of what travels between the extension and its Jupyter server, from `openapi.json`.
// With `--check` it writes nothing and exits with 1 if the file is out of date.

import { readFileSync, writeFileSync } from 'node:fs';

import openapiTS, { astToString } from 'openapi-typescript';

const DOCUMENT = new URL('../openapi.json', import.meta.url);
const TYPES = new URL('../src/wire.ts', import.meta.url);
const HEAD =
  '/** Types of what travels between this extension and its Jupyter server. Made by `make docs`: do not edit. */\n\n';

// The document has neither routes nor webhooks: their empty types would only be noise.
const NOISE = ['$defs', 'operations', 'paths', 'webhooks'];

const nodes = await openapiTS(DOCUMENT, {
  defaultNonNullable: false,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true
});
const text = HEAD + astToString(nodes.filter(node => !NOISE.includes(node.name?.text)));

if (!process.argv.includes('--check')) {
  writeFileSync(TYPES, text);
} else if (readFileSync(TYPES, 'utf-8') !== text) {
  console.error('src/wire.ts is out of date. Run: make docs');
  process.exitCode = 1;
}
