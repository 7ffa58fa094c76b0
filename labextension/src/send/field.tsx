/** One labelled field of the send dialog, with the problem that is about it. */

import * as React from 'react';

import type { Problem } from '../wire';

export interface IFieldProps {
  /** As a problem names it. */
  id: string;
  label: string;
  problem: Problem | null;
  children: React.ReactNode;
}

export function Field({ id, label, problem, children }: IFieldProps): React.JSX.Element {
  const mine = problem !== null && problem.field === id ? problem : null;
  return (
    <div className={mine === null ? 'jp-gq-field' : 'jp-gq-field jp-gq-mod-problem'}>
      <label htmlFor={`jp-gq-send-${id}`}>{label}</label>
      {children}
      {mine !== null && (
        <span className="jp-gq-problem" role="alert" id={`jp-gq-send-${id}-problem`}>
          {mine.message}
        </span>
      )}
    </div>
  );
}

export interface ITextFieldProps extends Omit<IFieldProps, 'children'> {
  hint: string;
  placeholder?: string;
  value: string;
  onChange: (value: string) => void;
}

/** A short text with a hint beside it. */
export function TextField({
  hint,
  placeholder,
  value,
  onChange,
  ...field
}: ITextFieldProps): React.JSX.Element {
  const id = `jp-gq-send-${field.id}`;
  const wrong = field.problem?.field === field.id;
  return (
    <Field {...field}>
      <input
        id={id}
        className="jp-mod-styled jp-gq-mod-short"
        type="text"
        maxLength={40}
        autoComplete="off"
        placeholder={placeholder}
        value={value}
        aria-invalid={wrong}
        aria-describedby={wrong ? `${id}-hint ${id}-problem` : `${id}-hint`}
        onChange={event => onChange(event.target.value)}
      />
      <span className="jp-gq-hint" id={`${id}-hint`}>
        {hint}
      </span>
    </Field>
  );
}
