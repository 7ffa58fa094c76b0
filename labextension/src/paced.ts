/** Work on many items, a few at one time, so that no server is asked for all of them at once. */

const AT_ONCE = 4;

/**
 * Do the work for each item, in order, a few at one time. If the work for an item fails, no further item begins, and the promise
 * rejects with the reason of that failure once the work under way has ended.
 */
export async function forEachPaced<Item>(
  items: Iterable<Item>,
  work: (item: Item) => Promise<void>
): Promise<void> {
  let left = [...items];
  const worker = async (): Promise<void> => {
    while (left.length > 0) {
      const [item, ...others] = left;
      left = others;
      await work(item).catch((reason: unknown) => {
        left = [];
        throw reason;
      });
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: AT_ONCE }, worker));
  const failed = ended.find(each => each.status === 'rejected');
  if (failed !== undefined) {
    throw failed.reason;
  }
}
