/** One log line for each request. */
import { isIP, type Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { findTraceId } from './request-id.ts'

/** Gives the client's address; the connection's where a proxy that is trusted put something else in its place. */
function findClient({ ip, socket }: FastifyRequest): string | undefined {
  return isIP(ip) === 0 ? socket.remoteAddress : ip
}

/** Gives the fields of a request's line. */
function describe(request: FastifyRequest, reply: FastifyReply) {
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
    // Of a socket that has closed Node tells the address only when it was asked for it before.
    app.server.on('connection', (socket: Socket) => void socket.remoteAddress)
    app.addHook('onRequest', (request, reply, done) => {
      // There is no response whose end Fastify could report; its plant may be stored.
      reply.raw.once('close', () => {
        if (reply.raw.writableFinished || !request.raw.socket.destroyed) return
        const { failure, ...line } = describe(request, reply)
        request.log.info(line, 'the client has left before its response')
      })
      done()
    })
    app.addHook('onResponse', (request, reply, done) => {
      const { failure } = request
      const line = describe(request, reply)
      if (failure?.error === 500) request.log.error({ ...line, err: failure }, failure.message)
      else if (failure?.error === 503) request.log.warn({ ...line, cause: failure.cause }, failure.message)
      else if (failure) request.log.info(line, failure.message)
      else if (request.method === 'POST') request.log.info(line, 'created')
      // A probe comes every second, and says nothing as long as all is well.
      else request.log.debug(line, 'responded')
      done()
    })
  },
  { name: 'request-log', dependencies: ['auth', 'error-handler'] }
)
