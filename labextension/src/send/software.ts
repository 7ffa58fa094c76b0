/** The software with which a job can run, other than that of its notebook. Pure. */

import type { Me, Plan } from '../wire';

/** An image of the service, or another kernel of this server. */
export interface ISoftware {
  /** Name that is sent. */
  readonly name: string;
  readonly title: string;
  readonly isImage: boolean;
}

/** Return the kernels and images that can be chosen; a kernel comes before an image of the same name. */
export function listSoftware(
  offered: Pick<Plan, 'kernels' | 'takes_images'> | null,
  images: Me['images'] | undefined
): ISoftware[] {
  const known = offered?.kernels ?? [];
  const taken = new Set(known.map(kernel => kernel.name));
  return [
    // Many kernels have the title "Python 3 (ipykernel)".
    ...known.map(({ name, title }) => ({ name, title: `${title} (${name})`, isImage: false })),
    ...((offered?.takes_images === false ? [] : images) ?? [])
      .filter(name => !taken.has(name))
      .map(name => ({ name, title: name, isImage: true }))
  ];
}

/** Return the choices with that of an earlier job, which may not be offered any more. */
export function addChosen(choices: readonly ISoftware[], chosen: string): readonly ISoftware[] {
  return chosen === '' || choices.some(({ name }) => name === chosen)
    ? choices
    : [...choices, { name: chosen, title: chosen, isImage: false }];
}
