import { createHash } from 'crypto';

import { hashSource } from '../bundle/hash';

describe('hashSource', () => {
  it.each([
    '',
    'abc',
    'é',
    '😀'.repeat(30),
    'x'.repeat(55),
    'x'.repeat(56),
    'x'.repeat(64),
    'line\r\n'.repeat(5000)
  ])('agrees with another implementation (%#)', text => {
    expect(hashSource(text)).toBe(createHash('sha256').update(text).digest('hex'));
  });
});
