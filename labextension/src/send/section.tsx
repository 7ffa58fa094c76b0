/**
 * A section of the send dialog that is folded until the user opens it, or until something in it is wrong.
 *
 * See docs/decisions/0266-keep-what-is-wrong-in-sight.md.
 */

import * as React from 'react';

/**
 * Return whether a section is open, and a function that folds or unfolds it. What is wrong is never folded away, and the
 * section stays open once it is mended.
 */
export function useUnfolded(wrong: boolean): [boolean, () => void] {
  const [open, setOpen] = React.useState(false);
  React.useEffect(() => {
    if (wrong) {
      setOpen(true);
    }
  }, [wrong]);
  return [open || wrong, () => setOpen(wrong || !open)];
}

/** Return a reference to a form in which the field with a problem gets the focus after each refusal. */
export function useFocusOnRefusal(refusals: number): React.RefObject<HTMLDivElement> {
  const form = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    if (refusals > 0) {
      focusProblem(form.current);
    }
  }, [refusals]);
  return form;
}

/** Scroll to the first field with a problem, and focus it: a screen reader then reads the problem with the field. */
function focusProblem(form: HTMLElement | null): void {
  const found = form?.querySelector<HTMLElement>('[aria-invalid="true"], .jp-gq-problem');
  (found?.closest('.jp-gq-field') ?? found)?.scrollIntoView({ block: 'nearest' });
  found?.focus({ preventScroll: true });
}
