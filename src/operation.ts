/** What an operation of the interface declares: its route, how its requests are handled, and its part of the OpenAPI document. */
import type { Static, TObject } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { catalogue, type Entry, type FailureName } from './failures/catalogue.ts'
import type { Failure } from './failures/failure.ts'

/** A body that is sent. In the OpenAPI document, its schema's title is its name, and the examples have theirs. */
interface Content<Schema extends TObject> {
  readonly schema: Schema
  readonly examples: Readonly<Record<string, { readonly summary: string; readonly value: object }>>
}

/** The declaration of an operation, from which its route and its part of the OpenAPI document are made. */
export interface Operation<Body extends TObject = TObject> {
  /** Its name in the OpenAPI document. */
  readonly id: string
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly summary: string
  readonly description: string
  /** It changes what is stored: it takes an Idempotency-Key, and its failures say what it may have stored. */
  readonly writes: boolean
  /** The parameters of its path. In this schema and that of the body, what has `int64` becomes an exact bigint. */
  readonly params?: TObject
  readonly body?: Content<Body>
  readonly success: Content<TObject> & {
    readonly description: string
    /** The message of a success in the log. */
    readonly logged: string
  }
  /** The failures that it can meet, besides those that the catalogue's scopes give it. */
  readonly failures: readonly FailureName[]
  /** Returns the failure that its request would meet now, if any. Called before any of the body is read. */
  refusalOf(request: FastifyRequest): Failure | undefined
  /** Returns the body of the response. */
  handle(request: FastifyRequest<{ Body: Static<Body> }>, reply: FastifyReply): Promise<object>
}

/** An operation of an application. `url` is its whole path, as Fastify writes it. */
export type RegisteredOperation = Operation & { readonly url: string }

/** Returns the failures that an operation can meet, in the order of the catalogue. */
export function failuresOf({ writes, params, body, failures }: Operation) {
  const scopes: Entry['scope'][] = ['any request', 'any operation']
  if (writes) scopes.push('operations that write')
  if (body) scopes.push('operations with a body')
  if (body ?? params) scopes.push('operations with a body or parameters')
  const entries = Object.entries(catalogue) as [FailureName, Entry][]
  return entries.filter(([name, { scope }]) => failures.includes(name) || (scope && scopes.includes(scope)))
}
