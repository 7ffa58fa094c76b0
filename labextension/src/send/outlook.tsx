/** What would become of the job if it were sent now, and changes with which it would start earlier. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { describeExpectedStart, formatOrdinal } from '../jobs';
import type { Alternative, Preview, Problem } from '../wire';
import type { IFormValues } from './values';

export interface IOutlookProps {
  /** The prediction of the service; null until the service has answered. */
  preview: Preview | null;
  problem: Problem | null;
  /** Whether the answer to a request is slow to come. */
  slow: boolean;
  /** Whether the user has cancelled while the job was being sent. */
  withdrawn: boolean;
  values: IFormValues;
  onValues: (values: IFormValues) => void;
  trans: TranslationBundle;
}

export function Outlook(props: IOutlookProps): React.JSX.Element {
  const { preview, problem, slow, withdrawn, trans } = props;
  if (withdrawn) {
    return (
      <p className="jp-gq-forecast jp-gq-mod-pending" role="status">
        {trans.__('Cancelling: waiting for the answer to what was sent. If it is accepted, it is cancelled.')}
      </p>
    );
  }
  if (slow) {
    return (
      <p className="jp-gq-forecast jp-gq-mod-pending" role="status">
        {trans.__('The scheduler has not answered for some seconds. Still waiting…')}
      </p>
    );
  }
  if (problem !== null) {
    return <p className="jp-gq-forecast jp-gq-mod-none" />;
  }
  if (preview === null) {
    return <p className="jp-gq-forecast jp-gq-mod-pending">{trans.__('Asking the scheduler…')}</p>;
  }
  return <Answer {...props} preview={preview} />;
}

/** The prediction, with a button for each alternative. */
function Answer({
  preview,
  values,
  onValues,
  trans
}: IOutlookProps & { preview: Preview }): React.JSX.Element {
  const told = React.useRef<HTMLParagraphElement>(null);
  const tone = preview.starts_now ? 'jp-gq-tone-good' : 'jp-gq-tone-warn';
  const take = (offer: Alternative): void => {
    // The button goes away with the next answer, and the keys of the dialog need a focus inside of it.
    told.current?.focus();
    onValues(applyAlternative(values, offer));
  };
  return (
    <div className={`jp-gq-forecast ${tone}`}>
      <p role="status" aria-label={trans.__('Forecast')} tabIndex={-1} ref={told}>
        {[preview.sentence, describeWait(preview, Date.now() / 1000, trans)].join(' ').trimEnd()}
      </p>
      {preview.alternatives.length > 0 && (
        <ul className="jp-gq-offers" aria-label={trans.__('Alternatives')}>
          {preview.alternatives.map(offer => (
            <li key={offer.sentence}>
              <button
                type="button"
                className="jp-gq-action"
                title={trans.__('Ask for this instead')}
                aria-label={offer.sentence}
                onClick={() => take(offer)}
              >
                {offer.label}
              </button>
              <span aria-hidden="true">{offer.sentence.slice(offer.label.length)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** Return the place in the queue and the range of the start of a job that would wait; "" if it starts now. */
export function describeWait(preview: Preview, now: number, trans: TranslationBundle): string {
  if (preview.starts_now) {
    return '';
  }
  const place =
    preview.position === null ? '' : trans.__('%1 in line.', formatOrdinal(preview.position, trans));
  const start =
    preview.expected_start === null
      ? trans.__('The start is not known.')
      : describeExpectedStart(preview, now, trans);
  return [place, start].filter(part => part !== '').join(' ');
}

/** Return the values of the form with what an alternative asks for. */
export function applyAlternative(values: IFormValues, offer: Alternative): IFormValues {
  return { ...values, queue: offer.queue, gpus: offer.gpus, model: offer.gpu_model ?? values.model };
}
