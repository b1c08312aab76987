/** Interpolation between points that were measured. */

/**
 * Finds a value's place among points, the least first: the points below and above it, and how far it is on the way
 * between them, from 0 to 1. Beyond the ends both are the last point there.
 */
export function findNeighbours<T>(points: T[], keyOf: (point: T) => number, value: number) {
  const above = points.find((point) => keyOf(point) >= value) ?? points.at(-1)
  const below = points.findLast((point) => keyOf(point) <= value) ?? above
  if (above === undefined || below === undefined) throw new Error('nothing was measured')
  const part = above === below ? 0 : (value - keyOf(below)) / (keyOf(above) - keyOf(below))
  return { below, above, part }
}
