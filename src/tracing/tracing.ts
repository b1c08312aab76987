/** What tracing gives to the service, and when it is on; nothing here loads OpenTelemetry. */
import type { FastifyPluginAsync } from 'fastify'
import type { Item, Store } from '../group-commit/types.ts'

/** An item that remembers the span of the request that it came with. */
export interface TracedItem extends Item {
  /** What `activeSpan` gave. */
  readonly span?: unknown
}

/** Makes spans. Without it the service makes none, and loads nothing that could. */
export interface Tracing {
  /** Gives each request a span; to be registered before anything else. What is left is sent when the application closes. */
  readonly requests: FastifyPluginAsync
  /** What identifies the span of the request that is being handled, or undefined. */
  activeSpan(): unknown
  /** Gives the same store with a span around each attempt, linked to the spans of its items' requests. */
  traceStore<T extends TracedItem, R>(store: Store<T, R>): Store<T, R>
}

/** Tells whether the environment asks for spans (OpenTelemetry specification, "Environment Variable Specification"). */
export function isTracingOn(env: Record<string, string | undefined>): boolean {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return false
  const names = ['OTEL_TRACES_EXPORTER', 'OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']
  return names.some((name) => env[name])
}
