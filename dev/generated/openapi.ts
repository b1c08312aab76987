/** public/openapi.json: the OpenAPI document, from the operations' declarations and the catalogue of failures. */
import type { TObject, TSchema } from '@sinclair/typebox'
import { catalogue, type Entry, type FailureName } from '../../src/failures/catalogue.ts'
import { formatMessage } from '../../src/failures/failure.ts'
import { maximumValues } from '../../src/http/json.ts'
import { version } from '../../src/metrics/metrics.ts'
import { failuresOf, type Operation } from '../../src/operation.ts'
import { ErrorBody } from '../../src/plants/schema.ts'
import { describeRetry } from './errors-page.ts'
import { table } from './markdown.ts'

type Failures = [FailureName, Entry][]

/** Returns the messages of a failure by the names of their examples. An invalid value breaks a rule, or is missing from a body. */
function messagesOf([name, entry]: Failures[number], { params, body, writes }: Operation) {
  if (name !== 'InvalidPlant') return { [name]: formatMessage(entry, writes) }
  const { properties, required = [] } = (body?.schema ?? params) as TObject
  const [[field, { rule }]] = Object.entries(properties) as [[string, TSchema]]
  const missing = body && { MissingField: `${required.at(-1)} is required` }
  return { InvalidPlant: `${field} must be ${rule}`, ...missing }
}

/** Returns the failures' examples by name. */
function exemplify(failures: Failures, operation: Operation) {
  const examples = failures.flatMap((failure) => {
    const [, { error, advice, retry }] = failure
    return Object.entries(messagesOf(failure, operation)).map(([key, message]) => [
      key,
      { summary: `${error}: ${message}`, description: advice, 'x-retry': retry, value: { error, message } }
    ])
  })
  return Object.fromEntries(examples)
}

/** What a client that meets a failure does first. */
function groupOf({ retry, isForOperator }: Entry) {
  if (isForOperator) return 'Ask the operator'
  return retry === 'never' ? 'Correct the request' : 'Retry'
}

/** Returns the failures as tables in Markdown, by what a client does. */
function tabulate(failures: Failures, { writes }: Operation): string {
  return ['Correct the request', 'Retry', 'Ask the operator']
    .map((group) => {
      const members = failures.filter(([, entry]) => groupOf(entry) === group)
      const rows = members.map(([name, entry]) => [
        `${entry.error}`,
        name,
        formatMessage(entry, writes),
        describeRetry(entry),
        entry.advice
      ])
      return `### ${group}\n\n${table(['error', 'name', 'message', 'retry', 'what to do'], rows)}`
    })
    .join('\n\n')
}

/**
 * Returns a schema in the terms of JSON Schema 2020-12 alone. What only our validator knows becomes words: readers round
 * the bounds of an int64, and compile patterns in dialects of their own.
 */
function toPublic(schema: TSchema): object {
  const { title: _, rule, int64, storable: __, properties, description, ...rest } = schema
  if (properties === undefined) {
    const words = { description: rule === undefined ? description : `${description}: ${rule}` }
    return { ...(int64 && { type: 'integer', format: 'int64' }), ...rest, ...words }
  }
  const entries = Object.entries(properties as Record<string, TSchema>)
  return { ...rest, properties: Object.fromEntries(entries.map(([name, value]) => [name, toPublic(value)])) }
}

const description = `An acknowledged plant is durable, and a request that is sent again creates nothing twice.

Every response is status 200 with a plant, or status 400 with \`{"error": …, "message": …}\`.`

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  description: [
    '1 to 255 visible ASCII characters of your choice, bare, or in quotes if it has a comma, a quote or a space; in quotes,',
    'write `\\"` for a quote and `\\\\` for a backslash. With it, the same request can be sent any number of times: once it has',
    'succeeded, it gets the same response again. A key counts for one caller and one id, and never expires.'
  ].join(' '),
  schema: { type: 'string', minLength: 1 }
}

const text = (description: string, rules: object = {}) => ({
  description,
  schema: { type: 'string', ...rules }
})
const count = (description: string) => ({ description, schema: { type: 'integer', minimum: 0 } })

const everyResponse = {
  'X-Request-Id': text("The request's own, or one that the service made. The log has it too."),
  'RateLimit-Limit': count('If there is a rate limit: requests per second.'),
  'RateLimit-Remaining': count('If there is a rate limit: requests that may come at once now.'),
  'RateLimit-Reset': count('If there is a rate limit: seconds until as many as the limit may come at once.')
}

const replayed = {
  'Idempotent-Replayed': text('An earlier request with this `Idempotency-Key` had stored the plant.', {
    const: 'true'
  })
}

const list = new Intl.ListFormat('en-GB')

/** Describes the header fields of an operation's failures. */
function describeFields(failures: Failures, { writes }: Operation) {
  const numbers = (has: (entry: Entry) => unknown) =>
    list.format(new Set(failures.flatMap(([, entry]) => (has(entry) ? [`${entry.error}`] : []))))
  const outcome = `With ${numbers(({ outcome }) => outcome)}: this request has stored nothing (\`none\`), or may have stored the plant (\`unknown\`). An earlier attempt may have stored it all the same.`
  return {
    'Error-Name': text('The name of what failed.', { enum: Object.keys(catalogue) }),
    ...(writes && { 'Write-Outcome': text(outcome, { enum: ['none', 'unknown'] }) }),
    'Retry-After': count(
      `With ${numbers(({ headers }) => headers)}: seconds to wait before the next attempt.`
    ),
    'WWW-Authenticate': text(
      `With ${numbers(({ error }) => error === 401)}: the challenge of RFC 6750, section 3.`
    )
  }
}

const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` })

const bodyRules = `At most ${maximumValues} values: itself, and each member and element at any depth; with more it gets MalformedBody. Unknown properties are ignored.`

const contentOf = ({ schema, examples }: Operation['success' | 'body'] & object) => ({
  'application/json': { schema: reference(schema.title as string), examples }
})

/** Returns an operation as the document describes it. */
function describe(operation: Operation) {
  const { id, summary, description, writes, params, body, success } = operation
  const failures = failuresOf(operation)
  const inPath = Object.entries(params?.properties ?? {}).map(([name, value]) => {
    return { name, in: 'path', required: true, schema: toPublic(value) }
  })
  return {
    operationId: id,
    summary,
    description,
    tags: ['plants'],
    parameters: [...inPath, ...(writes ? [idempotencyKey] : [])],
    ...(body && { requestBody: { required: true, description: bodyRules, content: contentOf(body) } }),
    responses: {
      200: {
        description: success.description,
        headers: { ...everyResponse, ...(writes && replayed) },
        content: contentOf(success)
      },
      400: {
        description: `The request failed; \`error\` is the HTTP status code that would name the failure best.

${tabulate(failures, operation)}

Another path gets ${catalogue.NotFound.error}, another method ${catalogue.MethodNotAllowed.error}.`,
        headers: { ...everyResponse, ...describeFields(failures, operation) },
        content: {
          'application/json': { schema: reference('Error'), examples: exemplify(failures, operation) }
        }
      }
    }
  }
}

/** Returns the document's text (OpenAPI 3.1, JSON). */
export function writeDocument(operations: readonly Operation[]): string {
  const schemas = operations.flatMap(({ body, success }) => [body?.schema ?? [], success.schema].flat())
  const paths: Record<string, Record<string, object>> = {}
  for (const operation of operations) {
    const method = operation.method.toLowerCase()
    paths[operation.path] = { ...paths[operation.path], [method]: describe(operation) }
  }
  const document = {
    openapi: '3.1.1',
    info: { title: 'Plant Store', version, description, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: '/', description: 'This service' }],
    security: [{ bearer: [] }],
    tags: [{ name: 'plants', description: 'The plants of the store' }],
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'An access token: `Authorization: Bearer <token>`'
        }
      },
      schemas: {
        ...Object.fromEntries(schemas.map((schema) => [schema.title, toPublic(schema)])),
        Error: toPublic(ErrorBody)
      }
    }
  }
  return `${JSON.stringify(document, null, 2)}\n`
}
