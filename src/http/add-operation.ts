/** Makes the route of an operation from its declaration. The route decides what to refuse before it reads a body. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { addGauge } from '../metrics/metrics.ts'
import type { Operation, RegisteredOperation } from '../operation.ts'
import { Shares } from '../shared/shares.ts'
import { checkBodyHeader, checkBudget, createBodyReader } from './body.ts'
import { parseIdempotencyKey } from './head.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: RegisteredOperation
    /** The route is not part of the interface, nor of its OpenAPI document. */
    isInternal?: true
  }
  interface FastifyRequest {
    /** Undefined for an internal route, and without a route. */
    readonly operation: RegisteredOperation | undefined
    /** Undefined if its operation does not write. */
    idempotencyKey: string | undefined
    /** How many rows the transaction of its write had, for the log. */
    batchRows: number | undefined
  }
  interface FastifyInstance {
    /** Adds the route of an operation. */
    addOperation(operation: Operation): void
  }
}

const tooManyConnections = () => new Failure('Overloaded', { message: 'too many connections' })

/** `bodyMemoryBytes` is the budget of the bodies that are arriving at the same time. */
export default fp<{ registry: Registry; basePath: string; bodyMemoryBytes: number }>(
  async (app, { registry, basePath, bodyMemoryBytes }) => {
    const { bodyLimit } = app.initialConfig as { bodyLimit: number }
    const bodies = new Shares(bodyMemoryBytes)
    const declarations = new WeakSet<RegisteredOperation>()
    addGauge(registry, 'http_body_bytes', 'Bytes held for the bodies that are arriving', () => bodies.held)
    addGauge(registry, 'http_body_bytes_limit', 'BODY_MEMORY_BYTES', () => bodyMemoryBytes)
    app.removeAllContentTypeParsers()
    app.decorateRequest('operation', { getter: () => undefined })
    app.decorateRequest('idempotencyKey', undefined)
    app.decorateRequest('batchRows', undefined)
    app.addHook('onRoute', ({ method, url, config: { isInternal, operation } = {} }) => {
      if (isInternal || (operation && declarations.has(operation))) return
      throw new Error(`${method} ${url} is neither a declared operation nor internal`)
    })
    app.decorate('addOperation', (declared) => {
      const { method, path, writes, body, success } = declared
      const operation = { ...declared, url: basePath + path }
      declarations.add(operation)
      const response = { 200: success.schema }

      /** Returns the first failure, in the order of the contract; the first step throws its own. */
      function findRefusal(request: FastifyRequest): Failure | undefined {
        const { headers, connection, caller } = request
        // 1. The Idempotency-Key.
        if (writes) request.idempotencyKey = parseIdempotencyKey(headers['idempotency-key'] as string)
        // 2. What the header says about the body.
        const headerFailure = body && checkBodyHeader(headers, bodyLimit)
        if (headerFailure) return headerFailure
        // 3. A connection beyond the limit.
        if (connection?.isExcess) return tooManyConnections()
        // 4. What the operation cannot do now.
        const refusal = operation.refusalOf(request)
        if (refusal) return refusal
        // 5. The budget of bodies.
        return body && checkBudget(headers, bodies, caller)
      }

      // One hook for all synchronous decisions: Fastify's step from hook to hook costs more than most of them.
      const decide: onRequestHookHandler = (request, _, done) => done(findRefusal(request))
      app.register(async (scope) => {
        // A getter of the prototype, unlike a field, costs a request nothing.
        scope.decorateRequest('operation', { getter: () => operation })
        if (body) {
          const readBody = createBodyReader(body.schema, bodies, bodyLimit)
          scope.addContentTypeParser('application/json', (request, _, done) => readBody(request, done))
        }
        scope.route({
          method,
          url: operation.url,
          config: { operation },
          schema: { ...(body && { body: body.schema }), response },
          onRequest: [app.authenticate, decide],
          handler: operation.handle
        })
      })
    })
  },
  { name: 'add-operation', dependencies: ['auth'] }
)
