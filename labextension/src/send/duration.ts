/** The fields for lengths of time: how they become seconds of a request. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { trimBlanks } from '../plain';
import { formatSpan, parseSpan } from '../times';
import type { Problem } from '../wire';

/** Longest time that the service accepts, in seconds. */
const LONGEST = 10 * 366 * 24 * 3600;

/** Return the seconds in a field, null for an empty one, or the problem of a text that is no length of time. */
export function readDuration(
  text: string,
  field: 'expected_seconds' | 'max_seconds',
  trans: TranslationBundle
): number | null | Problem {
  const written = trimBlanks(text);
  if (written === '') {
    return null;
  }
  const seconds = parseSpan(text);
  const message = explainRefusal(seconds, written, trans);
  return message === '' ? seconds : { code: 'invalid_duration', field, message };
}

/** Return why no job can have this time, null for a text that is none; '' if one can. */
function explainRefusal(seconds: number | null, written: string, trans: TranslationBundle): string {
  if (seconds === null) {
    return trans.__(
      '“%1” is not a length of time. Write a number with a unit, such as 45 min, 2 h 30 min or 3 d.',
      written
    );
  }
  if (seconds < 1) {
    return trans.__('“%1” is less than a second. Write a longer time, or leave the field empty.', written);
  }
  return seconds <= LONGEST
    ? ''
    : trans.__('“%1” is more than ten years. Write a shorter time, or leave the field empty.', written);
}

/** Return the hint beside a field for the maximum running time of a job; `most` is the limit of its queue. */
export function describeMaxTime(most: number | null, trans: TranslationBundle): string {
  const meaning = trans.__('over all runs, without pauses; then it saves its state and ends');
  return most === null ? meaning : trans.__('%1; at most %2 in this queue', meaning, formatSpan(most));
}
