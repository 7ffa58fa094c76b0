/** The page on this extension says what the extension has: commands with their arguments, settings, services. */

import { readFileSync } from 'fs';
import { join } from 'path';

import { StatusBar } from '@jupyterlab/statusbar';
import { DisposableDelegate } from '@lumino/disposable';
import { RenderMimeRegistry } from '@jupyterlab/rendermime';

import { panelIcon, trainIcon } from '../icons';
import * as entry from '../index';
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { FakeApp, FakeTraining } from './fakes';
import { FakeTracker } from './notebooks';

const ROOT = join(__dirname, '../../..');
const PAGE = readFileSync(join(ROOT, 'docs/reference/lab.md'), 'utf8');
const SCHEMA = JSON.parse(readFileSync(join(ROOT, 'labextension/schema/plugin.json'), 'utf8')) as {
  properties: Record<string, { title: string; default: unknown }>;
};
const plugins: readonly JupyterFrontEndPlugin<unknown>[] = entry.default;

let app: FakeApp;

beforeEach(async () => {
  app = new FakeApp();
  const services: Readonly<Record<string, unknown>> = {
    'jupyter-gq:ITraining': new FakeTraining(),
    'jupyter-gq:INewsFeed': { listen: () => new DisposableDelegate(() => undefined) },
    'jupyter-gq:IRunHistory': { isComplete: () => false, listRuns: () => [] },
    'jupyter-gq:ICellOutputs': { bind: () => Promise.resolve() },
    'jupyter-gq:ISender': { send: () => Promise.resolve(null) },
    '@jupyterlab/notebook:INotebookTracker': new FakeTracker(),
    '@jupyterlab/statusbar:IStatusBar': new StatusBar(),
    '@jupyterlab/rendermime:IRenderMimeRegistry': new RenderMimeRegistry()
  };
  for (const plugin of plugins) {
    const tokens = [...(plugin.requires ?? []), ...(plugin.optional ?? [])];
    await plugin.activate(app.frontEnd, ...tokens.map(token => services[token.name] ?? null));
  }
});
afterEach(async () => {
  for (const plugin of plugins) {
    await plugin.deactivate?.(app.frontEnd);
  }
});

/** Return the rows of the table below a heading, each as its cells. */
function readTable(heading: string): string[][] {
  const [, part] = PAGE.split(`\n## ${heading}\n`);
  return part
    .split('\n## ')[0]
    .split('\n')
    .filter(line => line.startsWith('| `'))
    .map(line => line.split('|').map(cell => cell.trim()))
    .map(cells => cells.slice(1, -1));
}

it('each command is on the page, with its label and the arguments that its schema describes', async () => {
  const rows: string[][] = [];
  for (const id of app.commands.listCommands()) {
    const { args } = await app.commands.describedBy(id);
    expect(args).toMatchObject({ type: 'object', properties: expect.any(Object) as object });
    const names = Object.keys((args as unknown as { properties: object }).properties);
    rows.push([`\`${id}\``, app.commands.label(id), names.map(name => `\`${name}\``).join(', ')]);
  }
  const sort = (table: string[][]): string[] => table.map(row => row.join(' | ')).sort();
  expect(sort(readTable('Commands'))).toEqual(sort(rows));
  expect(app.commands.listCommands().sort()).toEqual(Object.values(entry.CommandIDs).sort());
});

it('one icon stands for sending and another one for the panel', () => {
  const icons = app.commands.listCommands().map(id => [id, app.commands.icon(id)] as const);
  const shown = icons.filter(([, icon]) => Boolean(icon));
  expect(new Map(shown)).toEqual(
    new Map([
      [entry.CommandIDs.sendCell, trainIcon],
      [entry.CommandIDs.openPanel, panelIcon]
    ])
  );
});

it('each argument of a command says what it is', async () => {
  for (const id of app.commands.listCommands()) {
    const { args } = await app.commands.describedBy(id);
    const { properties } = args as unknown as { properties: Record<string, { description?: string }> };
    Object.values(properties).forEach(property => expect(property.description).toMatch(/^[A-Z].+\.$/));
  }
});

it('each setting is on the page, with its default', () => {
  const rows = Object.entries(SCHEMA.properties).map(([name, { title, default: value }]) => [
    `\`${name}\``,
    `\`${String(value)}\``,
    title
  ]);
  expect(readTable('Settings')).toEqual(rows);
});

it('each service that a plugin provides is on the page and can be imported', () => {
  const provided = plugins.flatMap(plugin => (plugin.provides ? [plugin.provides] : []));
  const rows = provided.map(token => [`\`${token.name}\``, token.description ?? '']);
  expect(readTable('Services for other extensions').sort()).toEqual(rows.sort());
  expect(provided.every(token => Object.values(entry).includes(token as never))).toBe(true);
});
