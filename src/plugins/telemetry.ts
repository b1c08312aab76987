/**
 * What operators see of requests: how long each took, how it ended, who its caller was, and its
 * line in the log.
 */
import { Counter, Histogram } from '@prometheus-io/client'
import type { FastifyBaseLogger, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { defer } from '../deferred.ts'
import type { Failure } from '../failures.ts'
import { findForwardedFor, findTraceId } from '../http/head.ts'
import type { OwnLogger } from '../log.ts'
import { addGauge, prefix } from '../metrics.ts'

/** Register this plugin after the routes of the interface. */
export default fp(async (app) => {
  const { connections, metrics, routes, server } = app
  const registers = [metrics]
  const logger = app.log
  const logSuccess = createSuccessLog(logger)
  const inFlight = 'Requests that have no complete response yet'
  addGauge(metrics, 'http_requests_in_flight', inFlight, () => connections.pending)
  addGauge(metrics, 'http_connections', 'Open connections of clients', () => connections.size)
  const dropped = new Counter({
    name: `${prefix}http_connections_dropped_total`,
    help: 'Connections that were closed at once: MAX_CONNECTIONS were open',
    registers
  })
  server.on('drop', () => dropped.inc())
  const labelOf = limitCallers()
  const requests = new Counter({
    name: `${prefix}http_requests_total`,
    help:
      "Requests by their token's caller, (none) without a valid one, (other) beyond the first " +
      "200, and by how they ended: Success, a failure's name, or ClientLeft",
    labelNames: ['caller', 'result'],
    registers,
    collect: () => replies.finish()
  })
  const durations = new Histogram({
    name: `${prefix}http_request_duration_seconds`,
    help:
      "Time from a request's header to the end of its response; failure is the response's " +
      'number, 0 for a success',
    labelNames: ['route', 'method', 'failure'],
    registers,
    collect: () => replies.finish(),
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
  })
  // Prometheus must see each series at 0 first. If a series begins with its first failure, it shows
  // no increase.
  for (const { url: route, method } of routes.filter(({ isApi }) => isApi))
    for (const failure of [0, 500, 503]) durations.zero({ route, method, failure })
  // These failures belong to no request that could be measured.
  server.on('rejected', ({ error: failure, name: errorName, message }: Failure, origin: object) => {
    requests.inc({ caller: noCaller, result: errorName })
    logger.info({ ...origin, failure, errorName }, message)
  })
  const record = ({ reply, isSent, time }: Reply) => {
    const line = describeReply(reply)
    const {
      caller = noCaller,
      route = 'unknown',
      failure,
      errorName = 'Success',
      durationMs
    } = line
    const method = methods.has(line.method) ? line.method : 'other'
    requests.inc({ caller: labelOf(caller), result: isSent ? errorName : 'ClientLeft' })
    if (isSent) durations.observe({ route, method, failure }, durationMs / 1_000)
    if (isSent && failure === 0 && line.caller) logSuccess(line, time)
    else logReply(logger, line, reply.request.failure, isSent)
  }
  const replies = defer(record)
  server.on('replied', (reply: FastifyReply, isSent: boolean) => {
    const entry = { reply, isSent, time: Date.now() }
    // Put off only what happens most. The line of a failure stays beside its other lines.
    if (isSent && !reply.request.failure) replies.add(entry)
    else record(entry)
  })
  app.addHook('onClose', async () => replies.finish())
})

/** The label of requests without a caller. No caller's name has brackets. */
const noCaller = '(none)'

/** How many callers have series of their own. An identity provider can know many more callers. */
const mostCallers = 200

/**
 * Returns a function that returns the label of a caller. It is "(other)" once so many callers have
 * been seen.
 */
function limitCallers() {
  const first = new Set([noCaller])
  return (caller: string) => {
    if (first.size <= mostCallers) first.add(caller)
    return first.has(caller) ? caller : '(other)'
  }
}

/**
 * The methods with series of their own. Clients can choose any other name, and each would be a new
 * series.
 */
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])

/** Logs a response that was sent or given up. `logSuccess` logs the success of a caller instead. */
function logReply(logger: FastifyBaseLogger, line: Line, failure: Failure | null, isSent: boolean) {
  // Leave out the failure: the client did not get one, and its plant may be stored.
  const unsent = { ...line, failure: undefined, errorName: undefined }
  if (!isSent) logger.info(unsent, 'the client left before its response')
  // Probes come every second, and are interesting only if they fail.
  else if (!failure) logger.debug(line, 'responded')
  else if (failure.error === 500) logger.error({ ...line, err: failure }, failure.message)
  else if (failure.error === 503) logger.warn({ ...line, cause: failure.cause }, failure.message)
  else logger.info({ ...line, cause: failure.cause }, failure.message)
}

/** Any logger that Fastify can have. It may be our own. */
type AnyLogger = FastifyBaseLogger &
  Partial<Pick<OwnLogger, 'bindings' | 'isLevelEnabled' | 'writeLine'>>

/**
 * Returns the function that logs the success of a caller. With our own logger, it writes the line
 * itself, in pino's form: pino's general serialisation takes several times as long. A child logger
 * with bindings, or any other logger, gets an object.
 */
function createSuccessLog(logger: AnyLogger): (line: Line, time: number) => void {
  const { writeLine } = logger
  if (!writeLine || Object.keys(logger.bindings?.() ?? {}).length > 0)
    return (line) => logger.info(line, 'responded')
  return (line, time) => {
    if (logger.isLevelEnabled?.('info'))
      writeLine(`{"level":30,"time":${time},"msg":"responded",${JSON.stringify(line).slice(1)}\n`)
  }
}

/** A response that was sent or given up at a time, in ms since 1970. */
interface Reply {
  readonly reply: FastifyReply
  readonly isSent: boolean
  readonly time: number
}

type Line = ReturnType<typeof describeReply>

/** Returns what a request's line in the log says. */
function describeReply({ request, elapsedTime }: FastifyReply) {
  const { id, headers, method, caller, failure, ip } = request
  return {
    requestId: id,
    traceId: request.traceId ?? findTraceId(headers),
    method,
    route: request.routeOptions.url,
    caller: caller || undefined,
    failure: failure?.error ?? 0,
    errorName: failure?.name,
    durationMs: Math.round(elapsedTime * 1000) / 1000,
    /** This is undefined once the socket is destroyed. */
    client: ip as string | undefined,
    forwardedFor: findForwardedFor(headers)
  }
}
