/** A collector of spans: OTLP over HTTP in JSON. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import type { Test } from 'tap'
import { until } from '../../dev/until.ts'

/** A span as OTLP's JSON has it, its attributes as an object. */
export interface Span {
  name: string
  scope: string
  traceId: string
  spanId: string
  parentSpanId?: string
  kind: number
  status: { code: number; message?: string }
  links: { traceId: string; spanId: string }[]
  attributes: Record<string, unknown>
}

/** Starts a collector on a free port; it ends at teardown. */
export async function startCollector(t: Test) {
  const spans: Span[] = []
  const resources: unknown[] = []
  let text = ''
  const server = createServer(async (request, response) => {
    const body = (await json(request)) as { resourceSpans: ResourceSpans[] }
    text += JSON.stringify(body)
    for (const { resource, scopeSpans } of body.resourceSpans) {
      resources.push(toObject(resource.attributes))
      for (const { scope, spans: some } of scopeSpans) {
        spans.push(
          ...some.map((span) => ({ ...span, scope: scope.name, attributes: toObject(span.attributes) }))
        )
      }
    }
    response.setHeader('content-type', 'application/json').end('{}')
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

type Attributes = { key: string; value: Record<string, unknown> }[]

interface ResourceSpans {
  resource: { attributes: Attributes }
  scopeSpans: { scope: { name: string }; spans: (Omit<Span, 'attributes'> & { attributes: Attributes })[] }[]
}

const toObject = (attributes: Attributes) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
