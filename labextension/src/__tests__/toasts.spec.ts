import { fitToast, quoteName } from '../toasts';

describe('the message of a notification', () => {
  const failure = 'Cell 2 of 3 (`fit()`) raised ValueError: bad. Correct the cell and send it again.';

  it('is the whole text if it fits', () => {
    expect(fitToast(`“digits”: ${failure}`)).toBe(`“digits”: ${failure}`);
  });

  it('ends with a whole sentence if not all of them fit', () => {
    const [cell, remedy] = [
      `“digits”: The cell raised ValueError: ${'bad '.repeat(20)}end.`,
      'Correct the cell.'
    ];
    expect(fitToast(`${cell} ${remedy} ${'And so on. '.repeat(9)}`)).toBe(`${cell} ${remedy}`);
  });

  it('ends with a whole word if one sentence is too long', () => {
    const message = fitToast('word '.repeat(60));
    expect(message.length).toBeLessThanOrEqual(140);
    expect(message).toMatch(/word…$/);
    expect(fitToast('x'.repeat(300))).toHaveLength(140);
  });

  it('has room for more than a long name', () => {
    expect(quoteName('digits')).toBe('“digits”');
    expect(quoteName('n'.repeat(100)).length).toBeLessThanOrEqual(42);
  });

  it('has no half of a character', () => {
    for (let before = 0; before < 150; before++) {
      const long = 'n'.repeat(before) + '😀'.repeat(100);
      expect(() => encodeURIComponent(quoteName(long) + fitToast(long))).not.toThrow();
    }
  });
});
