// Parts of a browser that jsdom lacks.
const { TextDecoder, TextEncoder } = require('util');
const { webcrypto } = require('crypto');
Object.assign(globalThis, { TextDecoder, TextEncoder });
if (globalThis.crypto === undefined || globalThis.crypto.subtle === undefined) {
  Object.defineProperty(globalThis, 'crypto', { value: webcrypto });
}
globalThis.DragEvent ??= class DragEvent extends Event {};
globalThis.matchMedia ??= () => ({
  matches: false,
  addEventListener: () => {},
  addListener: () => {},
  removeEventListener: () => {},
  removeListener: () => {}
});
class NoObserver {
  observe() {}
  unobserve() {}
  disconnect() {}
}
globalThis.ResizeObserver ??= NoObserver;
globalThis.IntersectionObserver ??= NoObserver;
globalThis.requestIdleCallback ??= callback => setTimeout(callback);
globalThis.CSS ??= { escape: text => text };
Element.prototype.scrollIntoView ??= () => {};
Object.defineProperty(navigator, 'clipboard', { value: {} });
