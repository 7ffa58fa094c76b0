/** Texts in a plain form: without control characters, without spaces around, and shortened. Pure. */

/** A control character in the name of a file could make it read as another one. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Spaces around and between numbers and units, for character classes: those of Unicode, and characters without a width,
 * which come along with what is copied from a page. `jupyter_gq/domain/plain_text.py` has the same.
 */
export const BLANKS = '\\t \\u00a0\\u1680\\u2000-\\u200b\\u202f\\u205f\\u2060\\u3000\\ufeff';
const AROUND = new RegExp(`^[${BLANKS}]+|[${BLANKS}]+$`, 'g');

/** Return the text without control and bidirectional characters. */
export function stripControls(text: string): string {
  return text.replace(UNSEEN, '');
}

/** Return the text of a field without blanks around it. */
export function trimBlanks(text: string): string {
  return text.replace(AROUND, '');
}

/**
 * Return the beginning of a text, of at most `most` UTF-16 units. A character of two units, such as an emoji, is left
 * out as a whole: half of one is no text for the service.
 */
export function cutEnd(text: string, most: number): string {
  return text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
}

/**
 * Return a text of at most `most` UTF-16 units: a longer one loses its middle, since two long names often differ in
 * their last letters only. `shorten` in `jupyter_gq/domain/plain_text.py` does the same.
 */
export function cutMiddle(text: string, most: number): string {
  if (text.length <= most) {
    return text;
  }
  const end = Math.floor((most - 1) / 3);
  return `${cutEnd(text, most - 1 - end)}…${text.slice(-end).replace(/^[\udc00-\udfff]/, '')}`;
}
