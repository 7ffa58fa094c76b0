/** The problems that the send dialog shows. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { describeError, RequestError } from '../client';
import type { Problem } from '../wire';
import type { ICarry } from './carry';

/**
 * Return why a job with these variables cannot be sent: they could not be captured, or some stay that the user has not
 * seen yet (`isSeen`), since the job was sent before the kernel had answered.
 */
export function findRefusal(carry: ICarry, isSeen: boolean, trans: TranslationBundle): Problem | null {
  const stay = carry.captured?.variables.some(({ name, why }) => why !== '' && !carry.leftOut.has(name));
  if (isSeen || stay !== true) {
    return carry.problem;
  }
  const message = trans.__(
    'Not all variables can go along: the list says why. Send again to send without them.'
  );
  return { code: 'variables_stay', message, field: 'capture' };
}

/** The problems of a server or a service that does not answer now, and may answer soon. */
const OUTAGES = ['server_unreachable', 'service_unavailable'];

/** Return whether a problem may be over soon without anything that the user does. */
export function isOutage(problem: Problem | null): boolean {
  return problem !== null && OUTAGES.includes(problem.code);
}

/** Fields with the cells of a job. */
const CELLS = ['prefix', 'targets'];

/** Return whether a problem leaves nothing to predict: the cells themselves cannot run, or nobody can be asked now. */
export function hidesForecast(problem: Problem | null): boolean {
  return isOutage(problem) || (problem !== null && CELLS.includes(problem.field ?? ''));
}

/** Return the problem of a request for a job to which no answer came: the service may have accepted it. */
export function describeLostAnswer({ message }: Problem, trans: TranslationBundle): Problem {
  const known = trans.__('If the job was accepted all the same, it is shown as soon as that is known.');
  const chances = trans.__('Send again to have one job, or cancel to have none.');
  return { code: 'answer_lost', message: `${message} ${known} ${chances}`, field: null };
}

/**
 * Return the problem of a question about the cells that was not answered: a refusal (422) and an outage speak for
 * themselves, any other failure leaves the dialog without warnings and proposals.
 */
export function describeUnchecked(problem: Problem, reason: unknown, trans: TranslationBundle): Problem {
  const isRefusal = reason instanceof RequestError && reason.status === 422;
  if (isRefusal || isOutage(problem)) {
    return problem;
  }
  const gap = trans.__('The cells could not be checked, so warnings and names to bring back are missing.');
  return { code: 'unchecked', message: [gap, problem.message].join(' ').trim(), field: null };
}

/** Return the problem that a failed request shows. */
export function toProblem(reason: unknown): Problem {
  return reason instanceof RequestError
    ? reason.problem
    : { code: 'unexpected', message: describeError(reason), field: null };
}
