/** The columns that hold the fields of a plant: statements, parameters, write ids and readiness come from this list. */
import type { NewPlant } from './schema.ts'

/**
 * Writes an array literal (PostgreSQL manual, "Array Input and Output Syntax"), one parameter for a whole column, from
 * elements that are already written: in quotes, or plain if they need none, as numbers and uuids.
 */
export const toArray = (elements: readonly string[]): string => `{${elements.join(',')}}`

const special = /["\\]/
const specials = /["\\]/g

/** Writes a text as an element. */
const quoteElement = (text: string): string =>
  special.test(text) ? `"${text.replace(specials, '\\$&')}"` : `"${text}"`

/** An SQL type, and how a value becomes a parameter. */
interface ColumnType<Value extends bigint | boolean | number | string> {
  /** Its name in SQL. */
  readonly type: string
  /** Writes a value as an element of an array literal. */
  readonly toElement: (value: Value) => string
}

const bigint: ColumnType<bigint> = { type: 'bigint', toElement: String }
const text: ColumnType<string> = { type: 'text', toElement: quoteElement }

/** The columns, by the names of their fields; that of an optional field may be null. */
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

/** Writes what a plant holds: the same text for the same values, even if a later version has more optional fields. */
export const writeContent = (plant: NewPlant): string =>
  entries
    .filter(([field]) => plant[field] !== undefined)
    .map((entry) => `${entry[0]}:${elementOf(plant, entry)}`)
    .join()

/** What a row counts for besides its texts, in bytes: ids, values of a fixed size, and its place in memory. */
export const rowBytes = 64

/** The fields that are texts. */
const texts = entries.filter(([, { type }]) => type === 'text').map(([field]) => field)

/** What JSON escapes, and some more control characters. */
const escaped = /["\\\p{Cc}]/u

/**
 * Returns what a plant counts for, in bytes: `sent`, those that are sent to the database in its batch, and `held`, half of
 * what its texts take as strings and as JSON until its response is taken.
 */
export function countBytes(plant: NewPlant): { sent: number; held: number } {
  let sent = rowBytes
  let held = rowBytes
  for (const field of texts) {
    const text = plant[field] as string | undefined
    if (text === undefined) continue
    const bytes = Buffer.byteLength(text)
    // V8 uses one byte for each character, or two for each if any is beyond Latin-1.
    const inMemory = bytes === text.length ? bytes : 2 * text.length
    const asJson = escaped.test(text) ? Buffer.byteLength(JSON.stringify(text)) : bytes
    sent += bytes
    held += Math.ceil((inMemory + asJson) / 2)
  }
  return { sent, held }
}
