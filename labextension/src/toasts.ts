/** Messages of notifications: JupyterLab cuts a longer one in the middle of a word. Pure. */

import { cutEnd, cutMiddle } from './plain';

/** Most characters of a notification's message. */
const LONGEST = 140;
/** Most characters of a job's name in a notification. */
const LONGEST_NAME = 40;

/** Return as many whole sentences of a text as a notification shows; a first sentence that is too long ends with "…". */
export function fitToast(text: string): string {
  const sentences = text
    .replace(/\s+/g, ' ')
    .trim()
    .split(/(?<=[.!?]) (?=[\p{Lu}\d“])/u);
  let fitting = sentences[0];
  for (const sentence of sentences.slice(1)) {
    if (`${fitting} ${sentence}`.length > LONGEST) {
      break;
    }
    fitting = `${fitting} ${sentence}`;
  }
  return shorten(fitting, LONGEST);
}

/** Return the name of a job in quotes, cut in the middle if it would leave no room for the rest of the message. */
export function quoteName(name: string): string {
  return `“${cutMiddle(name, LONGEST_NAME)}”`;
}

/** Return a text of at most `most` characters, cut between two words if possible. */
function shorten(text: string, most: number): string {
  if (text.length <= most) {
    return text;
  }
  const cut = cutEnd(text, most - 1);
  const space = cut.lastIndexOf(' ');
  return `${(space > most / 2 ? cut.slice(0, space) : cut).trimEnd()}…`;
}
