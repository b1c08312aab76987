/** The spans of requests, by @fastify/otel, but with the service's own view of what is an error. */
import { setTimeout as sleep } from 'node:timers/promises'
import { FastifyOtelInstrumentation } from '@fastify/otel'
import { context, SpanStatusCode } from '@opentelemetry/api'
import fp from 'fastify-plugin'

/** How long the last spans may take: an unreachable collector must not hold up the end of the process. */
const shutdownLimitMs = 2_000
const probes = /^\/(livez|readyz)(\?|$)/

/** Makes the plugin; `shutdown` sends the spans that are left. */
export function traceRequests(shutdown: () => Promise<void>) {
  const instrumentation = new FastifyOtelInstrumentation({
    instrumentHooks: false,
    instrumentHandler: false,
    ignorePaths: ({ url }) => probes.test(url),
    requestHook(span, request) {
      const { method, url, routeOptions } = request
      if (span.isRecording()) request.exemplar = span.spanContext().traceId
      span.updateName(routeOptions.url === undefined ? method : `${method} ${routeOptions.url}`)
      // Without the query string, which may hold anything.
      span.setAttribute('url.path', url.replace(/\?.*/s, ''))
    }
  })
  return fp(
    async (app) => {
      await app.register(instrumentation.plugin())
      // Its hook would mark every failure as an error, even a client's, and quote it. No route has such a hook of its own.
      app.addHook('onRoute', (route) => {
        delete route.onError
      })
      // The span ends after this, in the routes' own onSend.
      app.addHook('onSend', (request, _, payload, done) => {
        const { failure } = request
        if (failure && (failure.error === 500 || failure.error === 503)) {
          request.opentelemetry().span?.setStatus({ code: SpanStatusCode.ERROR, message: failure.name })
        }
        done(null, payload)
      })
      // The context is lost while the body is read.
      app.addHook('preHandler', (request, _, done) => {
        context.with(request.opentelemetry().context ?? context.active(), done)
      })
      app.addHook('onClose', async () => {
        const flushed = shutdown().catch((err) => app.log.warn({ err }, 'the last spans are lost'))
        await Promise.race([flushed, sleep(shutdownLimitMs)])
      })
    },
    { name: 'trace-requests' }
  )
}
