import { nullTranslator } from '@jupyterlab/translation';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { selectedCells } from '../send/opening';
import { FakePanel, FakeTracker } from './notebooks';

const TRANS = nullTranslator.load('jupyter_gq');

describe('the cells that a click sends', () => {
  let notebook: FakePanel;
  let panel: NotebookPanel;

  beforeEach(() => {
    jest.spyOn(console, 'warn').mockImplementation(() => undefined);
    notebook = new FakeTracker().open(new FakePanel(['load()', 'train()']));
    panel = notebook as unknown as NotebookPanel;
    notebook.content.selected = [1];
  });

  afterEach(() => {
    notebook.close();
    jest.restoreAllMocks();
  });

  it('are those that were selected then, also if others are selected while the kernel is waited for', () => {
    const origin = selectedCells(panel, TRANS);
    notebook.content.selected = [0];
    const targets = origin.findTargets(panel);
    const sources = 'models' in targets ? targets.models.map(model => model.sharedModel.getSource()) : [];
    expect(sources).toEqual(['train()']);
  });

  it('are no longer sent if they are deleted meanwhile', () => {
    const origin = selectedCells(panel, TRANS);
    notebook.model.sharedModel.deleteCell(1);
    expect(origin.findTargets(panel)).toMatchObject({ title: 'This is not a code cell' });
  });
});
