/** Clients as their authors would write them, on what public generators make of the document. */
import createClient from 'openapi-fetch'
import { z } from 'zod'
import { createClient as createHeyApi } from '../../generated-client/generated/hey-api/client/index.ts'
import { createPlant as createByHeyApi } from '../../generated-client/generated/hey-api/index.ts'
import { createPlant as createByOrval } from '../../generated-client/generated/orval/fetch.ts'
import { CreatePlantBody, CreatePlantResponse } from '../../generated-client/generated/orval/zod.ts'
import type { components, paths } from '../../generated-client/generated/plants.ts'

export type NewPlant = components['schemas']['NewPlant']

/** How a client writes a body: what docs/clients.md has for those that take a body serializer. */
export type Serializer = (body: unknown) => string

export interface Service {
  /** Where the document's paths begin. */
  baseUrl: string
  token: string
  bodySerializer: Serializer | undefined
}

/** Creates a plant by each client; returns what is left of the response. */
type Create = (service: Service, plant: NewPlant, key: string) => Promise<unknown>

const outcome = (data: unknown, error: unknown, { status, headers }: Pick<Response, 'status' | 'headers'>) =>
  status === 200 ? { status, data } : { status, error, name: headers.get('error-name') }

const fieldsOf = (token: string, key: string) => ({
  Authorization: `Bearer ${token}`,
  'Idempotency-Key': key
})

const openapiFetch: Create = async ({ baseUrl, token, bodySerializer }, plant, key) => {
  const headers = { authorization: `Bearer ${token}` }
  const client = createClient<paths>({ baseUrl, headers, ...(bodySerializer && { bodySerializer }) })
  const { data, error, response } = await client.POST('/plants', {
    body: plant,
    params: { header: { 'Idempotency-Key': key } }
  })
  return outcome(data, error, response)
}

const orval: Create = async ({ baseUrl, token }, plant, key) => {
  process.env.PLANTS_BASE = baseUrl
  const response = await createByOrval(plant, { headers: fieldsOf(token, key) })
  return outcome(response.data, response.data, response)
}

/** Its schema of an id is a number: docs/clients.md replaces it. */
const orvalWithZod: Create = async (service, plant, key) => {
  const checked = CreatePlantBody.extend({ id: z.bigint() }).parse(plant)
  const { status, data, ...rest } = (await orval(service, checked as NewPlant, key)) as {
    status: number
    data?: unknown
  }
  return status === 200 ? { status, data: CreatePlantResponse.parse(data) } : { status, ...rest }
}

/** It checks the body and the response by zod. */
const heyApi: Create = async ({ baseUrl, token, bodySerializer }, plant, key) => {
  const client = createHeyApi({ baseUrl, auth: token })
  if (bodySerializer) client.setConfig({ bodySerializer })
  const headers = { 'Idempotency-Key': key }
  const { data, error, response } = await createByHeyApi({ client, body: plant, headers })
  if (!response) throw error
  return outcome(data, error, response)
}

export const clients = {
  'openapi-typescript and openapi-fetch': openapiFetch,
  "orval's fetch": orval,
  "orval's fetch and zod": orvalWithZod,
  "Hey API's fetch and zod": heyApi
}

// What the types must refuse.
// @ts-expect-error: a plant has a name
export const nameless: NewPlant = { id: 1n }
// @ts-expect-error: a tag is a string
export const tagless: NewPlant = { id: 1n, name: 'Fern', tag: null }
// @ts-expect-error: an id is a BigInt, as a number would be rounded
export const misnumbered: NewPlant = { id: 1, name: 'Fern' }
