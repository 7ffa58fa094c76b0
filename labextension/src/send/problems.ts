/** The problems that the send dialog shows. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { describeError, RequestError } from '../client';
import type { Problem } from '../wire';

/** Return the problem of sending before the kernel has answered. */
export function describeWaiting(trans: TranslationBundle): Problem {
  return {
    code: 'no_variables',
    message: trans.__(
      'The variables are still being captured. Wait a moment, or choose to replay the cells.'
    ),
    field: 'capture'
  };
}

/** Return the problem that a failed request shows. */
export function toProblem(reason: unknown): Problem {
  return reason instanceof RequestError
    ? reason.problem
    : { code: 'unexpected', message: describeError(reason), field: null };
}
