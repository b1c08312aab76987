/** The columns that hold the fields of a plant: statements, parameters, write ids and the checks come from this list. */
import type { NewPlant } from './schema.ts'

/**
 * Writes an array literal (PostgreSQL manual, "Array Input and Output Syntax"), which is one parameter for a whole column.
 * The elements are in quotes already, unless they need none, as numbers and UUIDs.
 */
export const toArray = (elements: readonly string[]): string => `{${elements.join(',')}}`

const special = /["\\]/
const specials = /["\\]/g

/** Writes a text as an element. */
const quoteElement = (text: string): string =>
  special.test(text) ? `"${text.replace(specials, '\\$&')}"` : `"${text}"`

/** An SQL type, and how its values are written. */
interface ColumnType<Value extends bigint | boolean | number | string> {
  /** Its name in SQL. */
  readonly type: string
  /** Writes a value as an element of an array literal. */
  readonly toElement: (value: Value) => string
}

const bigint: ColumnType<bigint> = { type: 'bigint', toElement: String }
const text: ColumnType<string> = { type: 'text', toElement: quoteElement }

/** The columns, by the names of their fields. The column of an optional field may be null. */
export const columns = {
  id: { name: 'id', ...bigint },
  name: { name: 'name', ...text },
  tag: { name: 'tag', ...text }
} satisfies { [Field in keyof NewPlant]-?: { name: string } & ColumnType<NonNullable<NewPlant[Field]>> }

/** Any column: in a loop, TypeScript does not know which value belongs to which column. */
type AnyColumn = { name: string } & ColumnType<NonNullable<NewPlant[keyof NewPlant]>>
const entries = Object.entries(columns) as [keyof NewPlant, AnyColumn][]

/** Writes the names of all columns as SQL lists them. */
export const columnNames = entries.map(([, { name }]) => name).join(', ')

/** Writes the parameters of all columns as SQL lists them, from number `first` on: `$2::text[]`. */
export const castParameters = (first: number): string =>
  entries.map(([, { type }], index) => `$${first + index}::${type}[]`).join(', ')

const elementOf = (plant: NewPlant, [field, { toElement }]: (typeof entries)[number]) =>
  plant[field] === undefined ? 'NULL' : toElement(plant[field])

/** Returns the parameters for several plants: an array for each column. */
export const toArrayParameters = (plants: readonly NewPlant[]): string[] =>
  entries.map((entry) => toArray(plants.map((plant) => elementOf(plant, entry))))

/** Serialises a plant's content, for its write id. A new optional field does not change the text of plants without it. */
export const writeContent = (plant: NewPlant): string =>
  entries
    .filter(([field]) => plant[field] !== undefined)
    .map((entry) => `${entry[0]}:${elementOf(plant, entry)}`)
    .join()

/** The bytes that a row counts for besides its texts: its ids, values of a fixed size, and its objects in memory. */
const rowBytes = 64

const textFields = entries.filter(([, { type }]) => type === 'text').map(([field]) => field)

/** Returns the bytes that a plant counts for: its texts as UTF-16 or as UTF-8, whichever takes more. */
export function countBytes(plant: NewPlant): number {
  let bytes = rowBytes
  for (const field of textFields) {
    const text = plant[field] as string | undefined
    if (text !== undefined) bytes += Math.max(2 * text.length, Buffer.byteLength(text))
  }
  return bytes
}
