/** Tracing by OpenTelemetry, configured by the standard OTEL_ variables. */
import { createRequire } from 'node:module'
import { context, DiagLogLevel, diag, SpanStatusCode, trace } from '@opentelemetry/api'
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { PgInstrumentation } from '@opentelemetry/instrumentation-pg'
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes
} from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  NodeTracerProvider,
  NoopSpanProcessor,
  type SpanProcessor
} from '@opentelemetry/sdk-trace-node'
import type { FastifyBaseLogger } from 'fastify'
import { StartupFault } from '../failures/startup-fault.ts'
import { traceStore } from './batches.ts'
import { traceRequests } from './requests.ts'
import type { Tracing } from './tracing.ts'

/** PostgreSQL's messages can quote a row. So pg's spans have none; their event has the error's code. */
class WithoutMessages extends NoopSpanProcessor implements SpanProcessor {
  onEnding(span: Parameters<NonNullable<SpanProcessor['onEnding']>>[0]) {
    if (span.instrumentationScope.name !== '@opentelemetry/instrumentation-pg') return
    if (span.status.code === SpanStatusCode.ERROR) span.setStatus({ code: SpanStatusCode.ERROR })
  }
}

/** Starts tracing for this process. Throws a StartupFault where the environment asks for what is not supported. */
export function startTracing(
  env: Record<string, string | undefined>,
  log: Pick<FastifyBaseLogger, 'warn'>
): Tracing {
  const exporter = createExporter(env)
  const report = (message: string) => log.warn({ detail: message }, 'spans cannot be sent')
  diag.setLogger(
    { error: report, warn: report, info: report, debug: report, verbose: report },
    DiagLogLevel.WARN
  )
  const provider = new NodeTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'plant-store' }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new WithoutMessages(), new BatchSpanProcessor(exporter)]
  })
  provider.register()
  // Without requireParentSpan it would trace the probes. Parameters are not recorded: enhancedDatabaseReporting is off.
  new PgInstrumentation({ requireParentSpan: true })
  // It wraps the methods of pg's classes when pg is required, even if pg was imported before.
  createRequire(import.meta.url)('pg')
  return {
    requests: traceRequests(() => provider.shutdown()),
    activeSpan: () => trace.getSpanContext(context.active()),
    traceStore
  }
}

/** By the values of OTEL_EXPORTER_OTLP_PROTOCOL; the exporters read their other variables themselves. */
const exporters: Record<string, new () => JsonExporter | ProtobufExporter> = {
  'http/protobuf': ProtobufExporter,
  'http/json': JsonExporter
}

/** Makes the exporter. Throws a StartupFault where the variables ask for one that is not supported. */
function createExporter(env: Record<string, string | undefined>) {
  if ((env.OTEL_TRACES_EXPORTER || 'otlp') !== 'otlp') {
    throw new StartupFault(['OTEL_TRACES_EXPORTER must be otlp or none'])
  }
  const protocol =
    env.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || env.OTEL_EXPORTER_OTLP_PROTOCOL || 'http/protobuf'
  const Exporter = exporters[protocol]
  if (Exporter === undefined) {
    throw new StartupFault(['OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or http/json'])
  }
  return new Exporter()
}
