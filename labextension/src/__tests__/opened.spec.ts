import { PromiseDelegate } from '@lumino/coreutils';

import { send } from '../plugins/send';
import type { ICellOutputs, IRunHistory } from '../tokens';
import { CommandIDs } from '../tokens';
import { FakeApp, FakeTraining } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { clearScreen, perform, press, words } from './screen';

it('a notebook whose kernel is on its way is no notebook without a kernel', async () => {
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  const [app, training, tracker] = [new FakeApp(), new FakeTraining(), new FakeTracker()];
  training.server.isDown = true;
  const notebook = tracker.open(new FakePanel(['train()']));
  const nothing = {} as ICellOutputs & IRunHistory;
  await send.activate(app.frontEnd, tracker, training, nothing, nothing, null);
  const kernel = new PromiseDelegate<void>();
  Object.assign(notebook.sessionContext, { session: null, ready: kernel.promise });
  let result: Promise<unknown> = Promise.resolve();
  await perform(() => void (result = app.commands.execute(CommandIDs.sendCell)));
  expect(document.querySelector('.jp-Dialog')).toBeNull();
  notebook.sessionContext.session = { kernel: { id: 'kernel-1' } };
  await perform(() => kernel.resolve());
  expect(words(document.querySelector('.jp-Dialog'))).toContain('Training cannot be reached');
  await press('Cancel');
  expect(await result).toBeNull();
  await send.deactivate?.(app.frontEnd);
  notebook.close();
  clearScreen();
  jest.restoreAllMocks();
});

it('nothing is asked about a notebook that was closed before its kernel came', async () => {
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  const [app, training, tracker] = [new FakeApp(), new FakeTraining(), new FakeTracker()];
  const notebook = tracker.open(new FakePanel(['train()']));
  const nothing = {} as ICellOutputs & IRunHistory;
  await send.activate(app.frontEnd, tracker, training, nothing, nothing, null);
  Object.assign(notebook.sessionContext, { session: null, ready: new Promise(() => undefined) });
  let result: Promise<unknown> = Promise.resolve('asked');
  await perform(() => void (result = app.commands.execute(CommandIDs.sendCell)));
  await perform(() => notebook.close());
  expect([await result, document.querySelector('.jp-Dialog')]).toEqual([null, null]);
  await send.deactivate?.(app.frontEnd);
  clearScreen();
  jest.restoreAllMocks();
});
