/** What operators see of requests and connections: what is measured, and lines of the log. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import type { Logger } from 'pino'
import type { Failure } from '../failures/failure.ts'
import { addCounter, addGauge, addHistogram, type Series } from '../metrics/metrics.ts'
import { createCallerCounts } from './callers.ts'
import { createRequestLog, routeOf } from './request-log.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Logs how many requests without a caller had no line of their own since it was logged last. */
    logUnlogged(): void
  }
}

/** All others count as one: clients choose them, and each would be a series of its own. */
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Returns the series of the time that requests take, for each route, method and number of a failure. */
function measureDurations(app: FastifyInstance, registry: Registry) {
  const help =
    "Time from a request's header to the end of its response; failure is the response's number, 0 for a success"
  const addSeries = addHistogram(registry, 'http_request_duration_seconds', help, buckets)
  const isOfInterface = (route: string) => app.routes.some(({ url, operation }) => url === route && operation)
  const known: Record<string, Record<string, Record<number, Series>>> = {}
  function seriesOf(method: string, failure: number, route = 'unknown') {
    known[route] ??= {}
    known[route][method] ??= {}
    const ofMethod = known[route][method]
    ofMethod[failure] ??= addSeries({ route, interface: `${isOfInterface(route)}`, method, failure })
    return ofMethod[failure]
  }
  // Prometheus must see a series at 0 first: one that begins with its first failure shows no increase.
  app.addHook('onReady', (done) => {
    for (const { url, method, operation } of app.routes)
      if (operation) for (const failure of [0, 500, 503]) seriesOf(method, failure, url)
    done()
  })
  return seriesOf
}

export default fp<{ registry: Registry }>(
  async (app, { registry }) => {
    const { connections, server } = app
    const seriesOf = measureDurations(app, registry)
    const count = addCounter.bind(undefined, registry)
    const gauge = addGauge.bind(undefined, registry)
    const callers = createCallerCounts()
    count('http_failures', 'Responses that are failures, by what failed', callers.readFailures, 'name')
    const ofCallers =
      "Requests by their token's name, (none) without a valid one, (other) beyond 100, and by how they ended: " +
      "Success, a failure's name, or ClientLeft"
    count('http_requests', ofCallers, callers.read)
    const ofDropped =
      'Connections closed without a response, beyond MAX_CONNECTIONS and the room for refusals'
    count('http_connections_dropped', ofDropped, () => connections.dropped)
    const ofEvicted =
      'Connections closed to make room for new ones, by whether a request of theirs had a valid token'
    count('http_connections_evicted', ofEvicted, () => connections.evicted, 'token')
    const ofRequests = 'Requests that have no complete response yet'
    gauge('http_requests_in_flight', ofRequests, () => connections.pending)
    gauge('http_connections', 'Open connections of clients', () => connections.size)
    gauge('http_connections_limit', 'MAX_CONNECTIONS', () => connections.limits.maxConnections)
    const ofHeld = 'Connections whose reading is paused'
    gauge('http_connections_held', ofHeld, () => connections.backpressure.size)

    // Fastify derives its own logger from ours.
    const { write, logUnlogged, logReply } = createRequestLog(app.log as Logger)
    app.decorate('logUnlogged', logUnlogged)
    // There is no request to measure.
    server.on(
      'rejected',
      ({ name, error, message }: Failure, from: { requestId: string; client?: string }) => {
        callers.add('', name)
        write(
          'info',
          { requestId: from.requestId, failure: error, errorName: name, client: from.client },
          message
        )
      }
    )
    server.on('replied', (reply: FastifyReply, isSent: boolean) => {
      const { request, elapsedTime } = reply
      const { method, failure, exemplar } = request
      if (isSent) {
        const known = methods.has(method) ? method : 'other'
        seriesOf(known, failure?.error ?? 0, routeOf(request)).observe(elapsedTime / 1000, exemplar)
      }
      callers.add(request.caller, isSent ? (failure?.name ?? 'Success') : 'ClientLeft')
      logReply(reply, isSent)
    })
  },
  { name: 'telemetry', dependencies: ['auth'] }
)
