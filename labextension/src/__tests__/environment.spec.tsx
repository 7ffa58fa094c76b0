import { Signal } from '@lumino/signaling';

import { SendDialog } from '../send/dialog';
import { AS_PROPOSED, listChosen, summarizeEnvironment, toggleVariable } from '../send/environment';
import { NEW_JOB } from '../send/opening';
import { listSecrets, takeSecrets } from '../send/secrets';
import { proposeValues } from '../send/values';
import { RequestError } from '../client';
import type { PlannedEnvironment } from '../wire';
import { ENGLISH, aJob, aMe, aPlan, aQueue, captureNothing } from './builders';
import { all, clearScreen, perform, press, words } from './screen';

const ALLOWED = { secrets: ['HF_TOKEN', 'AWS_*', 'OTHER'], secrets_in_home: true };
const PLANNED: PlannedEnvironment = {
  always: ['PATH', 'HOME'],
  secrets: [
    { name: 'AWS_KEY', wanted: false, stored: true },
    { name: 'HF_TOKEN', wanted: true, stored: true },
    { name: 'MY_KEY', wanted: true, stored: true },
    { name: 'UNUSED', wanted: false, stored: true }
  ],
  variables: [
    { name: 'COLOUR', why: 'offered' },
    { name: 'EPOCHS', why: 'read' },
    { name: 'https_proxy', why: 'proxy' }
  ]
};

describe('the environment of a job', () => {
  it('is what the server proposes until the user changes it', () => {
    expect(listChosen(AS_PROPOSED, PLANNED)).toEqual(['EPOCHS', 'https_proxy']);
    expect(listChosen({ ...AS_PROPOSED, variables: [] }, PLANNED)).toEqual([]);
  });

  it('keeps the proposal when the user adds or removes a variable', () => {
    const more = toggleVariable(AS_PROPOSED, PLANNED, 'COLOUR');
    expect(more.variables).toEqual(['EPOCHS', 'https_proxy', 'COLOUR']);
    expect(toggleVariable(more, PLANNED, 'EPOCHS').variables).toEqual(['https_proxy', 'COLOUR']);
  });

  it('is summarized in one line', () => {
    const none = { secrets: [], variables: [] };
    expect(summarizeEnvironment(AS_PROPOSED, null, ALLOWED, ENGLISH)).toBe('variables that go along');
    expect(summarizeEnvironment(AS_PROPOSED, PLANNED, ALLOWED, ENGLISH)).toBe(
      'HF_TOKEN, EPOCHS, https_proxy and the usual variables'
    );
    expect(summarizeEnvironment(none, PLANNED, ALLOWED, ENGLISH)).toBe('the usual variables');
  });

  it('has the secrets that the cells want, that the admin allows and that are stored', () => {
    const said = (secrets: typeof ALLOWED): string[] =>
      listSecrets(PLANNED, secrets).map(row => `${row.name} ${row.offered ? '+' : '-'} ${row.note ?? ''}`);
    expect(said(ALLOWED)).toEqual([
      'AWS_KEY + ',
      'HF_TOKEN + used',
      'MY_KEY - forbidden',
      'OTHER - unstored'
    ]);
    expect(said({ secrets: ['OTHER'], secrets_in_home: false })[2]).toBe('OTHER + ');
    expect(takeSecrets(null, PLANNED, ALLOWED)).toEqual(['HF_TOKEN']);
    expect(takeSecrets(['AWS_KEY', 'MY_KEY'], PLANNED, ALLOWED)).toEqual(['AWS_KEY']);
  });
});

describe('the section of the dialog', () => {
  const box = (name: string): HTMLElement | null | undefined =>
    all('.jp-gq-variables li')
      .find(row => words(row).includes(name))
      ?.querySelector('input');
  const head = (): HTMLElement => all('[aria-label="Environment"] button')[0];
  let sent: unknown[];
  let refusal: RequestError | null;

  beforeEach(async () => {
    sent = [];
    refusal = null;
    const dialog = new SendDialog({
      values: proposeValues({}, aMe(), 'digits.ipynb', 'digits'),
      queues: [aQueue()],
      pools: [],
      largest: '1',
      secrets: ALLOWED,
      targets: [],
      prefix: { entries: [], from: 'history' },
      start: NEW_JOB,
      notes: [],
      trans: ENGLISH,
      client: { slowChanged: new Signal<unknown, boolean>({}), now: 1000 },
      capture: captureNothing,
      check: () => Promise.resolve(aPlan({ environment: PLANNED })),
      preview: () => Promise.resolve({ starts_now: true, sentence: '', alternatives: [] }) as never,
      send: (_request, _prefix, _returns, environment) => {
        sent.push(environment);
        return refusal === null ? Promise.resolve(aJob()) : Promise.reject(refusal);
      }
    });
    await perform(() => void dialog.ask().catch(() => undefined));
  });
  afterEach(clearScreen);

  it('says in one line what goes along, and sends the proposal', async () => {
    expect(words(head())).toBe('EnvironmentHF_TOKEN, EPOCHS, https_proxy and the usual variables');
    expect(all('.jp-gq-hint').map(words).join(' ')).toContain(
      'The values of variables are copied from this server when the job is sent; those of secrets never are.'
    );
    await press('Send to training');
    expect(sent).toEqual([{ variables: null, secrets: ['HF_TOKEN'] }]);
  });

  it('sends what the user ticks', async () => {
    await perform(() => box('COLOUR')?.click());
    await perform(() => box('https_proxy')?.click());
    await press('Send to training');
    expect(sent).toEqual([{ variables: ['EPOCHS', 'COLOUR'], secrets: ['HF_TOKEN'] }]);
  });

  it('sends the secrets that the user ticks', async () => {
    await perform(() => box('AWS_KEY')?.click());
    await perform(() => box('HF_TOKEN')?.click());
    await press('Send to training');
    expect(sent).toEqual([{ variables: null, secrets: ['AWS_KEY'] }]);
  });

  it('opens for a refusal, and shows it', async () => {
    expect(head().getAttribute('aria-expanded')).toBe('false');
    refusal = new RequestError(422, { code: 'invalid_variable', message: 'No.', field: 'variables' });
    await press('Send to training');
    expect(head().getAttribute('aria-expanded')).toBe('true');
    expect(all('[role=alert]').map(words)).toEqual(['No.']);
  });
});
