/** Plants as loads draw them and judges compare them: the fields are the schema's, so that a new one needs no change here. */
import type { TSchema } from '@sinclair/typebox'
import { Plant } from '../src/plants/schema.ts'

export type Field = keyof Plant

/** The fields that a client gets back. */
export const fields = Object.keys(Plant.properties) as Field[]

const required: readonly string[] = Plant.required ?? []

/** The fields that may be absent. */
export const optionalFields = fields.filter((field) => !required.includes(field))

/** Returns the plant alone, without what else an object has. */
export const toPlant = (from: Plant): Plant =>
  Object.fromEntries(
    fields.flatMap((field) => (from[field] === undefined ? [] : [[field, from[field]]]))
  ) as Plant

export const isSamePlant = (one: Plant, other: Plant): boolean =>
  fields.every((field) => one[field] === other[field])

/** Returns a valid value of a field, for 0 one that is often taken for none. */
export function sampleOf(field: Field, number: number): string | number | boolean {
  const { type, minimum = 0, maximum = Number.MAX_SAFE_INTEGER }: TSchema = Plant.properties[field]
  if (type === 'string') return number === 0 ? '' : `${field} ${number}`
  if (type === 'integer' || type === 'number') return minimum + (number % (maximum - minimum + 1))
  if (type === 'boolean') return number % 2 === 1
  throw new Error(`harness/plants.ts has no values for the type of ${field}`)
}
