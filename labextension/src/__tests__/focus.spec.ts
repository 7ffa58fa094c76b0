import { send } from '../plugins/send';
import type { ICellOutputs, IRunHistory } from '../tokens';
import { CommandIDs } from '../tokens';
import { FakeApp, FakeTraining } from './fakes';
import { FakePanel, FakeTracker } from './notebooks';
import { clearScreen, perform, press } from './screen';

describe('the keyboard focus after a dialog of sending', () => {
  let app: FakeApp;
  let notebook: FakePanel;

  beforeEach(async () => {
    jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    app = new FakeApp();
    const [training, tracker] = [new FakeTraining(), new FakeTracker()];
    training.server.isDown = true;
    notebook = tracker.open(new FakePanel(['train()']));
    document.body.append(notebook.node);
    const nothing = {} as ICellOutputs & IRunHistory;
    await send.activate(app.frontEnd, tracker, training, nothing, nothing, null);
  });
  afterEach(async () => {
    await send.deactivate?.(app.frontEnd);
    notebook.close();
    clearScreen();
    jest.restoreAllMocks();
  });

  /** Send with the focus on a new button, and close the dialog. */
  async function sendFrom(place: HTMLElement): Promise<HTMLElement> {
    const button = place.appendChild(document.createElement('button'));
    button.focus();
    let result: Promise<unknown> = Promise.resolve();
    await perform(() => void (result = app.commands.execute(CommandIDs.sendCell)));
    expect(notebook.node.contains(document.activeElement)).toBe(false);
    await press('Cancel');
    await result;
    return button;
  }

  it('is in the notebook if a button of its toolbar had it, where Enter would send again', async () => {
    const toolbar = notebook.node.appendChild(document.createElement('div'));
    toolbar.className = 'jp-Toolbar';
    await sendFrom(toolbar);
    expect(document.activeElement).toBe(notebook.content.node);
  });

  it('is where the user had it elsewhere', async () => {
    const button = await sendFrom(document.body);
    expect(document.activeElement).toBe(button);
  });
});
