/** One log line for each request. */
import type { FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { createSuccessLine } from './success-line.ts'

/** Gives the fields of a request's line. */
function describe(reply: FastifyReply) {
  const { request } = reply
  return {
    traceId: request.traceId,
    method: request.method,
    route: request.routeOptions.url,
    caller: request.caller || undefined,
    failure: request.failure?.error ?? 0,
    batchRows: request.batchRows,
    durationMs: Math.round(reply.elapsedTime * 1000) / 1000,
    client: request.client
  }
}

export default fp(
  async (app) => {
    const logCreated = createSuccessLine(app.log)
    app.onClosed((reply, isSent) => {
      const { id, failure, log, method } = reply.request
      const line = describe(reply)
      // Its plant may be stored.
      if (!isSent) log.info({ ...line, failure: undefined }, 'the client has left before its response')
      else if (failure?.error === 500) log.error({ ...line, err: failure }, failure.message)
      else if (failure?.error === 503) log.warn({ ...line, cause: failure.cause }, failure.message)
      else if (failure) log.info(line, failure.message)
      else if (method === 'POST') logCreated(id, line)
      // A probe comes every second, and says nothing as long as all is well.
      else log.debug(line, 'responded')
    })
  },
  { name: 'request-log', dependencies: ['connections', 'auth', 'error-handler'] }
)
