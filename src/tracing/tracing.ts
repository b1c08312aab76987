/** What the service needs of tracing, and when it is on; nothing here loads OpenTelemetry. */
import type { FastifyPluginAsync } from 'fastify'
import type { Item, Store } from '../group-commit/types.ts'

/** An item with the span of its request. */
export interface TracedItem extends Item {
  /** What `activeSpan` returned. */
  readonly span?: unknown
}

/** Makes spans. Without it, the service makes none and loads no library for them. */
export interface Tracing {
  /** Makes a span for each request; register it before anything else. Sends the last spans when the application closes. */
  readonly requests: FastifyPluginAsync
  /** Returns what identifies the span of the request that is being handled, or undefined. */
  activeSpan(): unknown
  /** Returns the same store with a span around each attempt, linked to the spans of its items' requests. */
  traceStore<T extends TracedItem, R>(store: Store<T, R>): Store<T, R>
}

/** Returns whether the environment asks for spans (OpenTelemetry specification, "Environment Variable Specification"). */
export function isTracingOn(env: Record<string, string | undefined>): boolean {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return false
  const names = ['OTEL_TRACES_EXPORTER', 'OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']
  return names.some((name) => env[name])
}
