/**
 * The problems of requests that the Hub or its proxy answers in place of the user's server. Pure.
 *
 * See docs/decisions/0393-know-the-hub-by-answers-without-a-code.md.
 */

import type { Problem } from './wire';

/** The problem of a user whose login has ended. */
export const LOGGED_OUT: Problem = {
  code: 'logged_out',
  message: 'You are logged out. Log in again in another tab; this page then goes on by itself.',
  field: null
};
const SERVER_STOPPED: Problem = {
  code: 'server_stopped',
  message:
    'Your server is not running. Start it again (File > Hub Control Panel) to see and change your jobs.',
  field: null
};
/** The problem of a request that changes something, of which the Hub does not say which of the two it is. */
export const STOPPED_OR_LOGGED_OUT: Problem = {
  code: 'server_stopped_or_logged_out',
  message:
    'Your server is not running, or you are logged out. Open the Hub in another tab to start it or to log in again.',
  field: null
};
/** Problems that keep all requests from being answered until the user does something elsewhere. */
const LOST: readonly Problem[] = [LOGGED_OUT, SERVER_STOPPED, STOPPED_OR_LOGGED_OUT];

/** Return whether the problem keeps all requests from being answered until the user does something elsewhere. */
export function isLost(problem: Problem): boolean {
  return LOST.some(({ code }) => code === problem.code);
}

/** Return whether the problem is that the user's server does not run. */
export function isStopped(problem: Problem): boolean {
  return problem.code === SERVER_STOPPED.code;
}

/** Problems by the status with which the Hub or its proxy answers. */
const OF_THE_HUB: ReadonlyMap<number, Problem> = new Map([
  [403, STOPPED_OR_LOGGED_OUT],
  [424, SERVER_STOPPED],
  [503, SERVER_STOPPED]
]);

/** Return whether the user's server refuses a request for its login or its token, and not for what it asks. */
function isLoggedOut(response: Response, code: string, message: string): boolean {
  return response.status === 403 && code === 'forbidden' && /^Forbidden$|xsrf/i.test(message);
}

/**
 * Return the problem in the body of a response, or one made from its status. Without a code, the Hub or its proxy has
 * answered in place of the user's server.
 *
 * See docs/decisions/0393-know-the-hub-by-answers-without-a-code.md.
 */
export function readProblem(response: Response, body: Partial<Problem> | null): Problem {
  if (body !== null && typeof body.message === 'string' && typeof body.code === 'string') {
    return isLoggedOut(response, body.code, body.message)
      ? LOGGED_OUT
      : { code: body.code, message: body.message, field: body.field ?? null };
  }
  if (response.status === 404) {
    return {
      code: 'extension_missing',
      message:
        'This Jupyter server has no GPU training extension. `pip install jupyter-gq` where the server runs, then restart it.',
      field: null
    };
  }
  const known = OF_THE_HUB.get(response.status);
  if (known !== undefined) {
    return known;
  }
  return {
    code: 'unexpected_answer',
    message: `The Jupyter server answered ${response.status} ${response.statusText}.`,
    field: null
  };
}
