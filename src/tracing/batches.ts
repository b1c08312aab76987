/** The spans of group commit: one for each attempt, linked to the requests in it. */
import {
  context,
  ROOT_CONTEXT,
  type SpanContext,
  SpanStatusCode,
  TraceFlags,
  trace
} from '@opentelemetry/api'
import type { Store } from '../group-commit/types.ts'
import type { TracedItem } from './tracing.ts'

/**
 * Returns the same store with a span around each attempt. It belongs to the trace of the first sampled request, so that
 * the sampler decides once, and is linked to all of them; without a sampled request there is no span.
 */
export function traceStore<T extends TracedItem, R>(store: Store<T, R>): Store<T, R> {
  const tracer = trace.getTracer('plant-store')
  return {
    async write(rows, signal) {
      const callers = rows.map(({ item }) => item.span as SpanContext).filter(isSampled)
      const [first] = callers
      // A lane may run in the context of any request, the one that has woken it.
      if (first === undefined) return context.with(ROOT_CONTEXT, () => store.write(rows, signal))
      const span = tracer.startSpan(
        'write plants',
        {
          links: callers.map((context) => ({ context })),
          attributes: { 'db.operation.batch.size': rows.length }
        },
        trace.setSpanContext(ROOT_CONTEXT, first)
      )
      const written = await context.with(trace.setSpan(ROOT_CONTEXT, span), () => store.write(rows, signal))
      if (written.failure) span.setStatus({ code: SpanStatusCode.ERROR, message: written.failure.whose })
      span.end()
      return written
    },
    probe: () => context.with(ROOT_CONTEXT, () => store.probe())
  }
}

const isSampled = ({ traceFlags }: SpanContext) => (traceFlags & TraceFlags.SAMPLED) !== 0
