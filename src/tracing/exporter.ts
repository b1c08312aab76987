/** Where spans go: the OTLP exporter that the environment names. */
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { StartupFault } from '../failures/startup-fault.ts'

/** By the values of OTEL_EXPORTER_OTLP_PROTOCOL; the exporters read their other variables themselves. */
const exporters: Record<string, new () => JsonExporter | ProtobufExporter> = {
  'http/protobuf': ProtobufExporter,
  'http/json': JsonExporter
}

/** Makes the exporter. Throws a StartupFault where the variables ask for one that is not here. */
export function createExporter(env: Record<string, string | undefined>) {
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
