/** The interface's document for machines, /openapi.json, from the routes' own schemas, and its page for people, /docs. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { catalogue, Failure, type FailureName, toResponse } from '../failures.ts'
import { maximumValues } from '../http/json.ts'
import { version } from '../metrics.ts'
import { ErrorBody, NewPlant, Plant } from '../plants/schema.ts'

/** Of the page. Nothing inline, and nothing of another origin; only icons may be data URLs, as in Swagger UI's style sheet. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const description = `An acknowledged plant is durable, and a request that is sent again creates nothing twice.

Every response is status 200 with a plant, or status 400 with \`{"error": …, "message": …}\`.

A body has at most ${maximumValues} values: itself, and each member and element at any depth; with more it gets MalformedBody. Unknown properties are ignored.`
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
        schemas: { NewPlant, Plant, Error: ErrorBody } as Record<string, object>
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
const aboutOutcome =
  'With 429, 500 and 503: this request has stored nothing (none), or may have stored the plant (unknown). An earlier attempt may have stored it all the same.'
const aboutId = "The request's own, or one that the service made. The log has it too."

/** All failures: what only other paths and methods can meet, too. */
const examples = Object.fromEntries(
  (Object.keys(catalogue) as FailureName[]).map((name) => {
    const failure = new Failure(name, name === 'InvalidPlant' ? { message: 'name is required' } : {})
    const value = JSON.parse(toResponse(failure).body)
    return [name, { summary: `${value.error}: ${value.message}`, value }]
  })
)

/** Describes header fields. */
const fields = (about: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(about).map(([name, description]) => [name, { type: 'string', description }])
  )

/** Describes a body by the name of its schema. */
const json = (name: string, examples?: object) => ({
  content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` }, examples } }
})

/** The failure response of every operation. */
const failed = {
  ...json('Error', examples),
  description:
    'The request failed: `error` is the HTTP status code that would name the failure best, and `Error-Name` the example.',
  headers: fields({
    'X-Request-Id': aboutId,
    'Error-Name': 'The name of what failed.',
    'Write-Outcome': aboutOutcome,
    'Retry-After': 'With 429 and 503: seconds to wait before the next attempt.',
    'WWW-Authenticate': 'With 401: the challenge of RFC 6750, section 3.'
  })
}

/** By the operation's id, what its schema does not say: failures, header fields, and the names of the schemas. */
const additions: Record<string, object> = {
  createPlant: {
    body: json('NewPlant'),
    headers: { type: 'object', properties: fields({ 'Idempotency-Key': aboutKey }) },
    response: {
      200: {
        ...json('Plant'),
        description: Plant.description,
        headers: fields({
          'X-Request-Id': aboutId,
          'Idempotent-Replayed': 'true: an earlier request with this Idempotency-Key had stored the plant.'
        })
      },
      400: failed
    }
  }
}
