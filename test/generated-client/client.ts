/** A client as its author would write it, on the types that openapi-typescript makes of the document. */
import createClient from 'openapi-fetch'
import type { components, paths } from './generated/plants.ts'

export type NewPlant = components['schemas']['NewPlant']

/** ECMAScript's, but not yet in TypeScript's library: a number of JSON with exactly these digits. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }

/** Writes a BigInt as the number that it is. */
const bodySerializer = (body: unknown) =>
  JSON.stringify(body, (_, value) => (typeof value === 'bigint' ? rawJSON(`${value}`) : value))

/** Connects to a service whose paths begin with `baseUrl`. */
export function connect(baseUrl: string, token: string) {
  const client = createClient<paths>({
    baseUrl,
    headers: { authorization: `Bearer ${token}` },
    bodySerializer
  })
  return {
    /** Creates a plant; returns it, or the service's failure. */
    createPlant: async (plant: NewPlant, key: string) => {
      const { data, error, response } = await client.POST('/plants', {
        body: plant,
        params: { header: { 'Idempotency-Key': key } }
      })
      return {
        status: response.status,
        name: data?.name,
        tag: data?.tag,
        error: error?.error,
        message: error?.message
      }
    }
  }
}

// What the types must refuse.
// @ts-expect-error: a plant has a name
export const nameless: NewPlant = { id: 1n }
// @ts-expect-error: a tag is a string
export const tagless: NewPlant = { id: 1n, name: 'Fern', tag: null }
// @ts-expect-error: an id is a BigInt, as a number would be rounded
export const misnumbered: NewPlant = { id: 1, name: 'Fern' }
