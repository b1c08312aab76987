/** The line of a success, of which there is one for each plant: written without pino's generic serialisation. */
import type { FastifyBaseLogger } from 'fastify'
import { type DestinationStream, type Logger, pino } from 'pino'

/** What the line tells. No text needs an escape: each has an alphabet of its own, without quotes and backslashes. */
export interface Success {
  traceId: string | undefined
  method: string
  route: string | undefined
  caller: string | undefined
  batchRows: number | undefined
  /** In ms. */
  durationMs: number
  client: string | undefined
}

/** Gives what writes a line in pino's form to the destination of a pino logger, unless the logger's level is above. */
export function createSuccessLine(logger: FastifyBaseLogger): (requestId: string, success: Success) => void {
  if (!(logger as Logger).isLevelEnabled('info')) return () => {}
  const stream = Reflect.get(logger, pino.symbols.streamSym) as DestinationStream
  const field = (name: string, value: string | number | undefined) =>
    value === undefined ? '' : `"${name}":${typeof value === 'number' ? value : `"${value}"`},`
  return (requestId, { traceId, method, route, caller, batchRows, durationMs, client }) => {
    stream.write(
      `{"level":30,"time":${Date.now()},"requestId":"${requestId}",${field('traceId', traceId)}"method":"${method}",` +
        `${field('route', route)}${field('caller', caller)}"failure":0,${field('batchRows', batchRows)}` +
        `"durationMs":${durationMs},${field('client', client)}"msg":"created"}\n`
    )
  }
}
