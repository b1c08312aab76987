/** A collector of spans: OTLP over HTTP in Protocol Buffers (opentelemetry-proto, trace.proto). */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { until } from '../../harness/time/until.ts'

/** A span, its ids in hex and its attributes as an object. */
export interface Span {
  name: string
  traceId: string
  spanId: string
  parentSpanId: string
  kind: number
  status: { code: number; message?: string }
  links: { traceId: string; spanId: string }[]
  attributes: Record<string, unknown>
}

/** Returns the values of each field of a message, by the field's number. */
function readFields(message: Buffer): (number: number) => (Buffer | number)[] {
  const fields: [number: number, value: Buffer | number][] = []
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
    const value = type === 0 ? readInteger() : undefined
    const length = { 1: 8, 5: 4 }[type] ?? (type === 2 ? readInteger() : 0)
    fields.push([Math.floor(key / 8), value ?? message.subarray(at, at + length)])
    at += length
  }
  return (number) => fields.filter(([own]) => own === number).map(([, value]) => value)
}

const messages = (values: (Buffer | number)[]) => values.map((value) => readFields(value as Buffer))
const toText = ([value]: (Buffer | number)[]) => value?.toString() ?? ''
const toHex = ([value]: (Buffer | number)[]) => (value as Buffer | undefined)?.toString('hex') ?? ''

/** Reads key and value pairs: texts, booleans and integers. */
const toObject = (pairs: (Buffer | number)[]) =>
  Object.fromEntries(
    messages(pairs).map((pair) => {
      const [value] = messages(pair(2))
      const [text] = value?.(1) ?? []
      return [toText(pair(1)), text === undefined ? (value?.(2)[0] ?? value?.(3)[0]) : text.toString()]
    })
  )

function toSpan(span: ReturnType<typeof readFields>): Span {
  const [status] = messages(span(15))
  const message = toText(status?.(2) ?? [])
  return {
    traceId: toHex(span(1)),
    spanId: toHex(span(2)),
    parentSpanId: toHex(span(4)),
    name: toText(span(5)),
    kind: Number(span(6)[0]),
    attributes: toObject(span(9)),
    links: messages(span(13)).map((link) => ({ traceId: toHex(link(1)), spanId: toHex(link(2)) })),
    status: { code: Number(status?.(3)[0] ?? 0), ...(message && { message }) }
  }
}

/** Starts a collector on a free port; it ends at teardown. */
export async function startCollector(t: Test) {
  const spans: Span[] = []
  const resources: unknown[] = []
  let text = ''
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    text += body.toString('latin1')
    for (const resourceSpans of messages(readFields(body)(1))) {
      resources.push(...messages(resourceSpans(1)).map((resource) => toObject(resource(1))))
      for (const scopeSpans of messages(resourceSpans(2))) spans.push(...messages(scopeSpans(2)).map(toSpan))
    }
    response.setHeader('content-type', 'application/x-protobuf').end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    resources,
    /** All that has arrived, as text. */
    text: () => text,
    /** Returns the spans of a name as soon as there are `count`. */
    async named(name: string, count = 1) {
      const found = () => spans.filter((span) => span.name === name)
      return until(`${count} spans ${name}`, found, ({ length }) => length >= count)
    },
    spans
  }
}
