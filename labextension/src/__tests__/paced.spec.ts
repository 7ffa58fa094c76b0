/** A few pieces of work are under way at one time. */

import { forEachPaced } from '../paced';

it('does all of the work, in order, and no more than four at one time', async () => {
  const begun: number[] = [];
  let [underWay, most] = [0, 0];
  await forEachPaced([...Array(10).keys()], async item => {
    begun.push(item);
    most = Math.max(most, (underWay += 1));
    await Promise.resolve();
    underWay -= 1;
  });
  expect([begun, most]).toEqual([[...Array(10).keys()], 4]);
});

it('begins nothing after a failure, and ends with what was under way', async () => {
  const ended: number[] = [];
  const work = forEachPaced([...Array(10).keys()], async item => {
    await Promise.resolve();
    if (item === 1) {
      throw new Error('away');
    }
    await Promise.resolve();
    ended.push(item);
  });
  await expect(work).rejects.toThrow('away');
  expect(ended).toEqual([0, 2, 3]);
});
