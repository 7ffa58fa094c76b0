/** The secrets that a job may have: what the admin allows, what is stored, and what the cells want. Pure. */

import type { Me, PlannedEnvironment } from '../wire';

/** The settings of the service for secrets: the names that jobs may have, and whether users store them at home. */
export type ISecrets = Pick<Me, 'secrets' | 'secrets_in_home'>;

/** A note for the user about a secret: the cells use it, it is not allowed, or it is not stored yet. */
export type SecretNote = 'used' | 'forbidden' | 'unstored';

/** A secret as the dialog shows it. */
export interface ISecretRow {
  readonly name: string;
  readonly wanted: boolean;
  /** Whether the job may have it. */
  readonly offered: boolean;
  readonly note: SecretNote | null;
}

/** Return whether jobs may have the secret of this name. */
export function isAllowed(name: string, allowed: Pick<ISecrets, 'secrets'>): boolean {
  return (allowed.secrets ?? []).some(pattern => matches(name, pattern));
}

/** Return the secrets that are allowed, wanted or chosen, by name. */
export function listSecrets(
  planned: PlannedEnvironment | null,
  allowed: ISecrets,
  chosen: readonly string[] | null = null
): ISecretRow[] {
  const patterns = allowed.secrets ?? [];
  const named = patterns.filter(pattern => !pattern.includes('*'));
  const known = new Map((planned?.secrets ?? []).map(each => [each.name, each]));
  const names = [...new Set([...named, ...known.keys(), ...(chosen ?? [])])].sort();
  return names
    .map(name => {
      const wanted = known.get(name)?.wanted ?? false;
      const isOffered = isAllowed(name, allowed);
      const isStored = !(allowed.secrets_in_home ?? false) || (known.get(name)?.stored ?? false);
      const use = wanted ? ('used' as const) : null;
      const note = !isOffered ? ('forbidden' as const) : isStored ? use : ('unstored' as const);
      return { name, wanted, offered: isOffered && isStored, note, isOffered };
    })
    .filter(({ wanted, isOffered }) => wanted || isOffered);
}

/** Return the names of the secrets that the job gets: the chosen ones, or if nothing was chosen, the wanted ones. */
export function takeSecrets(
  chosen: readonly string[] | null,
  planned: PlannedEnvironment | null,
  allowed: ISecrets
): string[] {
  const offered = listSecrets(planned, allowed, chosen).filter(row => row.offered);
  return offered
    .filter(row => (chosen === null ? row.wanted : chosen.includes(row.name)))
    .map(row => row.name);
}

/** Return whether a name fits a pattern in which `*` stands for any text. */
function matches(name: string, pattern: string): boolean {
  const parts = pattern.split('*').map(part => part.replace(/\W/g, ''));
  return new RegExp(`^${parts.join('.*')}$`).test(name);
}
