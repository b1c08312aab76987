/** What an operation of the interface declares: its route, the handling of its requests, and its part of the OpenAPI document. */
import type { Static, TObject } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FailureName } from './failures/catalogue.ts'
import type { Failure } from './failures/failure.ts'

/** A body that is sent. In the OpenAPI document, its schema's title is its name, and the examples have theirs. */
interface Content<Schema extends TObject> {
  readonly schema: Schema
  readonly examples: Readonly<Record<string, { readonly summary: string; readonly value: object }>>
}

/** An operation. The handling of its requests and the OpenAPI document follow from this. */
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
  readonly success: Content<TObject> & { readonly description: string; readonly logged: string }
  /** The failures that it can meet, besides those of the catalogue whose scope it is in. */
  readonly failures: readonly FailureName[]
  /** Returns the failure that its request would meet now, if any. Called before any of the body is read. */
  admit(request: FastifyRequest): Failure | undefined
  /** Returns the body of the response. */
  handle(request: FastifyRequest<{ Body: Static<Body> }>, reply: FastifyReply): Promise<object>
}

/** An operation of a server, with its whole path. */
export type RegisteredOperation = Operation & { readonly url: string }
