/** What is measured of HTTP: requests, failures, connections. */
import { Counter, Histogram, type Registry } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import { catalogue, type Failure, type FailureName } from '../failures/failures.ts'
import { addGauge } from '../metrics/gauge.ts'

/** A request and its response. */
export interface Completed {
  /** As it is registered; undefined where there is none. */
  route: string | undefined
  method: string
  failure: Failure | null
  /** From the request's header to the end of its response. */
  ms: number
}

/** How much there may be at a time. */
export interface Bounds {
  readonly maxConnections: number
  readonly bodyMemoryBytes: number
}

/** All others count as one: a client chooses them. */
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Adds the metrics of HTTP to a registry, and gives what counts them. */
export function createHttpMetrics(registry: Registry, left: FastifyInstance['left']) {
  const registers = [registry]
  const duration = new Histogram({
    name: 'plant_store_http_request_duration_seconds',
    help: "Time from a request's header to the end of its response; failure is the response's number, 0 for a success",
    labelNames: ['route', 'method', 'failure'],
    buckets,
    registers
  })
  const failures = new Counter({
    name: 'plant_store_http_failures_total',
    help: 'Answers that are failures, by what failed',
    labelNames: ['name'],
    registers
  })
  for (const name of Object.keys(catalogue)) failures.inc({ name }, 0)
  const dropped = new Counter({
    name: 'plant_store_http_connections_dropped_total',
    help: 'Connections that were closed at once, so far beyond MAX_CONNECTIONS that not even a refusal had room',
    registers
  })
  const gauge = addGauge.bind(undefined, registry)
  gauge('http_requests_in_flight', 'Requests that have no complete response yet', () => left().requests)
  gauge('http_connections', 'Open connections of clients', () => left().connections)

  /** Counts a failure that was answered below the routes, where no request is measured. */
  function failed(name: FailureName) {
    failures.inc({ name })
  }

  return {
    failed,
    /** Counts a connection that was closed at once. */
    dropped: () => dropped.inc(),
    /** Shows what of the bounds is in use on the page. */
    watch({ maxConnections, bodyMemoryBytes }: Bounds, bodyBytes: () => number) {
      gauge('http_connections_limit', 'MAX_CONNECTIONS', () => maxConnections)
      gauge('http_body_bytes', 'Bytes of the bodies that are arriving', bodyBytes)
      gauge('http_body_bytes_limit', 'BODY_MEMORY_BYTES', () => bodyMemoryBytes)
    },
    /** Shows how many connections are held on the page. */
    watchHeld(connections: () => number) {
      gauge('http_connections_held', 'Connections that are not read from for a moment', connections)
    },
    /** Counts an answered request. */
    answered({ route = 'unknown', method, failure, ms }: Completed) {
      const labels = { route, method: methods.has(method) ? method : 'other', failure: failure?.error ?? 0 }
      duration.observe(labels, ms / 1000)
      if (failure) failed(failure.name)
    }
  }
}
