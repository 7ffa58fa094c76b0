/** Quotation marks in the sentences of the servers, which write for terminals too: here all text has the same. Pure. */

import type { Captured, Plan } from './wire';

/**
 * A word or phrase in straight quotation marks, between blanks or before a mark that ends a clause. An apostrophe has a
 * letter before it, and a text in code is followed by a bracket or comma of the code mostly: those stay as they are.
 */
const QUOTED = /(^|\s)(['"])(?=\S)((?:(?!\2|\n).)+)\2(?=$|\s|[.:;!?](?:\s|$)|,\s)/g;

/** Return an English sentence of a server with “...” around what it quotes. */
export function showQuotes(sentence: string): string {
  return sentence.replace(QUOTED, '$1“$3”');
}

/** Return a plan with the quotation marks of this page in its sentences. */
export function showQuotesOfPlan(plan: Plan): Plan {
  const files = plan.files;
  return {
    ...plan,
    warnings: plan.warnings.map(warning => ({ ...warning, message: showQuotes(warning.message) })),
    // An earlier release of the server does not send all of these.
    files: files && {
      ...files,
      staying: files.staying?.map(file => ({ ...file, message: showQuotes(file.message) })),
      notes: files.notes?.map(showQuotes),
      pattern_notes: files.pattern_notes?.map(showQuotes)
    }
  };
}

/** Return the variables that go along and stay, with the quotation marks of this page in the sentences about them. */
export function showQuotesOfCaptured(captured: Captured): Captured {
  const variables = captured.variables.map(each => ({ ...each, why: showQuotes(each.why) }));
  return { ...captured, variables, notes: captured.notes.map(showQuotes) };
}
