/** The OpenAPI document: the interface for machines, made from the schemas that validate and the failures that the routes declare. */
import { catalogue } from '../failures/catalogue.ts'
import { failures as declared } from '../plants/route.ts'
import { version } from '../version.ts'
import { exemplify, failuresOf, numbersWith, tabulate } from './examples.ts'
import { schemas } from './schemas.ts'

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

/** Gives the document's text (OpenAPI 3.1, JSON) for a service whose paths begin with `basePath`. */
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
