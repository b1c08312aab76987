/** The interface's document for machines, /openapi.json, from the routes' own schemas, and its page for people, /docs. */
import { gzipSync } from 'node:zlib'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { TSchema } from '@sinclair/typebox'
import fp from 'fastify-plugin'
import { catalogue, Failure, type FailureName, toResponse } from '../failures.ts'
import { maximumValues } from '../http/json.ts'
import { version } from '../metrics.ts'
import { ErrorBody, NewPlant } from '../plants/schema.ts'

interface Options {
  /** The path in front of those of the interface. */
  basePath: string
  /** Whether the page for people is served. */
  hasPage: boolean
}

/** Of the page. Nothing inline, and nothing of another origin; only icons may be data URLs, as in Swagger UI's style sheet. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export default fp<Options>(
  async (app, { basePath, hasPage }) => {
    await app.register(swagger, {
      // What has no tag is not part of the interface, such as a probe.
      hideUntagged: true,
      openapi: {
        openapi: '3.1.1',
        info: { title: 'Plant Store', version, description, license: { name: 'MIT', identifier: 'MIT' } },
        servers: [{ url: basePath || '/', description: 'This service' }],
        security: [{ bearer: [] }],
        tags: [{ name: 'plants', description: 'The plants of the store' }],
        components: {
          securitySchemes: {
            bearer: {
              type: 'http',
              scheme: 'bearer',
              description: 'An access token: `Authorization: Bearer <token>`'
            }
          }
        }
      },
      transformObject: (given) =>
        complete((given as unknown as { openapiObject: Document }).openapiObject) as never
    })
    let document: Buffer
    let compressed: Buffer
    app.addHook('onReady', async () => {
      document = Buffer.from(JSON.stringify(app.swagger(), null, 2))
      compressed = gzipSync(document)
    })
    app.get('/openapi.json', ({ headers }, reply) => {
      reply.type('application/json').header('vary', 'accept-encoding')
      // Not only browsers read it, and not every program decompresses.
      if (!/\bgzip\b(?!\s*;\s*q=0)/.test(`${headers['accept-encoding']}`)) return reply.send(document)
      return reply.header('content-encoding', 'gzip').send(compressed)
    })
    if (!hasPage) return
    await app.register(swaggerUi, {
      routePrefix: '/docs',
      staticCSP: policy,
      theme: { title: 'Plant Store API' },
      uiConfig: {
        tryItOutEnabled: true,
        docExpansion: 'full',
        displayRequestDuration: true
      }
    })
  },
  { name: 'docs' }
)

const description = `An acknowledged plant is durable, and a request that is sent again creates nothing twice.

Every response is status 200 with a plant, or status 400 with \`{"error": …, "message": …}\`.`

const bodyRules = `At most ${maximumValues} values: itself, and each member and element at any depth; with more it gets MalformedBody. Unknown properties are ignored.`

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    '1 to 255 visible ASCII characters of your choice; in quotes if it has a comma, a quote or a space. With it, the same request can be sent any number of times: once it has succeeded, it gets the same response again. A key counts for one caller and one id, and never expires.',
  schema: { type: 'string', minLength: 1 }
}

/** Describes header fields, whose values are texts. */
const describe = (fields: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, about]) => [name, { description: about, schema: { type: 'string' } }])
  )
const requestId = { 'X-Request-Id': "The request's own, or one that the service made. The log has it too." }
const ofSuccess = describe({
  ...requestId,
  'Idempotent-Replayed': 'true: an earlier request with this Idempotency-Key had stored the plant.'
})
const ofFailure = describe({
  ...requestId,
  'Error-Name': 'The name of what failed: that of the example.',
  'Write-Outcome':
    'With 429, 500 and 503: this request has stored nothing (none), or may have stored the plant (unknown). An earlier attempt may have stored it all the same.',
  'Retry-After': 'With 429 and 503: seconds to wait before the next attempt.',
  'WWW-Authenticate': 'With 401: the challenge of RFC 6750, section 3.'
})

/** What only other paths and other methods can meet. */
const ofOthers: FailureName[] = ['NotFound', 'MethodNotAllowed', 'NotReady']

/** Returns an example of a failure's response. */
function exemplify(name: FailureName, message?: string) {
  const { body } = toResponse(new Failure(name, message === undefined ? {} : { message }))
  const value: { error: number; message: string } = JSON.parse(body)
  return { summary: `${value.error}: ${value.message}`, value }
}

/** Returns the examples of all failures that an operation can meet, by their names. */
function exemplifyAll() {
  const names = (Object.keys(catalogue) as FailureName[]).filter((name) => !ofOthers.includes(name))
  return {
    ...Object.fromEntries(names.map((name) => [name, exemplify(name)])),
    InvalidPlant: exemplify('InvalidPlant', `id must be ${NewPlant.properties.id.rule}`),
    MissingField: exemplify('InvalidPlant', 'name is required')
  }
}

/** As much of the document as is completed here. */
interface Document {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, object> }
}
interface Operation {
  parameters?: object[]
  requestBody?: Described
  responses: Record<string, Described>
}
interface Described {
  description?: string
  headers?: object
  content: Record<string, { schema: TSchema; examples?: object }>
}

/** Adds what the routes' schemas do not say: the failures, the header fields, and the names of the schemas. */
function complete(document: Document): Document {
  const { schemas } = document.components
  const name = ({ content }: Described) => {
    for (const media of Object.values(content)) {
      const { title = '' } = media.schema
      schemas[title] = toPublic(media.schema)
      media.schema = { $ref: `#/components/schemas/${title}` } as never
    }
  }
  for (const operation of Object.values(document.paths).flatMap((path) => Object.values(path))) {
    const { requestBody, responses } = operation
    const success = responses[200] as Described
    Object.assign(success, { description: 'The plant is stored.', headers: ofSuccess })
    responses[400] = {
      description: `The request failed: \`error\` is the HTTP status code that would name the failure best. Another path gets ${catalogue.NotFound[0]}, another method ${catalogue.MethodNotAllowed[0]}.`,
      headers: ofFailure,
      content: { 'application/json': { schema: ErrorBody, examples: exemplifyAll() } }
    }
    if (requestBody) {
      operation.parameters = [...(operation.parameters ?? []), idempotencyKey]
      name(Object.assign(requestBody, { description: bodyRules }))
    }
    for (const response of Object.values(responses)) name(response)
  }
  return document
}

/**
 * Returns a schema in the terms of JSON Schema 2020-12 alone. What only our validator knows becomes words: readers round
 * the bounds of an int64, and compile patterns in dialects of their own.
 */
function toPublic(schema: TSchema): object {
  const { title: _, rule, int64, storable: __, properties, description: about, ...rest } = schema
  if (properties === undefined) {
    const words = { description: rule === undefined ? about : `${about}: ${rule}` }
    return { ...(int64 && { type: 'integer', format: 'int64' }), ...rest, ...words }
  }
  const entries = Object.entries(properties as Record<string, TSchema>)
  return { ...rest, properties: Object.fromEntries(entries.map(([name, value]) => [name, toPublic(value)])) }
}
