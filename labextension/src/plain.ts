/** Names of files in a form that can be shown: a control character could make a name read as another one. */

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Return the text without control and bidirectional characters. */
export function stripControls(text: string): string {
  return text.replace(UNSEEN, '');
}
