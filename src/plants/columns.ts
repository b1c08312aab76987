/** The columns that hold the fields of a plant: statements, parameters, write ids and the checks come from this list. */
import type { NewPlant } from './schema.ts'

/** The columns by name, which is that of their fields, with their SQL types. The column of an optional field may be null. */
export const columns = {
  id: 'bigint',
  name: 'text',
  tag: 'text'
} satisfies Record<keyof NewPlant, string>
const fields = Object.keys(columns) as (keyof NewPlant)[]

/** The names of all columns as SQL lists them. */
export const columnNames = fields.join(', ')

/** Writes the parameters of all columns as SQL lists them, from number `first` on: `$2::text[]`. */
export const castParameters = (first: number): string =>
  fields.map((field, index) => `$${first + index}::${columns[field]}[]`).join(', ')

/**
 * Writes an array literal (PostgreSQL manual, "Array Input and Output Syntax"), which is one parameter for a whole column.
 * The elements are in quotes already, unless they need none, as numbers and UUIDs.
 */
export const toArray = (elements: readonly string[]): string => `{${elements.join(',')}}`

const special = /["\\]/
const specials = /["\\]/g

/** Writes the value of a field as an element. */
function toElement(value: NewPlant[keyof NewPlant]): string {
  if (value === undefined) return 'NULL'
  if (typeof value !== 'string') return String(value)
  return special.test(value) ? `"${value.replace(specials, '\\$&')}"` : `"${value}"`
}

/** Returns the parameters for several plants: an array for each column. */
export const toArrayParameters = (plants: readonly NewPlant[]): string[] =>
  fields.map((field) => toArray(plants.map((plant) => toElement(plant[field]))))

/** Serialises a plant's content, for its write id. A new optional field does not change the text of plants without it. */
export const writeContent = (plant: NewPlant): string =>
  fields
    .filter((field) => plant[field] !== undefined)
    .map((field) => `${field}:${toElement(plant[field])}`)
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
