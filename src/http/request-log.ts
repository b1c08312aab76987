/** One log line for each request. */
import { isIP, type Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { findTraceId } from './request-id.ts'
import { createSuccessLine } from './success-line.ts'

/** Gives the client's address; the connection's where a proxy that is trusted put something else in its place. */
function findClient({ ip, socket }: FastifyRequest): string | undefined {
  const { remoteAddress } = socket
  return ip === remoteAddress || isIP(ip) === 0 ? remoteAddress : ip
}

/** Gives the fields of a request's line. */
function describe(reply: FastifyReply) {
  const { request } = reply
  return {
    traceId: findTraceId(request.headers),
    method: request.method,
    route: request.routeOptions.url,
    caller: request.caller || undefined,
    failure: request.failure?.error ?? 0,
    batchRows: request.batchRows,
    durationMs: Math.round(reply.elapsedTime * 1000) / 1000,
    client: findClient(request)
  }
}

export default fp(
  async (app) => {
    const logCreated = createSuccessLine(app.log)
    // Of a socket that has closed Node tells the address only when it was asked for it before.
    app.server.on('connection', (socket: Socket) => void socket.remoteAddress)
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
  { name: 'request-log', dependencies: ['protocol', 'auth', 'error-handler'] }
)
