import { Signal } from '@lumino/signaling';

import { SendDialog } from '../send/dialog';
import type { IEnvironmentChoice } from '../send/environment';
import { AS_PROPOSED, listChosen, summarizeEnvironment, toggleVariable } from '../send/environment';
import { RequestError } from '../client';
import type { PlannedEnvironment } from '../wire';
import { aJob, aPlan, aQueue } from './builders';
import { all, clearScreen, perform, press, words } from './screen';

const PLANNED: PlannedEnvironment = {
  always: ['PATH', 'HOME'],
  variables: [
    { name: 'COLOUR', why: 'offered' },
    { name: 'EPOCHS', why: 'read' },
    { name: 'https_proxy', why: 'proxy' }
  ]
};

describe('the environment of a job', () => {
  it('is what the server proposes until the user changes it', () => {
    expect(listChosen(AS_PROPOSED, PLANNED)).toEqual(['EPOCHS', 'https_proxy']);
    expect(listChosen({ variables: [] }, PLANNED)).toEqual([]);
  });

  it('keeps the proposal when the user adds or removes a variable', () => {
    const more = toggleVariable(AS_PROPOSED, PLANNED, 'COLOUR');
    expect(more.variables).toEqual(['EPOCHS', 'https_proxy', 'COLOUR']);
    expect(toggleVariable(more, PLANNED, 'EPOCHS').variables).toEqual(['https_proxy', 'COLOUR']);
  });

  it('is summarized in one line', () => {
    expect(summarizeEnvironment(AS_PROPOSED, null)).toBe('variables that go along');
    expect(summarizeEnvironment(AS_PROPOSED, PLANNED)).toBe('EPOCHS, https_proxy and the usual variables');
    expect(summarizeEnvironment({ variables: [] }, PLANNED)).toBe('the usual variables');
  });
});

describe('the section of the dialog', () => {
  const box = (name: string): HTMLElement | null | undefined =>
    all('.jp-gq-variables li')
      .find(row => words(row).includes(name))
      ?.querySelector('input');
  const head = (): HTMLElement => all('[aria-label="Environment"] button')[0];
  let sent: IEnvironmentChoice[];
  let refusal: RequestError | null;

  beforeEach(async () => {
    sent = [];
    refusal = null;
    const empty = { cpus: '', memory: '', model: '', expected: '', priority: '' };
    const dialog = new SendDialog({
      values: { name: 'digits', queue: 'vision', gpus: '1', ...empty },
      queues: [aQueue()],
      pools: [],
      largest: '1',
      targets: [],
      prefix: { entries: [], from: 'history' },
      notes: [],
      slowChanged: new Signal<unknown, boolean>({}),
      check: () => Promise.resolve(aPlan({ environment: PLANNED })),
      preview: () => Promise.resolve({ starts_now: true, sentence: '' }) as never,
      send: (_request, _prefix, _returns, environment) => {
        sent.push(environment);
        return refusal === null ? Promise.resolve(aJob()) : Promise.reject(refusal);
      }
    });
    await perform(() => void dialog.ask().catch(() => undefined));
  });
  afterEach(clearScreen);

  it('says in one line what goes along, and sends the proposal', async () => {
    expect(words(head())).toBe('EnvironmentEPOCHS, https_proxy and the usual variables');
    await press('Send to training');
    expect(sent).toEqual([AS_PROPOSED]);
  });

  it('sends what the user ticks', async () => {
    await perform(() => box('COLOUR')?.click());
    await perform(() => box('https_proxy')?.click());
    await press('Send to training');
    expect(sent[0].variables).toEqual(['EPOCHS', 'COLOUR']);
  });

  it('opens for a refusal, and shows it', async () => {
    expect(head().getAttribute('aria-expanded')).toBe('false');
    refusal = new RequestError(422, { code: 'invalid_variable', message: 'No.', field: 'variables' });
    await press('Send to training');
    expect(head().getAttribute('aria-expanded')).toBe('true');
    expect(all('[role=alert]').map(words)).toEqual(['No.']);
  });
});
