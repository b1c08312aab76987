/** The interface's types as OpenAPI 3.1 has them: the schemas that validate, without what only the validator knows. */
import type { TSchema } from '@sinclair/typebox'
import { ErrorBody, int64, NewPlant, Plant } from '../plants/schema.ts'

/** A number of JSON with exactly these digits, which JSON.stringify rounds otherwise. */
// ECMAScript's, but not yet in TypeScript's library.
const exactNumber = (value: bigint) =>
  (JSON as unknown as { rawJSON(text: string): number }).rawJSON(`${value}`)

const exactInteger = {
  type: 'integer',
  format: 'int64',
  minimum: exactNumber(int64.minimum),
  maximum: exactNumber(int64.maximum)
}

/** Gives a schema in the words of JSON Schema 2020-12 alone; `int64` becomes an integer with exact bounds. */
function toPublic(schema: TSchema): object {
  const { rule: _, int64: isInt64, properties, ...rest } = schema
  if (isInt64) return { ...exactInteger, ...rest }
  if (properties === undefined) return rest
  const entries = Object.entries(properties as Record<string, TSchema>)
  return { ...rest, properties: Object.fromEntries(entries.map(([name, value]) => [name, toPublic(value)])) }
}

/** The schemas by their names. */
export const schemas = {
  NewPlant: toPublic(NewPlant),
  Plant: toPublic(Plant),
  Error: toPublic(ErrorBody)
}
