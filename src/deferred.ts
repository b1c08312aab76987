/** Work that nobody waits for, such as the log and the metrics of successes. */

/** How long work is put off, in ms, and how much of it. */
const delayMs = 10
const mostItems = 64

/**
 * Puts work off, so that no response waits for it: with few requests, it is done while the database
 * works on others. It is done for many items at a time, which costs less than for each by itself:
 * the processor still has the code at hand. `add` takes an item, and `finish` does at once what was
 * put off.
 */
export function defer<T>(work: (item: T) => void) {
  let items: T[] = []
  const finish = () => {
    const taken = items
    items = []
    for (const item of taken) work(item)
  }
  const add = (item: T) => {
    items.push(item)
    if (items.length === 1) setTimeout(finish, delayMs)
    else if (items.length === mostItems) finish()
  }
  return { add, finish }
}
