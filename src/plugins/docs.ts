/** The interface's document for machines, /openapi.json, from the routes' own schemas, and its page for people, /docs. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { catalogue, Failure, type FailureName, toResponse } from '../failures.ts'
import { maximumValues } from '../http/body.ts'
import { version } from '../metrics.ts'
import { ErrorBody, kinds, NewPlant, Plant } from '../plants/schema.ts'

/** Of the page. Nothing inline, and nothing of another origin; only icons may be data URLs, as in Swagger UI's style sheet. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const description = `An acknowledged plant is durable, and a request that is sent again creates nothing twice.

Every response is status 200 with a plant, or status 400 with \`{"error": …, "message": …}\`.

A body has at most ${maximumValues} values: itself, and each member and element at any depth; with more it gets MalformedBody. Unknown properties are ignored.`
/** By their names in the document. */
const schemas: Record<string, object> = { NewPlant, Plant, Error: ErrorBody }
const aboutBearer = 'An access token: `Authorization: Bearer <token>`'

export default fp<Config>(async (app, { BASE_PATH: basePath, DOCS: page }) => {
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
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: aboutBearer } },
        schemas
      }
    },
    transform: ({ schema, url }) => ({ url, schema: { ...schema, ...additions[`${schema?.operationId}`] } })
  })
  app.get('/openapi.json', async () => app.swagger())
  if (page === 'off') return
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: policy,
    theme: { title: 'Plant Store API' },
    // Without the bar at the top, whose logo has a style of its own.
    uiConfig: { layout: 'BaseLayout', tryItOutEnabled: true, docExpansion: 'full' }
  })
})

const aboutKey =
  '1 to 255 visible ASCII characters of your choice; in quotes if it has a comma, a quote or a space. With it, the same request can be sent any number of times: once it has succeeded, it gets the same response again. A key counts for one caller and one id, and never expires.'
const aboutFailures = `The request failed: \`error\` is the HTTP status code that would name the failure best. Another path gets ${catalogue.NotFound[0]}, another method ${catalogue.MethodNotAllowed[0]}.`

/** What only other paths and other methods can meet. */
const ofOthers = ['NotFound', 'MethodNotAllowed', 'NotReady']
const names = (Object.keys(catalogue) as FailureName[]).filter((name) => !ofOthers.includes(name))
const failures = {
  ...Object.fromEntries(names.map((name) => [name, new Failure(name)])),
  InvalidPlant: new Failure('InvalidPlant', { message: `id must be ${kinds.Int64[0]}` }),
  MissingField: new Failure('InvalidPlant', { message: 'name is required' })
}
/** All failures that a create can meet. */
const examples = Object.fromEntries(
  Object.entries(failures).map(([name, failure]) => {
    const value = JSON.parse(toResponse(failure).body)
    return [name, { summary: `${value.error}: ${value.message}`, value }]
  })
)

/** Describes a header field. */
const field = (description: string) => ({ type: 'string', description })
const requestId = field("The request's own, or one that the service made. The log has it too.")

/** Describes a body by the name of its schema. */
const json = (name: string, examples?: object) => ({
  content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` }, examples } }
})

/** What the schema of a create does not say: the failures, the header fields, and the names of the schemas. */
const ofCreate = {
  body: json('NewPlant'),
  headers: { type: 'object', properties: { 'Idempotency-Key': field(aboutKey) } },
  response: {
    200: {
      ...json('Plant'),
      description: Plant.description,
      headers: {
        'X-Request-Id': requestId,
        'Idempotent-Replayed': field(
          'true: an earlier request with this Idempotency-Key had stored the plant.'
        )
      }
    },
    400: {
      ...json('Error', examples),
      description: aboutFailures,
      headers: {
        'X-Request-Id': requestId,
        'Error-Name': field('The name of what failed: that of the example.'),
        'Write-Outcome': field(
          'With 429, 500 and 503: this request has stored nothing (none), or may have stored the plant (unknown). An earlier attempt may have stored it all the same.'
        ),
        'Retry-After': field('With 429 and 503: seconds to wait before the next attempt.'),
        'WWW-Authenticate': field('With 401: the challenge of RFC 6750, section 3.')
      }
    }
  }
}

/** By the operation's id. */
const additions: Record<string, object> = { createPlant: ofCreate }
