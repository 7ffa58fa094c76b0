/** Small parts of the panel and of the status line under a cell: props in, no requests. */

import {
  caretDownIcon,
  caretRightIcon,
  checkIcon,
  errorIcon,
  historyIcon,
  LabIcon,
  pauseIcon,
  runIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

import type { IPhaseLook } from '../jobs';
import { connect } from '../lifetime';
import { formatInstant, formatAge } from '../times';

const ICONS: Readonly<Record<IPhaseLook['icon'], LabIcon>> = {
  clock: historyIcon,
  spinner: runIcon,
  pause: pauseIcon,
  check: checkIcon,
  error: errorIcon,
  stop: stopIcon
};

/** A phase as icon and word. The word is never left out. */
export function PhaseTag({ look }: { look: IPhaseLook }): React.JSX.Element {
  const Icon = ICONS[look.icon];
  return (
    <span className={`jp-gq-phase jp-gq-tone-${look.tone}`}>
      {look.icon === 'spinner' ? (
        <span className="jp-gq-spinner" aria-hidden="true" />
      ) : (
        <Icon.react tag="span" className="jp-gq-phase-icon" width="14px" height="14px" aria-hidden="true" />
      )}
      <span>{look.word}</span>
    </span>
  );
}

/** A progress bar; empty if the fraction is unknown. */
export function ProgressBar({
  fraction,
  label
}: {
  fraction: number | null;
  label: string;
}): React.JSX.Element | null {
  if (fraction === null) {
    return null;
  }
  const percent = Math.round(Math.min(1, Math.max(0, fraction)) * 100);
  return (
    <span
      className="jp-gq-progress"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      title={`${percent} %`}
    >
      <span style={{ width: `${percent}%` }} />
    </span>
  );
}

/** A relative time with the absolute one on hover. */
export function Age({
  instant,
  now,
  trans
}: {
  instant: number;
  now: number;
  trans: TranslationBundle;
}): React.JSX.Element {
  return (
    <time
      className="jp-gq-age"
      dateTime={new Date(instant * 1000).toISOString()}
      title={formatInstant(instant)}
    >
      {formatAge(instant, now, trans)}
    </time>
  );
}

export interface IActionProps {
  label: string;
  onClick: () => void;
  /** Words for screen readers that follow the label, such as the name of the job. */
  about?: string;
  disabled?: boolean;
  /** Whether what the button chooses is chosen; not given for a button that acts. */
  pressed?: boolean;
  title?: string;
}

/** A small text button. */
export function Action({ label, onClick, about, disabled, pressed, title }: IActionProps): React.JSX.Element {
  return (
    <button
      type="button"
      className="jp-gq-action"
      aria-label={about === undefined ? label : `${label} ${about}`}
      aria-pressed={pressed}
      title={title}
      disabled={disabled}
      onClick={event => {
        event.stopPropagation();
        onClick();
      }}
    >
      {label}
    </button>
  );
}

/** The caret of a row or section that unfolds. */
export function Caret({ open }: { open: boolean }): React.JSX.Element {
  const Icon = open ? caretDownIcon : caretRightIcon;
  return <Icon.react tag="span" className="jp-gq-caret" width="16px" height="16px" aria-hidden="true" />;
}

/** Return what `read` returns, and draw the caller again when that changes with a signal. */
export function useSignal(signal: ISignal<unknown, unknown>, read: () => boolean): boolean {
  const follow = React.useCallback(
    (onChange: () => void) => {
      const connection = connect(signal, onChange);
      return () => connection.dispose();
    },
    [signal]
  );
  return React.useSyncExternalStore(follow, read);
}
