/** A collector of spans: OTLP over HTTP in Protocol Buffers (opentelemetry-proto, trace.proto). */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Teardown } from './teardown.ts'
import { until } from './until.ts'

/** A message: its fields by number. */
interface Fields {
  /** The first value of a field: a text, an integer in digits, or bytes in hex. */
  text(field: number): string
  hex(field: number): string
  messages(field: number): Fields[]
}

function readFields(message: Buffer): Fields {
  const fields: [field: number, value: Buffer][] = []
  let at = 0
  const readInteger = () => {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = message[at++] as number
      value += (byte % 128) * factor
      if (byte < 128) return value
    }
  }
  while (at < message.length) {
    const key = readInteger()
    const type = key % 8
    const integer = type === 0 ? Buffer.from(String(readInteger())) : undefined
    const length = { 0: 0, 1: 8, 5: 4 }[type] ?? readInteger()
    fields.push([Math.floor(key / 8), integer ?? message.subarray(at, at + length)])
    at += length
  }
  const valuesOf = (field: number) =>
    fields.filter(([own]) => own === field).map(([, value]) => value)
  return {
    text: (field) => valuesOf(field)[0]?.toString() ?? '',
    hex: (field) => valuesOf(field)[0]?.toString('hex') ?? '',
    messages: (field) => valuesOf(field).map(readFields)
  }
}

/** Reads attributes: texts, and integers as text. */
const toObject = (pairs: Fields[]) =>
  Object.fromEntries(
    pairs.map((pair) => [
      pair.text(1),
      pair.messages(2)[0]?.text(1) || pair.messages(2)[0]?.text(3)
    ])
  )

type Span = ReturnType<typeof toSpan>

const toSpan = (span: Fields) => ({
  name: span.text(5),
  traceId: span.hex(1),
  spanId: span.hex(2),
  parentSpanId: span.hex(4),
  /** 2 for a server's. */
  kind: span.text(6),
  isError: span.messages(15)[0]?.text(3) === '2',
  links: span.messages(13).map((link) => link.hex(2)),
  attributes: toObject(span.messages(9))
})

/** Starts a collector on a free port; it ends at teardown. */
export async function startCollector(t: Teardown) {
  const spans: Span[] = []
  const resources: unknown[] = []
  let text = ''
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    text += body.toString('latin1')
    for (const ofResource of readFields(body).messages(1)) {
      resources.push(...ofResource.messages(1).map((resource) => toObject(resource.messages(1))))
      for (const scope of ofResource.messages(2)) spans.push(...scope.messages(2).map(toSpan))
    }
    response.setHeader('content-type', 'application/x-protobuf').end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    resources,
    /** All that has arrived, as text. */
    text: () => text,
    /** Returns the spans of a name as soon as there are `count`. */
    named: (name: string, count = 1) =>
      until(
        `${count} spans ${name}`,
        () => spans.filter((span) => span.name === name),
        ({ length }) => length >= count
      )
  }
}
