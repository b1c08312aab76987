/**
 * The OpenAPI document for machines, /openapi.json, which is made from the schemas of the routes,
 * and the page for people, /docs.
 */
import { readFileSync } from 'node:fs'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { TSchema } from '@sinclair/typebox'
import type { FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { catalogue, Failure, type FailureName, toResponse } from '../failures.ts'
import { jsonType, maximumValues } from '../http/json.ts'
import { ErrorBody, NewPlant, Plant } from '../plants/schema.ts'

/** The version of this build, such as 1.0.0. Only package.json has it. */
const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
)

/**
 * The content security policy of the page. It allows nothing inline and nothing from another
 * origin. Only images may be data URLs, because Swagger UI's style sheet has such icons.
 */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const description = [
  'An acknowledged plant is durable, and a request that is sent again creates nothing twice.',
  'Every response is status 200 with a plant, or status 400 with `{"error": …, "message": …}`.',
  `A body has at most ${maximumValues} values: itself, and each member and element at any depth; ` +
    'with more it gets MalformedBody. Unknown properties are ignored.'
].join('\n\n')
const aboutBearer = 'An access token: `Authorization: Bearer <token>`'
const bearer = { type: 'http', scheme: 'bearer', description: aboutBearer } as const

export default fp<Config>(async (app, { BASE_PATH: basePath, DOCS: page, jwt }) => {
  await app.register(swagger, {
    // A route without a tag is not part of the interface, such as a probe.
    hideUntagged: true,
    openapi: {
      openapi: '3.1.1',
      info: {
        title: 'Plant Store',
        version,
        description,
        license: { name: 'MIT', identifier: 'MIT' }
      },
      servers: [{ url: basePath || '/', description: 'This service' }],
      security: [{ bearer: [] }],
      tags: [{ name: 'plants', description: 'The plants of the store' }],
      components: {
        securitySchemes: { bearer: { ...bearer, ...(jwt && { bearerFormat: 'JWT' }) } },
        schemas: { NewPlant, Plant, Error: ErrorBody } as Record<string, object>
      }
    },
    transform: ({ schema, url, route }) => ({
      url,
      schema: schema?.tags ? describeOperation(schema as Operation, String(route.method)) : schema
    })
  })
  app.get('/openapi.json', async () => app.swagger())
  if (page === 'off') return
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: policy,
    theme: { title: 'Plant Store API' },
    // BaseLayout leaves out the bar at the top, whose logo has an inline style.
    uiConfig: { layout: 'BaseLayout', tryItOutEnabled: true, docExpansion: 'full' }
  })
})

/** The schema of a route that is part of the interface. */
type Operation = FastifySchema & { body?: TSchema; response: { 200: TSchema } }

const aboutKey =
  '1 to 255 visible ASCII characters of your choice; in quotes if it has a comma, a quote or a ' +
  'space. With it, the same request can be sent any number of times: once it has succeeded, it ' +
  'gets the same response again. A key counts for one caller and one id, and never expires.'
const aboutReplay = 'true: an earlier request with this Idempotency-Key had stored the plant.'
const aboutOutcome =
  'Of a create, with 429, 500 and 503: this request has stored nothing (none), or may have ' +
  'stored the plant (unknown). An earlier attempt may have stored it all the same.'
const aboutId = "The request's own, or one that the service made. The log has it too."

/**
 * The header fields that only one operation has, by the operation's id: those of its request, and
 * those of its success.
 */
const ownHeaders: Record<
  string,
  { request: Record<string, string>; success: Record<string, string> }
> = {
  createPlant: {
    request: { 'Idempotency-Key': aboutKey },
    success: { 'Idempotent-Replayed': aboutReplay }
  }
}

/**
 * Adds what a route's schema does not say: the failures, the header fields, and the names of the
 * schemas.
 */
function describeOperation({ body, response, ...schema }: Operation, method: string) {
  const { request, success } = ownHeaders[`${schema.operationId}`] ?? {}
  const { title, description } = response[200]
  return {
    ...schema,
    ...(body && { body: describeBody(body.title) }),
    ...(request && { headers: { type: 'object', properties: describeHeaders(request) } }),
    response: {
      200: {
        ...describeBody(title),
        description,
        headers: describeHeaders({ 'X-Request-Id': aboutId, ...success })
      },
      400: describeFailures(method)
    }
  }
}

/**
 * Describes the failure response of an operation. Its examples are all failures of the catalogue,
 * even those that only other paths can meet.
 */
function describeFailures(method: string) {
  const examples = (Object.keys(catalogue) as FailureName[]).map((name) => {
    const failure = new Failure(
      name,
      name === 'InvalidPlant' ? { message: 'name is required' } : {}
    )
    const value = JSON.parse(toResponse(failure, method).body)
    return [name, { summary: `${value.error}: ${value.message}`, value }]
  })
  return {
    ...describeBody('Error', Object.fromEntries(examples)),
    description:
      'The request failed: `error` is the HTTP status code that would name the failure best, ' +
      'and `Error-Name` the example.',
    headers: describeHeaders({
      'X-Request-Id': aboutId,
      'Error-Name': 'The name of what failed.',
      'Write-Outcome': aboutOutcome,
      'Retry-After': 'With 429 and 503: seconds to wait before the next attempt.',
      'WWW-Authenticate': 'With 401: the challenge of RFC 6750, section 3.'
    })
  }
}

/** Describes header fields. */
const describeHeaders = (about: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(about).map(([name, description]) => [name, { type: 'string', description }])
  )

/** Describes a body by the name of its schema, which is the schema's title. */
const describeBody = (title: string | undefined, examples?: object) => ({
  content: { [jsonType]: { schema: { $ref: `#/components/schemas/${title}` }, examples } }
})
