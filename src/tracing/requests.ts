/** The spans of requests, by @fastify/otel, as the service's own meaning of a failure has them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { FastifyOtelInstrumentation } from '@fastify/otel'
import { context, SpanStatusCode } from '@opentelemetry/api'
import fp from 'fastify-plugin'

/** A collector that is away must not hold up the end of the process. */
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
      // It would hold the query string.
      span.setAttribute('url.path', url.replace(/\?.*/s, ''))
    }
  })
  return fp(
    async (app) => {
      await app.register(instrumentation.plugin())
      // Its hook marks every failure, the client's too, and quotes it; no route has such a hook of its own.
      app.addHook('onRoute', (route) => {
        delete route.onError
      })
      // Before the span's end in the routes' own onSend.
      app.addHook('onSend', (request, _, payload, done) => {
        const { failure } = request
        if (failure && (failure.error === 500 || failure.error === 503)) {
          request.opentelemetry().span?.setStatus({ code: SpanStatusCode.ERROR, message: failure.name })
        }
        done(null, payload)
      })
      // Reading the body has lost the context.
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
