/**
 * Tracing by OpenTelemetry, which the standard OTEL_ variables configure. @fastify/otel makes the
 * span of each request, and this file decides which failures are errors in it. Group commit gets a
 * span for each attempt.
 */
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { FastifyOtelInstrumentation } from '@fastify/otel'
import {
  context,
  diag,
  type SpanContext,
  SpanStatusCode,
  TraceFlags,
  trace
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { defaultResource, detectResources, envDetector } from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Attempt, Item, Store } from './group-commit/types.ts'
import { StartupFault } from './startup-fault.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * The id of the trace that the request's span belongs to, 32 hex digits; undefined if there is
     * no span.
     */
    traceId?: string
  }
}

/**
 * What makes spans. Without tracing, no library for it is loaded, so other files must import only
 * types from this one.
 */
export type Tracing = ReturnType<typeof startTracing>

/** An item of group commit, with the span of its request from `activeSpan`. */
export interface TracedItem extends Item {
  readonly span?: SpanContext | undefined
}

/** Starts tracing for this process. Throws a StartupFault with a line for each bad variable. */
export function startTracing(
  env: Record<string, string | undefined>,
  log: Pick<FastifyBaseLogger, 'warn'>
) {
  const faults = findFaults(env)
  // For a variable that it cannot read, the library only warns, and uses its default. Make that
  // warning a fault.
  let report = (message: string) => {
    faults.push(`OpenTelemetry: ${message}`)
  }
  const pass = (message: string) => report(message)
  const logger = { error: pass, warn: pass, info() {}, debug() {}, verbose() {} }
  diag.setLogger(logger, { suppressOverrideMessage: true })
  const provider = new NodeTracerProvider({
    resource: defaultResource().merge(detectResources({ detectors: [ownDetector, envDetector] })),
    // Do not make an exporter if there are faults: for a bad URL, its message quotes the URL, which
    // can have a password.
    spanProcessors: faults.length > 0 ? [] : [new BatchSpanProcessor(new OTLPTraceExporter())]
  })
  if (faults.length > 0) throw new StartupFault([...new Set(faults)])
  report = (message) => log.warn({ detail: message }, 'spans cannot be sent')
  provider.register()
  return {
    /**
     * Makes a span for each request, and sends the last spans when the application closes. Register
     * this plugin before all others.
     */
    requests: traceRequests(provider),
    /** Returns the context of the span of the request that is being handled, if there is one. */
    activeSpan: () => trace.getSpanContext(context.active()),
    traceStore
  }
}

/** Returns a line for each bad variable that the library would not report, or not by its name. */
function findFaults(env: Record<string, string | undefined>): string[] {
  const faults: string[] = []
  if ((env.OTEL_TRACES_EXPORTER || 'otlp') !== 'otlp')
    faults.push('OTEL_TRACES_EXPORTER must be otlp or none')
  for (const name of ['OTEL_EXPORTER_OTLP_', 'OTEL_EXPORTER_OTLP_TRACES_']) {
    const {
      [`${name}PROTOCOL`]: protocol,
      [`${name}ENDPOINT`]: url,
      [`${name}HEADERS`]: headers
    } = env
    if (protocol && protocol !== 'http/protobuf')
      faults.push(`${name}PROTOCOL must be http/protobuf`)
    if (url && !/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
      faults.push(`${name}ENDPOINT must be a URL such as http://collector:4318`)
    if (!areHeaders(headers ?? ''))
      faults.push(`${name}HEADERS must be name=value, separated by commas and percent-encoded`)
  }
  return faults
}

/**
 * Returns whether a text is a list of header fields in the form of OTEL_EXPORTER_OTLP_HEADERS (W3C
 * Baggage).
 */
function areHeaders(text: string): boolean {
  try {
    for (const field of text.split(',').filter((each) => each.trim() !== '')) {
      const [name = '', ...value] = field.split('=')
      if (value.length === 0) return false
      validateHeaderName(decodeURIComponent(name.trim()))
      validateHeaderValue(name, decodeURIComponent(value.join('=').trim()))
    }
    return true
  } catch {
    return false
  }
}

/** These are attributes that the environment can replace. */
const ownDetector = { detect: () => ({ attributes: { 'service.name': 'plant-store' } }) }

/** Makes the plugin that makes the spans of requests. */
function traceRequests(provider: NodeTracerProvider) {
  const instrumentation = new FastifyOtelInstrumentation({
    instrumentHooks: false,
    instrumentHandler: false,
    ignorePaths: ({ url }) => /^\/(livez|readyz)(\?|$)/.test(url),
    requestHook(span, request) {
      const { method, url, routeOptions } = request
      request.traceId = span.spanContext().traceId
      span.updateName(routeOptions.url === undefined ? method : `${method} ${routeOptions.url}`)
      // Leave out the query string, which can hold anything.
      span.setAttribute('url.path', url.replace(/\?.*/s, ''))
    }
  })
  return fp(async (app) => {
    await app.register(instrumentation.plugin())
    // Remove the onError hook that @fastify/otel adds to each route. It would mark every failure as
    // an error, even a client's, and quote it. No route has an onError hook of its own.
    app.addHook('onRoute', (route) => {
      delete route.onError
    })
    // @fastify/otel ends the span later, in the route's own onSend.
    app.addHook('onSend', (request, _, payload, done) => {
      const { error, name: message } = request.failure ?? {}
      if (error === 500 || error === 503)
        request
          .opentelemetry()
          .span?.setStatus({ code: SpanStatusCode.ERROR, message: `${message}` })
      done(null, payload)
    })
    app.addHook('onClose', async () => {
      const flushed = provider
        .shutdown()
        .catch((err) => app.log.warn({ err }, 'could not flush the last spans'))
      // Do not wait longer for a collector that cannot be reached: the process must end.
      await Promise.race([flushed, sleep(2_000)])
    })
  })
}

/**
 * Returns the same store, with a span around each attempt. The span belongs to the trace of the
 * first request that was sampled, so that the sampler decides only once, and it has links to all
 * sampled requests. If no request was sampled, there is no span.
 */
function traceStore<T extends TracedItem, R>(store: Store<T, R>): Store<T, R> {
  const tracer = trace.getTracer('plant-store')
  const traced =
    (name: string, attempt: Attempt<T, R>): Attempt<T, R> =>
    async (rows, ...limits) => {
      const sampled = rows.flatMap(({ item: { span } }) =>
        span && span.traceFlags & TraceFlags.SAMPLED ? [span] : []
      )
      const [first] = sampled
      if (first === undefined) return attempt(rows, ...limits)
      const links = sampled.map((spanContext) => ({ context: spanContext }))
      const options = { links, attributes: { 'db.operation.batch.size': rows.length } }
      const span = tracer.startSpan(name, options, trace.setSpanContext(context.active(), first))
      const end = await attempt(rows, ...limits)
      if ('kind' in end) span.setStatus({ code: SpanStatusCode.ERROR, message: end.kind })
      span.end()
      return end
    }
  return {
    ...store,
    insert: traced('write plants', store.insert),
    insertEach: traced('write plants', store.insertEach),
    find: traced('find plants', store.find)
  }
}
