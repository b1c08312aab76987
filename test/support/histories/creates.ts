/** What rivals create: the same ids without keys, with one key, with several, and with a key that is used twice. */

import { type Field, optionalFields, sampleOf } from '../plants.ts'
import type { Random } from '../random.ts'
import type { Operation } from './history.ts'

/** One create; its name differs from those of all others with its id, except those of the same key and content. */
export type Create = Pick<Operation, 'id' | 'key' | Field>

/** How many clients want an id. */
const rivals = [1, 1, 2, 3, 4]
/** After this many ids, creates come with keys, then without again: a batch without keys is another statement. */
const idsPerPhase = 64
/** One create in this many is for one of the `earlier` ids. */
const lateOneIn = 8
const earlier = 1_000

/**
 * Draws creates endlessly; those for one id come together, so that clients send them at the same time. `optional` are the
 * optional fields that they have.
 */
export function* drawCreates(
  firstId: number,
  random: Random,
  optional: readonly Field[] = optionalFields
): Generator<Create, never> {
  let drawn = 0
  const draw = (id: number, isKeyed: boolean): Create => {
    const more =
      id % 3 === 0 ? {} : Object.fromEntries(optional.map((field) => [field, sampleOf(field, id % 7)]))
    if (!isKeyed || random.oneIn(4)) return { id: `${id}`, name: `plant ${id} "\\ß🌱 of ${++drawn}`, ...more }
    const key = `key-${random.oneIn(4) ? 'b' : 'a'}`
    return {
      id: `${id}`,
      name: `plant ${id} by ${key}, ${random.oneIn(4) ? 'changed' : 'first'}`,
      ...more,
      key
    }
  }
  for (let id = firstId; ; id++) {
    const isKeyed = Math.floor(id / idsPerPhase) % 2 === 1
    for (let left = random.pick(rivals); left > 0; left--) {
      yield draw(id, isKeyed)
      if (id > firstId && random.oneIn(lateOneIn))
        yield draw(id - 1 - random.integer(Math.min(earlier, id - firstId)), isKeyed)
    }
  }
}
