/** A made-up language, in which each translated text is in « », so that what was not translated can be seen. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { Gettext } from '@jupyterlab/translation';

/** Months, which the browser writes in its own language. */
const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
/** Words that are the same in all languages: units, and names of things in the code of the user. */
const SYMBOLS = new Set([
  ...'GPU GPUs CPU GiB MiB GB MB kB B s min h d AM PM gq digits ipynb vision ann train import plot job'.split(
    ' '
  ),
  ...MONTHS
]);

const mark = (text: string): string => `«${text}»`;
const fill = (text: string, args: readonly unknown[]): string => Gettext.strfmt(text, ...args.map(String));

/** The translations of the made-up language. */
export const PSEUDO: TranslationBundle = {
  __: (text: string, ...args: unknown[]) => mark(fill(text, args)),
  _n: (one: string, many: string, count: number, ...args: unknown[]) =>
    mark(fill(count === 1 ? one : many, [count, ...args])),
  _p: (_: string, text: string, ...args: unknown[]) => mark(fill(text, args)),
  _np: (_: string, one: string, many: string, count: number, ...args: unknown[]) =>
    mark(fill(count === 1 ? one : many, [count, ...args])),
  gettext: (text: string, ...args: unknown[]) => mark(fill(text, args)),
  ngettext: (one: string, many: string, count: number, ...args: unknown[]) =>
    mark(fill(count === 1 ? one : many, [count, ...args])),
  pgettext: (_: string, text: string, ...args: unknown[]) => mark(fill(text, args)),
  npgettext: (_: string, one: string, many: string, count: number, ...args: unknown[]) =>
    mark(fill(count === 1 ? one : many, [count, ...args])),
  dcnpgettext: (_: string, __: string, one: string, many: string, count: number, ...args: unknown[]) =>
    mark(fill(count === 1 ? one : many, [count, ...args]))
};

/** The translator of the made-up language. */
export const PSEUDO_TRANSLATOR = { languageCode: 'pseudo', load: () => PSEUDO };

/** Return the words of a text that are in no « », without those that are the same in all languages. */
export function findUntranslated(text: string): string[] {
  let rest = text;
  for (let before = ''; before !== rest;) {
    before = rest;
    rest = rest.replace(/«[^«»]*»/g, ' ');
  }
  return (rest.match(/[A-Za-z]{2,}/g) ?? []).filter(word => !SYMBOLS.has(word));
}

/** Return what a reader of the page, its tooltips and its labels finds untranslated, each with where it is. */
export function listUntranslated(root: ParentNode): string[] {
  const found: string[] = [];
  for (const element of Array.from(root.querySelectorAll<HTMLElement>('*'))) {
    if (element.closest('svg, style') !== null) {
      continue;
    }
    const own = Array.from(element.childNodes).filter(node => node.nodeType === Node.TEXT_NODE);
    const texts = [
      ...own.map(node => node.textContent ?? ''),
      ...['title', 'aria-label', 'placeholder', 'alt'].map(name => element.getAttribute(name) ?? '')
    ];
    texts
      .filter(text => findUntranslated(text).length > 0)
      .forEach(text => found.push(`${element.tagName.toLowerCase()}.${element.className}: ${text}`));
  }
  return found;
}
