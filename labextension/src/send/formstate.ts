/** The state of the form in the send dialog. Pure. */

import type { IPrefixEntry } from '../bundle/prefix';
import type { FilesPlan, Plan, Preview, Problem } from '../wire';
import type { ICarry } from './carry';
import { REPLAYED } from './carry';
import type { IEnvironmentChoice } from './environment';
import type { IFileChoice } from './files';
import { NO_CHOICE } from './files';
import type { INotes } from './notes';
import { NO_NOTES } from './notes';
import type { ISendOptions } from './options';
import type { ISweepChoice } from './sweep';
import { NO_SWEEP } from './sweep';
import type { IFormValues } from './values';

/** The contents of the form, and the choices of the user in it. */
export interface IFormState {
  readonly values: IFormValues;
  readonly entries: readonly IPrefixEntry[];
  readonly preview: Preview | null;
  /** Whether the service is asked for a prediction; a `preview` that is there is for earlier values. */
  readonly asking: boolean;
  readonly problem: Problem | null;
  /** Why the server would refuse the cells. */
  readonly fault: Problem | null;
  readonly warnings: INotes;
  /** Names that the user wrote into the field; null before the first change. */
  readonly returns: string | null;
  /** What the server proposes to bring back, and what else the cells make. */
  readonly proposed: Pick<Plan, 'returns' | 'makes'>;
  readonly sweep: ISweepChoice;
  /** What a sweep can vary. */
  readonly assignments: Plan['assignments'];
  readonly environment: IEnvironmentChoice;
  readonly planned: Plan['environment'] | null;
  /** The software of the server with which the job can run; null until the server has answered. */
  readonly offered: Pick<Plan, 'kernels' | 'takes_images'> | null;
  /** The files that would go along; null until the server has answered. */
  readonly files: FilesPlan | null;
  readonly fileChoice: IFileChoice;
  readonly carry: ICarry;
  /** Whether the run here is to be interrupted once the job is accepted. */
  readonly interrupts: boolean;
  readonly sending: boolean;
  /** How often sending was refused. */
  readonly refusals: number;
  /** Whether the user has cancelled while the job was being sent. */
  readonly withdrawn: boolean;
  /** Whether the answer to a request is slow to come. */
  readonly slow: boolean;
}

/** Return the state of a form that has just been opened. */
export function describeStart({ values, prefix, start }: ISendOptions): IFormState {
  return {
    values,
    entries: start.entries ?? prefix.entries,
    preview: null,
    asking: false,
    problem: null,
    fault: null,
    warnings: NO_NOTES,
    returns: start.returns,
    proposed: { returns: [], makes: [] },
    sweep: NO_SWEEP,
    assignments: [],
    environment: start.environment,
    planned: null,
    offered: null,
    files: null,
    fileChoice: NO_CHOICE,
    carry: REPLAYED,
    interrupts: false,
    sending: false,
    refusals: 0,
    withdrawn: false,
    slow: false
  };
}
