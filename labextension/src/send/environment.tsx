/** The environment of the job, in a section that is closed until the user opens it: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Caret } from '../panel/parts';
import type { PlannedEnvironment, PlannedVariable, Problem } from '../wire';
import type { ISecretRow, ISecrets } from './secrets';
import { listSecrets, takeSecrets } from './secrets';
import { useUnfolded } from './section';

/** The user's choice for the environment of the job. */
export interface IEnvironmentChoice {
  /** Names of variables that go along; null before the first change, and the proposal of the server holds. */
  readonly variables: readonly string[] | null;
  /** Names of the secrets of the job; null before the first change, and those that the cells want are taken. */
  readonly secrets: readonly string[] | null;
}

export const AS_PROPOSED: IEnvironmentChoice = { variables: null, secrets: null };

export interface IEnvironmentProps {
  /** What may go along; null until the server has answered. */
  planned: PlannedEnvironment | null;
  choice: IEnvironmentChoice;
  /** What the service says about secrets. */
  secrets: ISecrets;
  sending: boolean;
  problem: Problem | null;
  onChoice: (choice: IEnvironmentChoice) => void;
  trans: TranslationBundle;
}

/** Fields of this section, as a problem names them. */
export const ENVIRONMENT_FIELDS = ['variables', 'secrets'];

/** Names of variables and secrets that go along. */
export interface IEnvironmentNames {
  readonly variables: readonly string[] | null;
  readonly secrets: readonly string[];
}

/** Return the fields of the request to send; variables of null are as the server proposes. */
export function describeEnvironment(chosen: IEnvironmentNames): {
  variables: string[] | null;
  secrets: string[];
} {
  return {
    variables: chosen.variables === null ? null : [...chosen.variables],
    secrets: [...chosen.secrets]
  };
}

/** Return the names of the variables that go along beside the usual ones. */
export function listChosen(choice: IEnvironmentChoice, planned: PlannedEnvironment | null): string[] {
  const offered = planned?.variables ?? [];
  const chosen = choice.variables ?? offered.filter(each => each.why !== 'offered').map(each => each.name);
  return [...chosen];
}

/** Return the choice with this variable added, or removed if it was there. */
export function toggleVariable(
  choice: IEnvironmentChoice,
  planned: PlannedEnvironment | null,
  name: string
): IEnvironmentChoice {
  const chosen = listChosen(choice, planned);
  const variables = chosen.includes(name) ? chosen.filter(each => each !== name) : [...chosen, name];
  return { ...choice, variables };
}

/** Return the choice with this secret added, or removed if it was there; `taken` are the present ones. */
function toggleSecret(
  choice: IEnvironmentChoice,
  taken: readonly string[],
  name: string
): IEnvironmentChoice {
  const secrets = taken.includes(name) ? taken.filter(each => each !== name) : [...taken, name];
  return { ...choice, secrets };
}

/** Return what goes along in one line, such as "EPOCHS and the usual variables". */
export function summarizeEnvironment(
  choice: IEnvironmentChoice,
  planned: PlannedEnvironment | null,
  secrets: ISecrets,
  trans: TranslationBundle
): string {
  if (planned === null) {
    return trans.__('variables that go along');
  }
  const usual = trans.__('the usual variables');
  const chosen = [...takeSecrets(choice.secrets, planned, secrets), ...listChosen(choice, planned)];
  return chosen.length === 0 ? usual : trans.__('%1 and %2', chosen.join(', '), usual);
}

export function Environment(props: IEnvironmentProps): React.JSX.Element {
  const { planned, choice, problem, trans } = props;
  const own = problem !== null && ENVIRONMENT_FIELDS.includes(problem.field ?? '') ? problem : null;
  const [open, toggle] = useUnfolded(own !== null);
  return (
    <section className="jp-gq-extras" aria-label={trans.__('Environment')}>
      <button
        type="button"
        className="jp-gq-extras-head"
        aria-expanded={open}
        aria-controls="jp-gq-send-environment"
        onClick={toggle}
      >
        <Caret open={open} />
        {trans.__('Environment')}
        {!open && (
          <span className="jp-gq-hint">{summarizeEnvironment(choice, planned, props.secrets, trans)}</span>
        )}
      </button>
      <div id="jp-gq-send-environment" hidden={!open}>
        {planned !== null && <Variables {...props} planned={planned} />}
        {planned !== null && <Secrets {...props} planned={planned} />}
        {own !== null && (
          <p className="jp-gq-problem" role="alert">
            {own.message}
          </p>
        )}
      </div>
    </section>
  );
}

/** Return why a variable goes along; "" if only the user can tell. */
function explainVariable(why: PlannedVariable['why'], trans: TranslationBundle): string {
  const reasons: Record<PlannedVariable['why'], string> = {
    read: trans.__('the cells read it'),
    proxy: trans.__('proxy of the network'),
    offered: ''
  };
  return reasons[why];
}

/** Return what the user should know about a secret; "" if there is nothing. */
function explainSecret({ name, note }: ISecretRow, trans: TranslationBundle): string {
  switch (note) {
    case 'used':
      return trans.__('the cells use it');
    case 'forbidden':
      return trans.__('your admin does not allow it');
    case 'unstored':
      return trans.__('run jupyter-gq secret set %1 first', name);
    default:
      return '';
  }
}

function Variables({
  planned,
  choice,
  sending,
  onChoice,
  trans
}: IEnvironmentProps & { planned: PlannedEnvironment }): React.JSX.Element {
  const chosen = new Set(listChosen(choice, planned));
  return (
    <>
      <ul className="jp-gq-variables" aria-label={trans.__('Variables that may go along')}>
        {planned.variables.map(({ name, why }) => (
          <li key={name}>
            <label>
              <input
                type="checkbox"
                checked={chosen.has(name)}
                disabled={sending}
                onChange={() => onChoice(toggleVariable(choice, planned, name))}
              />
              <code>{name}</code>
              <span className="jp-gq-hint">{explainVariable(why, trans)}</span>
            </label>
          </li>
        ))}
      </ul>
      <p className="jp-gq-hint">
        {trans.__(
          'The values of variables are copied from this server when the job is sent; those of secrets never are. Always: %1.',
          planned.always.join(', ')
        )}
      </p>
    </>
  );
}

function Secrets({
  planned,
  choice,
  secrets,
  sending,
  onChoice,
  trans
}: IEnvironmentProps & { planned: PlannedEnvironment }): React.JSX.Element | null {
  const rows = listSecrets(planned, secrets, choice.secrets);
  if (rows.length === 0) {
    return null;
  }
  const taken = takeSecrets(choice.secrets, planned, secrets);
  return (
    <>
      <ul className="jp-gq-variables" aria-label={trans.__('Secrets that the job may have')}>
        {rows.map(row => (
          <li key={row.name}>
            <label>
              <input
                type="checkbox"
                checked={taken.includes(row.name)}
                disabled={sending || !row.offered}
                onChange={() => onChoice(toggleSecret(choice, taken, row.name))}
              />
              <code>{row.name}</code>
              <span className="jp-gq-hint">{explainSecret(row, trans)}</span>
            </label>
          </li>
        ))}
      </ul>
      <p className="jp-gq-hint">
        {trans.__('Of secrets only the names are sent. The job finds them where it runs.')}
      </p>
    </>
  );
}
