/** The part of the send dialog about cells that run here already: props in, no requests. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { LocalRunState } from '../attach/localrun';

export interface ILocalChoiceProps {
  /** Null if none of the cells runs or waits here. */
  localRun: LocalRunState | null;
  /** Whether the run here is interrupted once the job is accepted. */
  interrupts: boolean;
  /** The cells that are sent. */
  targets: readonly unknown[];
  sending: boolean;
  onInterrupts: (interrupts: boolean) => void;
  trans: TranslationBundle;
}

/** The note about the run here, with the choice to interrupt it. A cell that only waits has no choice: another one runs. */
export function LocalChoice(props: ILocalChoiceProps): React.JSX.Element | null {
  const { localRun, interrupts, targets, sending, onInterrupts, trans } = props;
  if (localRun === null) {
    return null;
  }
  const note = 'jp-gq-send-here';
  return (
    <section className="jp-gq-local-run" aria-label={trans.__('The run here')}>
      <p className="jp-gq-note" id={note}>
        {describeRun(localRun, targets.length, trans)}
      </p>
      {localRun === 'running' && (
        <label>
          <Checkbox
            describedBy={note}
            checked={interrupts}
            disabled={sending}
            onToggle={() => onInterrupts(!interrupts)}
          />
          {trans.__('Interrupt the run here once the job is accepted')}
        </label>
      )}
    </section>
  );
}

interface ICheckboxProps {
  /** The id of the note that a screen reader reads with the label. */
  describedBy: string;
  checked: boolean;
  disabled: boolean;
  onToggle: () => void;
}

/** A checkbox that gives the focus to the first field when it goes, so that the keys of the dialog go on working. */
function Checkbox({ describedBy, checked, disabled, onToggle }: ICheckboxProps): React.JSX.Element {
  const input = React.useRef<HTMLInputElement>(null);
  React.useLayoutEffect(() => {
    const own = input.current;
    return () => {
      if (own !== null && own === document.activeElement) {
        document.getElementById('jp-gq-send-name')?.focus();
      }
    };
  }, []);
  return (
    <input
      ref={input}
      type="checkbox"
      aria-describedby={describedBy}
      checked={checked}
      disabled={disabled}
      onChange={onToggle}
    />
  );
}

/** Return what becomes of the run here of one of `count` cells. */
function describeRun(run: LocalRunState, count: number, trans: TranslationBundle): string {
  return run === 'running'
    ? trans._n(
        'This cell is running here now. The job starts from the beginning. The run here continues unless you interrupt it, and its output is no longer shown.',
        'One of these %1 cells is running here now. The job starts from the beginning. The run here continues unless you interrupt it, and its output is no longer shown.',
        count
      )
    : trans._n(
        'This cell waits for the kernel here. It still runs here when its turn comes, beside the job, but without showing its output.',
        'Some of these %1 cells wait for the kernel here. They still run here when their turn comes, beside the job, but without showing their output.',
        count
      );
}
