/** The forecast for the job if it were sent now, and changes with which it would start earlier. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { describeExpectedStart, formatOrdinal } from '../jobs';
import type { Alternative, Preview, Problem } from '../wire';
import { hidesForecast } from './problems';
import type { ISweepChoice } from './sweep';
import { tellOfFirst } from './sweep';
import type { IFormValues } from './values';

export interface IOutlookProps {
  /** The prediction of the service; null until the service has answered, and if it refuses what is asked for. */
  preview: Preview | null;
  /** What is shown at a field: a refusal, beside which the prediction stays unless it is one of cells, or an outage. */
  problem: Problem | null;
  /** Whether the service is asked for a prediction; one that is there is for earlier values. */
  asking: boolean;
  /** Whether the job is being sent. */
  sending: boolean;
  /** Whether the answer to a request is slow to come. */
  slow: boolean;
  /** Whether the user has cancelled while the job was being sent. */
  withdrawn: boolean;
  /** Seconds since the epoch by the clock of the server. */
  now: number;
  values: IFormValues;
  sweep: ISweepChoice;
  onValues: (values: IFormValues) => void;
  trans: TranslationBundle;
}

/** The words of the forecast that are shown. */
interface IWords {
  /** The answer, which a screen reader speaks once it is there. */
  spoken: string;
  /** What stands in place of an answer that is not there yet, or no longer true; not spoken at each change. */
  pending: string;
  look: string;
}

/** The prediction, with a button for each alternative. A prediction for earlier values keeps its room, unseen. */
export function Outlook(props: IOutlookProps): React.JSX.Element {
  const { preview, values, onValues, trans } = props;
  const told = React.useRef<HTMLParagraphElement>(null);
  const { spoken, pending, look } = describeOutlook(props);
  const isShown = !props.withdrawn && !props.slow && !hidesForecast(props.problem);
  const offers = isShown && preview !== null ? preview.alternatives : [];
  const take = (offer: Alternative): void => {
    // The button goes away with the next answer, and the keys of the dialog need a focus inside of it.
    told.current?.focus();
    onValues(applyAlternative(values, offer));
  };
  return (
    <div className={`jp-gq-forecast ${look}`} aria-busy={pending !== ''}>
      {pending !== '' && <p className="jp-gq-asking">{pending}</p>}
      <p role="status" aria-label={trans.__('Forecast')} tabIndex={-1} ref={told}>
        <span className="jp-gq-answer">{spoken}</span>
      </p>
      {offers.length > 0 && (
        <ul className="jp-gq-answer jp-gq-offers" aria-label={trans.__('Alternatives')}>
          {offers.map(offer => (
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

function describeOutlook(props: IOutlookProps): IWords {
  const { preview, problem, slow, withdrawn, asking, sending, now, sweep, trans } = props;
  if (withdrawn) {
    const spoken = trans.__(
      'Cancelling: waiting for the answer to what was sent. If it is accepted, it is cancelled.'
    );
    return { spoken, pending: '', look: 'jp-gq-mod-pending' };
  }
  if (slow) {
    const spoken = trans.__('The GPU scheduler has not answered for some seconds. Still waiting…');
    return { spoken, pending: '', look: 'jp-gq-mod-pending' };
  }
  if (hidesForecast(problem) || (problem !== null && preview === null)) {
    return { spoken: '', pending: '', look: 'jp-gq-mod-none' };
  }
  if (preview === null) {
    const pending = sending ? trans.__('Sending…') : trans.__('Asking the GPU scheduler…');
    return { spoken: '', pending, look: 'jp-gq-mod-pending' };
  }
  const wait = describeWait(preview, now, trans);
  const spoken = tellOfFirst([preview.sentence, wait].join(' ').trimEnd(), sweep, trans);
  if (asking) {
    const pending = sending ? trans.__('Sending…') : trans.__('Asking the GPU scheduler again…');
    return { spoken, pending, look: 'jp-gq-mod-pending jp-gq-mod-stale' };
  }
  if (spoken === '') {
    return { spoken, pending: '', look: 'jp-gq-mod-none' };
  }
  return { spoken, pending: '', look: preview.starts_now ? 'jp-gq-tone-good' : 'jp-gq-tone-warn' };
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
function applyAlternative(values: IFormValues, offer: Alternative): IFormValues {
  return { ...values, queue: offer.queue, gpus: offer.gpus, model: offer.gpu_model ?? values.model };
}
