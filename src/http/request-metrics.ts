/** What is measured of requests, failures and connections. */
import type { Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { catalogue, type FailureName } from '../failures/catalogue.ts'
import { addCounter, addGauge, addHistogram, memoize } from '../metrics/metrics.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The id of the trace that its duration refers to; undefined where it is not traced. */
    exemplar: string | undefined
  }
}

interface Options {
  registry: Registry
  /** MAX_CONNECTIONS. */
  maxConnections: number
}

/** All others count as one: clients choose them, and each would be a series of its own. */
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

export default fp<Options>(
  async (app, { registry, maxConnections }) => {
    const duration = addHistogram(registry, {
      name: 'plant_store_http_request_duration_seconds',
      help: "Time from a request's header to the end of its response; failure is the response's number, 0 for a success",
      buckets
    })
    const durationOf = memoize((route: string | undefined) =>
      memoize((method: string) =>
        memoize((failure: number) => {
          const isOfInterface = app.routes.some(
            ({ url, operation }) => url === route && operation !== undefined
          )
          return duration({ route: route ?? 'unknown', interface: String(isOfInterface), method, failure })
        })
      )
    )
    const failures = Object.fromEntries(Object.keys(catalogue).map((name) => [name, 0])) as Record<
      FailureName,
      number
    >
    const ofFailures = 'Responses that are failures, by what failed'
    addCounter(registry, 'http_failures', ofFailures, () => failures, 'name')
    let drops = 0
    const ofDrops = 'Connections closed at once, beyond MAX_CONNECTIONS and the room for refusals'
    addCounter(registry, 'http_connections_dropped', ofDrops, () => drops)
    const help = 'Connections cut off, as their client took nothing of a response for REQUEST_TIMEOUT_MS'
    addCounter(registry, 'http_connections_stalled', help, () => app.connections.stalled)
    const gauge = addGauge.bind(undefined, registry)
    gauge(
      'http_requests_in_flight',
      'Requests that have no complete response yet',
      () => app.inFlight().requests
    )
    gauge('http_connections', 'Open connections of clients', () => app.connections.size)
    gauge('http_connections_limit', 'MAX_CONNECTIONS', () => maxConnections)

    // Prometheus must see a series at 0 first: one that begins with its first failure shows no increase.
    app.addHook('onReady', (done) => {
      for (const { url, method, operation } of app.routes)
        if (operation) for (const failure of [0, 500, 503]) durationOf(url)(method)(failure)
      done()
    })

    app.decorateRequest('exemplar', undefined)
    app.server.on('drop', () => drops++)
    app.onClosed((reply, isSent) => {
      if (!isSent) return
      const { request, elapsedTime } = reply
      const { method, failure, operation } = request
      const known = methods.has(method) ? method : 'other'
      durationOf((operation ?? request.routeOptions).url)(known)(failure?.error ?? 0).observe(
        elapsedTime / 1000,
        request.exemplar
      )
      if (failure) failures[failure.name]++
    })
    // No request is measured.
    app.onRejected(({ name }) => {
      failures[name]++
    })
  },
  { name: 'request-metrics', dependencies: ['connections', 'methods'] }
)
