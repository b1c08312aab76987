/** What is logged of a request: its id, a logger that writes it, and one line when its response has ended. */
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyBaseLogger, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { type DestinationStream, type Logger, pino } from 'pino'

const requestId = /^[A-Za-z0-9._-]{1,128}$/
/** Addresses, separated by commas: in the log, nothing else of what a client may have sent. */
const addresses = /^[\da-f.:, ]{1,200}$/i
/** W3C Trace Context, section 3.2: version 00; a trace id or a parent id of zeros alone is none. */
const traceparent = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** Returns the request's id, shared by all logs: its X-Request-Id, 1 to 128 of `[A-Za-z0-9._-]`, or else a new UUID. */
export function identifyRequest(headers: IncomingHttpHeaders): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && requestId.test(given) ? given : randomUUID()
}

/** Returns the trace id, 32 hex digits, of a request's `traceparent`, or undefined where there is no valid one. */
export function findTraceId({ traceparent: given }: IncomingHttpHeaders): string | undefined {
  return typeof given === 'string' ? traceparent.exec(given)?.[1] : undefined
}

/** Returns the `X-Forwarded-For` of a request, or undefined where it has none, a long one, or other things than addresses. */
export function findForwardedFor({ 'x-forwarded-for': given }: IncomingHttpHeaders): string | undefined {
  return typeof given === 'string' && addresses.test(given) ? given : undefined
}

/**
 * Returns what writes the line of a success to the destination of a pino logger, unless the logger's level is above. There
 * is one such line for each plant, so it is written without pino's generic serialisation. No field needs escaping: the
 * alphabet of each has no quotes and no backslashes.
 */
function createSuccessLine(
  logger: FastifyBaseLogger
): (requestId: string, success: Line, message: string) => void {
  if (!(logger as Logger).isLevelEnabled('info')) return () => {}
  const stream = Reflect.get(logger, pino.symbols.streamSym) as DestinationStream
  const field = (name: string, value: string | number | undefined) =>
    value === undefined ? '' : `"${name}":${typeof value === 'number' ? value : `"${value}"`},`
  return (requestId, line, message) => {
    const { traceId, method, route, caller, batchRows, durationMs, client, forwardedFor } = line
    stream.write(
      `{"level":30,"time":${Date.now()},"requestId":"${requestId}",${field('traceId', traceId)}"method":"${method}",` +
        `${field('route', route)}${field('caller', caller)}"failure":0,${field('batchRows', batchRows)}` +
        `"durationMs":${durationMs},${field('client', client)}${field('forwardedFor', forwardedFor)}"msg":"${message}"}\n`
    )
  }
}

type Line = ReturnType<typeof describe>

/** Returns the fields of a request's line. */
function describe(reply: FastifyReply) {
  const { request } = reply
  return {
    traceId: request.traceId,
    method: request.method,
    route: (request.operation ?? request.routeOptions).url,
    caller: request.caller || undefined,
    failure: request.failure?.error ?? 0,
    batchRows: request.batchRows,
    durationMs: Math.round(reply.elapsedTime * 1000) / 1000,
    client: request.client,
    forwardedFor: request.forwardedFor
  }
}

export default fp(
  async (app) => {
    const logSuccess = createSuccessLine(app.log)
    app.onClosed((reply, isSent) => {
      const { id, failure, log, operation } = reply.request
      const line = describe(reply)
      // Without a failure: its plant may be stored.
      if (!isSent) log.info({ ...line, failure: undefined }, 'the client has left before its response')
      else if (failure?.error === 500) log.error({ ...line, err: failure }, failure.message)
      else if (failure?.error === 503) log.warn({ ...line, cause: failure.cause }, failure.message)
      else if (failure) log.info(line, failure.message)
      else if (operation) logSuccess(id, line, operation.success.logged)
      // Probes come every second, and matter only when they fail.
      else log.debug(line, 'responded')
    })
  },
  { name: 'request-log', dependencies: ['connections', 'auth'] }
)
