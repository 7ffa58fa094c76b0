/** The events that the Jupyter server passes on from the scheduler service. */

import type { Event } from '@jupyterlab/services';

import type { ConnectionNotice, JobSummary, JobView, NotebookView, OutputNotice } from '../wire';

/** Id of the events' schema, as in `jupyter_gq/lab/event_schemas/service-v1.yaml`. */
export const EVENT_SCHEMA = 'https://schema.jupyter-gq.org/service/v1';

export type ServiceEvent =
  | { readonly kind: 'job'; readonly data: JobView | JobSummary }
  | { readonly kind: 'notebook'; readonly data: NotebookView }
  | { readonly kind: 'output'; readonly data: OutputNotice }
  /** Totals of queues changed. */
  | { readonly kind: 'queues' }
  /** Events were missed: every list must be fetched again. */
  | { readonly kind: 'reset' }
  | { readonly kind: 'connection'; readonly data: ConnectionNotice };

/** Return the service event in an emission of the Jupyter server; null if the emission has another schema. */
export function readEvent(emission: Event.Emission): ServiceEvent | null {
  return emission.schema_id === EVENT_SCHEMA ? (emission as unknown as ServiceEvent) : null;
}
