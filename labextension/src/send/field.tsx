/** A labelled field of the send dialog, with the problem of that field. */

import * as React from 'react';

import type { Problem } from '../wire';

export interface IFieldProps {
  /** Name of the field in a request, and in the problem about it. */
  id: string;
  label: string;
  problem: Problem | null;
  children: React.ReactNode;
}

/** Return the attributes of a control that tell its problem and its hint to a screen reader. */
export function describeField(
  id: string,
  problem: Problem | null,
  hint = ''
): { 'aria-invalid': boolean; 'aria-describedby': string | undefined } {
  const wrong = problem?.field === id;
  const parts = [hint, wrong ? `jp-gq-send-${id}-problem` : ''].filter(part => part !== '');
  return { 'aria-invalid': wrong, 'aria-describedby': parts.join(' ') || undefined };
}

export function Field({ id, label, problem, children }: IFieldProps): React.JSX.Element {
  const own = problem !== null && problem.field === id ? problem : null;
  return (
    <div className={own === null ? 'jp-gq-field' : 'jp-gq-field jp-gq-mod-problem'}>
      <label htmlFor={`jp-gq-send-${id}`}>{label}</label>
      {children}
      {own !== null && (
        <span className="jp-gq-problem" role="alert" id={`jp-gq-send-${id}-problem`}>
          {own.message}
        </span>
      )}
    </div>
  );
}

export interface ITextFieldProps extends Omit<IFieldProps, 'children'> {
  hint: React.ReactNode;
  /** What the user should know about the text in the field. */
  notes?: readonly string[];
  placeholder?: string;
  /** Most characters; 40 if it is not given. */
  maxLength?: number;
  value: string;
  disabled?: boolean;
  /** Whether Enter ends the change of this field and does not send. */
  takesEnter?: boolean;
  onChange: (value: string) => void;
  /** Called when the user leaves the field, or presses Enter in a field that takes it. */
  onDone?: () => void;
}

/** Class of the fields in which Enter does not send. */
export const TAKES_ENTER = 'jp-gq-mod-takes-enter';

/** A field for a short text, with a hint beside it. */
export function TextField({
  hint,
  notes = [],
  placeholder,
  maxLength = 40,
  value,
  disabled,
  takesEnter = false,
  onChange,
  onDone,
  ...field
}: ITextFieldProps): React.JSX.Element {
  const id = `jp-gq-send-${field.id}`;
  return (
    <Field {...field}>
      <input
        id={id}
        className={`jp-mod-styled jp-gq-mod-short ${takesEnter ? TAKES_ENTER : ''}`}
        type="text"
        disabled={disabled}
        maxLength={maxLength}
        autoComplete="off"
        placeholder={placeholder}
        value={value}
        {...describeField(field.id, field.problem, `${id}-hint`)}
        onChange={event => onChange(event.target.value)}
        onBlur={onDone}
        onKeyDown={takesEnter ? event => event.key === 'Enter' && onDone?.() : undefined}
      />
      <span className="jp-gq-hint" id={`${id}-hint`}>
        {hint}
      </span>
      {notes.map(note => (
        <span className="jp-gq-note" role="status" key={note}>
          {note}
        </span>
      ))}
    </Field>
  );
}
