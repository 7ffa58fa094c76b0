/**
 * Sentences of the service beside the word of a state. "Waiting" and "Waiting: it needs 2 GPUs." say the word twice.
 * The service writes for readers without that word as well. Pure.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

import { showLocalTimes } from './times';

/** Code in a sentence of the service, such as `import os`. */
const CODE = /`([^`]+)`/g;

/** Return a sentence of the service as a page shows it: code in quotation marks, and times as a clock here shows them. */
export function showSentence(sentence: string, now: number): string {
  return showLocalTimes(sentence.replace(CODE, '“$1”'), now);
}

/** The text behind the word of a state at the beginning of a sentence that can do without that word. */
const AFTER_WORD = /^(?:: | (?=(?:after|before|by|on)\b)|\.(?: |$))/;
/** Words that are no name, and begin a sentence with a capital letter. */
const NO_NAME = /^(?:after|before|by|it|its|on|only|part|the|your)(?=[ ,])/;

/** Return a sentence without the English word of a state with which it begins, such as "it needs 2 GPUs.". */
function cutState(sentence: string, word: string): string {
  const rest = sentence.startsWith(word) ? sentence.slice(word.length) : '';
  return AFTER_WORD.test(rest) ? rest.replace(AFTER_WORD, '') : sentence;
}

/**
 * Return an English sentence without the English `word` of a state before it: "It needs 2 GPUs."; "" for "Waiting.".
 * A name that comes first then keeps its letter.
 */
export function omitState(sentence: string, word: string): string {
  return cutState(sentence, word).replace(NO_NAME, first => first[0].toUpperCase() + first.slice(1));
}

/** Return a place in line with the English sentence why, if there is one: "2nd in line: it needs 2 GPUs.". */
export function joinPlace(place: string, sentence: string, word: string, trans: TranslationBundle): string {
  const why = cutState(sentence, word);
  return why === sentence || why === ''
    ? `${trans.__('%1 in line.', place)} ${why}`.trimEnd()
    : trans.__('%1 in line: %2', place, why);
}
