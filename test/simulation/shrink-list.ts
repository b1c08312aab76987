/** Reduces what fails to the part of it that matters. */

/**
 * Leaves out items, first many and then single ones, as long as the rest fails, until no further one can be left out.
 * Asks about all of them first; returns undefined if they do not fail.
 */
export async function shrink<T>(
  items: readonly T[],
  fails: (items: readonly T[]) => Promise<boolean>
): Promise<readonly T[] | undefined> {
  if (!(await fails(items))) return
  let smallest = items
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false
    for (let size = smallest.length; size >= 1; size = Math.floor(size / 2)) {
      for (let start = 0; start < smallest.length; ) {
        const fewer = smallest.toSpliced(start, size)
        if (fewer.length > 0 && (await fails(fewer))) {
          smallest = fewer
          isSmaller = true
        } else start += size
      }
    }
  }
  return smallest
}
