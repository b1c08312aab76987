/** The interface's document for machines, /openapi.json, from the routes' own schemas, and its page for people, /docs. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { TSchema } from '@sinclair/typebox'
import type { FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { catalogue, Failure, type FailureName, toResponse } from '../failures.ts'
import { maximumValues } from '../http/json.ts'
import { version } from '../metrics.ts'
import { ErrorBody, kinds, NewPlant, Plant } from '../plants/schema.ts'

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

const description = `An acknowledged plant is durable, and a request that is sent again creates nothing twice.

Every response is status 200 with a plant, or status 400 with \`{"error": …, "message": …}\`.`
const aboutBearer = 'An access token: `Authorization: Bearer <token>`'

export default fp<Options>(async (app, { basePath, hasPage }) => {
  for (const schema of [NewPlant, Plant, ErrorBody]) app.addSchema({ ...schema, $id: schema.title })
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
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: aboutBearer } }
      }
    },
    refResolver: { buildLocalReference: ({ $id }) => `${$id}` },
    transform: ({ schema, url }) => ({ url, schema: schema?.tags ? complete(schema) : schema })
  })
  app.get('/openapi.json', async () => app.swagger())
  if (!hasPage) return
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: policy,
    theme: { title: 'Plant Store API' },
    // Without the bar at the top, whose logo has a style of its own.
    uiConfig: { layout: 'BaseLayout', tryItOutEnabled: true, docExpansion: 'full' }
  })
})

const bodyRules = `A body has at most ${maximumValues} values: itself, and each member and element at any depth; with more it gets MalformedBody. Unknown properties are ignored.`

/** Describes header fields, whose values are texts. */
const describe = (fields: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, description]) => [name, { type: 'string', description }])
  )
const idempotencyKey = describe({
  'Idempotency-Key':
    '1 to 255 visible ASCII characters of your choice; in quotes if it has a comma, a quote or a space. With it, the same request can be sent any number of times: once it has succeeded, it gets the same response again. A key counts for one caller and one id, and never expires.'
})
const ofEvery = { 'X-Request-Id': "The request's own, or one that the service made. The log has it too." }
const ofCreate = describe({
  ...ofEvery,
  'Idempotent-Replayed': 'true: an earlier request with this Idempotency-Key had stored the plant.'
})
const ofFailure = describe({
  ...ofEvery,
  'Error-Name': 'The name of what failed: that of the example.',
  'Write-Outcome':
    'With 429, 500 and 503: this request has stored nothing (none), or may have stored the plant (unknown). An earlier attempt may have stored it all the same.',
  'Retry-After': 'With 429 and 503: seconds to wait before the next attempt.',
  'WWW-Authenticate': 'With 401: the challenge of RFC 6750, section 3.'
})
const aboutFailures = `The request failed: \`error\` is the HTTP status code that would name the failure best. Another path gets ${catalogue.NotFound[0]}, another method ${catalogue.MethodNotAllowed[0]}.`

/** What only other paths and other methods can meet. */
const ofOthers = ['NotFound', 'MethodNotAllowed', 'NotReady']

/** Returns examples of all failures that an operation can meet, by their names. */
function exemplifyAll() {
  const names = (Object.keys(catalogue) as FailureName[]).filter((name) => !ofOthers.includes(name))
  const invalid = (message: string) => new Failure('InvalidPlant', { message })
  const failures = [
    ...names.map((name) => [name, new Failure(name)] as const),
    ['InvalidPlant', invalid(`id must be ${kinds.Int64[0]}`)] as const,
    ['MissingField', invalid('name is required')] as const
  ]
  const examples = failures.map(([name, failure]) => {
    const value: ErrorBody = JSON.parse(toResponse(failure).body)
    return [name, { summary: `${value.error}: ${value.message}`, value }]
  })
  return Object.fromEntries(examples)
}

/** Describes a body by the name of its schema. */
const json = ({ title }: TSchema, more = {}) => ({
  content: { 'application/json': { schema: { $ref: `${title}#` }, ...more } }
})

/** Adds to an operation what its route's schema does not say: the failures, the header fields, and the names of the schemas. */
function complete({ description, body, response, ...schema }: FastifySchema): FastifySchema {
  const success = (response as Record<number, TSchema>)[200] as TSchema
  const examples = exemplifyAll()
  return {
    ...schema,
    description: body ? `${description}\n\n${bodyRules}` : `${description}`,
    ...(body ? { body: json(body as TSchema) } : {}),
    ...(body ? { headers: { type: 'object', properties: idempotencyKey } } : {}),
    response: {
      200: {
        description: success.description,
        headers: body ? ofCreate : describe(ofEvery),
        ...json(success)
      },
      400: { description: aboutFailures, headers: ofFailure, ...json(ErrorBody, { examples }) }
    }
  }
}
