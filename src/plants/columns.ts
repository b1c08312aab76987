/** The columns that hold the fields of a plant: statements, parameters, write ids and the checks come from this list. */
import type { NewPlant } from './schema.ts'

/** The columns by name, which is that of their fields, with their SQL types. The column of an optional field may be null. */
export const columns = {
  id: 'bigint',
  name: 'text',
  tag: 'text'
} satisfies Record<keyof NewPlant, string>
const fields = Object.keys(columns) as (keyof NewPlant)[]

const toText = (value: NewPlant[keyof NewPlant]) =>
  typeof value === 'string' ? `"${value.replaceAll(/["\\]/g, '\\$&')}"` : `${value}`

/**
 * Serialises a plant's content, for its write id, which stored rows have: the text of a plant must never change, nor does a
 * new optional field change it for plants without it.
 */
export const writeContent = (plant: NewPlant): string =>
  fields
    .filter((field) => plant[field] !== undefined)
    .map((field) => `${field}:${toText(plant[field])}`)
    .join()

/** The bytes that a row counts for besides its texts: its ids, values of a fixed size, and its objects in memory. */
const rowBytes = 64

/** Returns the bytes that a plant counts for: its texts as UTF-16 or as UTF-8, whichever takes more. */
export function countBytes(plant: NewPlant): number {
  let bytes = rowBytes
  for (const field of fields) {
    const value = plant[field]
    if (typeof value === 'string') bytes += Math.max(2 * value.length, Buffer.byteLength(value))
  }
  return bytes
}
