/** What is measured of HTTP: requests, failures, connections. */
import { Counter, Gauge, Histogram, type Registry } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import { catalogue, type Failure, type FailureName } from '../failures.ts'

/** A request and its answer. */
export interface Answered {
  /** As it is registered; undefined where there is none. */
  route: string | undefined
  method: string
  failure: Failure | null
  /** From the request's header to the end of its answer. */
  ms: number
}

/** All others count as one: a client chooses them. */
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Adds the metrics of HTTP to a registry, and gives what counts them. */
export function createHttpMetrics(registry: Registry, left: FastifyInstance['left']) {
  const registers = [registry]
  const duration = new Histogram({
    name: 'plant_store_http_request_duration_seconds',
    help: "Time from a request's header to the end of its answer; failure is the answer's number, 0 for a success",
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
  new Gauge({
    name: 'plant_store_http_requests_in_flight',
    help: 'Requests that have no complete answer yet',
    registers,
    collect() {
      this.set(left().requests)
    }
  })
  new Gauge({
    name: 'plant_store_http_connections',
    help: 'Open connections of clients',
    registers,
    collect() {
      this.set(left().connections)
    }
  })

  /** Counts a failure that was answered below the routes, where no request is measured. */
  function failed(name: FailureName) {
    failures.inc({ name })
  }

  return {
    failed,
    /** Counts an answered request. */
    answered({ route = 'unknown', method, failure, ms }: Answered) {
      const labels = { route, method: methods.has(method) ? method : 'other', failure: failure?.error ?? 0 }
      duration.observe(labels, ms / 1000)
      if (failure) failed(failure.name)
    }
  }
}
