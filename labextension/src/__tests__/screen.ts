/** What a user sees and does: widgets on the page, found by their roles and words. */

import { Dialog, Notification } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { settle } from './fakes';

const react = React as unknown as { act: (run: () => Promise<void>) => Promise<void> };

/** Do something that may draw, and wait until all is drawn. */
export async function perform(step: () => unknown): Promise<void> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  await react.act(async () => {
    await step();
    await settle();
  });
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: false });
}

/** Put a widget on the page. */
export async function attach<T extends Widget>(widget: T): Promise<T> {
  await perform(() => Widget.attach(widget, document.body));
  return widget;
}

/** Put a React element on the page; return its node. */
export async function show(element: React.ReactElement): Promise<HTMLElement> {
  return (await attach(ReactWidget.create(element))).node;
}

/** Draw a widget now, where JupyterLab would draw it with the next frame. */
export async function draw(widget: Widget): Promise<void> {
  await perform(() => MessageLoop.sendMessage(widget, Widget.Msg.UpdateRequest));
}

/** Wait until a widget has been drawn, which it tells only when the page has time, and for what it does then. */
export async function drawn(widget: ReactWidget): Promise<void> {
  await perform(() => widget.renderPromise);
}

/** Return the elements that a selector finds. */
export function all(selector: string, within: ParentNode = document): HTMLElement[] {
  return Array.from(within.querySelectorAll<HTMLElement>(selector));
}

/** Return the words of an element, with single spaces. */
export function words(element: Element | null | undefined): string {
  return (element?.textContent ?? '').replace(/\s+/g, ' ').trim();
}

/** Return the button with this label or text. */
export function button(label: string, within: ParentNode = document): HTMLButtonElement {
  const found = all('button', within).find(
    candidate => candidate.getAttribute('aria-label') === label || words(candidate) === label
  );
  if (found === undefined) {
    const labels = all('button', within).map(known => known.getAttribute('aria-label') ?? words(known));
    throw new Error(`There is no button “${label}”, only: ${labels.join(', ')}.`);
  }
  return found as HTMLButtonElement;
}

/** Press a button. */
export async function press(label: string, within: ParentNode = document): Promise<void> {
  const found = button(label, within);
  await perform(() => found.click());
}

/** Enter a text into a field, or choose an option. */
export async function enter(field: HTMLElement | null, text: string): Promise<void> {
  await perform(() => {
    const { value } = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(field) as object) as {
      value: PropertyDescriptor;
    };
    value.set?.call(field, text);
    field?.dispatchEvent(
      new Event(field instanceof HTMLSelectElement ? 'change' : 'input', { bubbles: true })
    );
  });
}

/** Take everything off the page, and cancel the dialogs that are open. */
export function clearScreen(): void {
  Dialog.flush();
  Notification.manager.dismiss();
  document.body.replaceChildren();
}
