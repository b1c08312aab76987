/** The OpenAPI document, made from the schemas that validate and the failures that the routes declare. */
import type { TSchema } from '@sinclair/typebox'
import { catalogue, type Entry, type FailureName } from '../failures/catalogue.ts'
import { failures as declared } from '../plants/route.ts'
import { ErrorBody, int64, NewPlant, Plant } from '../plants/schema.ts'
import { version } from '../version.ts'

const entries = Object.entries(catalogue) as [FailureName, Entry][]

/** InvalidPlant always names the field and its rule. */
const invalidPlants = {
  InvalidPlant: `id must be ${NewPlant.properties.id.rule}`,
  MissingField: 'name is required'
}

/** Returns the failures of an operation: those that it declares, and those that any request can meet. */
function failuresOf(declared: readonly FailureName[]): [FailureName, Entry][] {
  return entries.filter(([name, { scope }]) => declared.includes(name) || scope === 'any request')
}

function example({ error, advice }: Entry, message: string) {
  return { summary: `${error}: ${message}`, description: advice, value: { error, message } }
}

/** Returns the failures' examples by name. */
function exemplify(failures: [FailureName, Entry][]) {
  const examples = failures.flatMap(([name, entry]) => {
    const messages = name === 'InvalidPlant' ? invalidPlants : { [name]: entry.message }
    return Object.entries(messages).map(([key, message]) => [key, example(entry, message)])
  })
  return Object.fromEntries(examples)
}

/** Returns the failures as a table in Markdown. */
function tabulate(failures: [FailureName, Entry][]): string {
  const rows = failures.map(([, { error, message, advice }]) => `| ${error} | ${message} | ${advice} |`)
  return ['| error | message | what to do |', '|---|---|---|', ...rows].join('\n')
}

/** Returns the numbers of the failures that have a header field, such as "429 and 503". */
function numbersWith(field: string, failures: [FailureName, Entry][]): string {
  const have = failures.filter(
    ([, { headers = {}, fields = [] }]) => field in headers || fields.includes(field)
  )
  return [...new Set(have.map(([, { error }]) => error))].join(' and ')
}

/** Returns a value that JSON.stringify writes with exactly these digits. ECMAScript has rawJSON, TypeScript's library not yet. */
const exactNumber = (value: bigint) =>
  (JSON as unknown as { rawJSON(text: string): number }).rawJSON(`${value}`)

const exactInteger = {
  type: 'integer',
  format: 'int64',
  minimum: exactNumber(int64.minimum),
  maximum: exactNumber(int64.maximum)
}

/** Returns a schema in the terms of JSON Schema 2020-12 alone; `int64` becomes an integer with exact bounds. */
function toPublic(schema: TSchema): object {
  const { rule: _, int64: isInt64, properties, ...rest } = schema
  if (isInt64) return { ...exactInteger, ...rest }
  if (properties === undefined) return rest
  const entries = Object.entries(properties as Record<string, TSchema>)
  return { ...rest, properties: Object.fromEntries(entries.map(([name, value]) => [name, toPublic(value)])) }
}

/** The interface's types by their names. */
const schemas = {
  NewPlant: toPublic(NewPlant),
  Plant: toPublic(Plant),
  Error: toPublic(ErrorBody)
}

const description = `One operation: create a plant. An acknowledged plant is durable, and a request that is sent again creates nothing twice.

Every response is status 200 with a plant, or status 400 with \`{"error": …, "message": …}\`.`

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  description: `1 to 255 visible ASCII characters of your choice, in quotes, or bare where it has no comma, quote or space. With it the same request can be sent any
number of times: once it has succeeded, the same response comes again. A key counts for one caller and one id, and never expires.`,
  schema: { type: 'string', minLength: 1 }
}

const text = { schema: { type: 'string' } }
const count = { schema: { type: 'integer', minimum: 0 } }

const everyResponse = {
  'X-Request-Id': {
    description: "The request's own, or one that the service made. The log has it too.",
    ...text
  }
}

const limited = {
  'RateLimit-Limit': { description: 'Where there is a rate limit: creates a second.', ...count },
  'RateLimit-Remaining': {
    description: 'Where there is a rate limit: creates that are left in this second.',
    ...count
  },
  'RateLimit-Reset': { description: 'Where there is a rate limit: seconds until the next.', ...count }
}

const replayed = {
  'Idempotent-Replayed': {
    description: 'An earlier request with this `Idempotency-Key` had stored the plant.',
    schema: { type: 'string', const: 'true' }
  }
}

const failures = failuresOf(declared)
const failuresWith = (field: string) => `With ${numbersWith(field, failures)}`

const failed = {
  'Error-Name': {
    description: 'The name of what failed.',
    schema: { type: 'string', enum: Object.keys(catalogue) }
  },
  'Write-Outcome': {
    description: `${failuresWith('write-outcome')}: this request has stored nothing (\`none\`), or may have stored the plant (\`unknown\`). An earlier attempt may have stored it all the same.`,
    schema: { type: 'string', enum: ['none', 'unknown'] }
  },
  'Retry-After': {
    description: `${failuresWith('retry-after')}: seconds to wait before the next attempt.`,
    ...count
  },
  'WWW-Authenticate': {
    description: `${failuresWith('www-authenticate')}: the challenge of RFC 6750, section 3.`,
    ...text
  }
}

const reference = (name: keyof typeof schemas) => ({ $ref: `#/components/schemas/${name}` })

const createPlant = {
  operationId: 'createPlant',
  summary: 'Create a plant',
  description: `Creates a new plant in the store. The client chooses its id; the response comes when the plant is durable.

Ids are exact over all of int64: beyond 2⁵³ write them with a JSON library that does not round (in JavaScript \`JSON.rawJSON\` of a BigInt). Unknown properties are
ignored.`,
  tags: ['plants'],
  parameters: [idempotencyKey],
  requestBody: {
    required: true,
    content: {
      'application/json': {
        schema: reference('NewPlant'),
        examples: {
          tagged: { summary: 'With a tag', value: { id: 1, name: 'Monstera', tag: 'tropical' } },
          untagged: { summary: 'Without a tag', value: { id: 2, name: 'Fern' } }
        }
      }
    }
  },
  responses: {
    200: {
      description: 'The plant is stored.',
      headers: { ...everyResponse, ...limited, ...replayed },
      content: {
        'application/json': {
          schema: reference('Plant'),
          examples: {
            tagged: { summary: 'With a tag', value: { name: 'Monstera', tag: 'tropical' } },
            untagged: { summary: 'Without a tag', value: { name: 'Fern' } }
          }
        }
      }
    },
    400: {
      description: `The request failed; \`error\` is the HTTP status code that would name the failure best.

${tabulate(failures)}

Another path gets ${catalogue.NotFound.error}, another method ${catalogue.MethodNotAllowed.error}.`,
      headers: { ...everyResponse, ...limited, ...failed },
      content: { 'application/json': { schema: reference('Error'), examples: exemplify(failures) } }
    }
  }
}

/** Returns the document's text (OpenAPI 3.1, JSON) for a service whose paths begin with `basePath`. */
export function writeDocument(basePath: string): string {
  const document = {
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
    paths: { '/plants': { post: createPlant } },
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'An access token: `Authorization: Bearer <token>`'
        }
      },
      schemas
    }
  }
  return `${JSON.stringify(document, null, 2)}\n`
}
