/** What follows from the declaration of an operation: of one that writes, and of one that reads. */
import { Registry } from '@prometheus-io/client'
import { Type } from '@sinclair/typebox'
import type { RouteShorthandOptions } from 'fastify'
import t from 'tap'
import { writeDocument } from '../../dev/generated/openapi.ts'
import { everyResponse, headers, read as readResponse, token } from '../../harness/service/service.ts'
import auth from '../../src/auth/auth.ts'
import { parseTokens } from '../../src/auth/tokens.ts'
import { catalogue, type Entry, type FailureName } from '../../src/failures/catalogue.ts'
import { Failure } from '../../src/failures/failure.ts'
import addOperation from '../../src/http/add-operation.ts'
import { createBareApp } from '../../src/http/bare-app.ts'
import { createLogger } from '../../src/logger.ts'
import type { Operation } from '../../src/operation.ts'
import schema, { ajv } from '../../src/plants/schema.ts'
import telemetry from '../../src/telemetry/requests.ts'

let admitted: Failure | undefined
let thrown: Failure | undefined

/** Two numbers, of which one is exact. */
const Numbers = Type.Object(
  { wide: Type.Unsafe<bigint>({ int64: true, rule: 'an integer' }), other: Type.Number() },
  { title: 'Numbers' }
)
const Text = Type.Object({ text: Type.String() }, { title: 'Text' })

const write: Operation<typeof Numbers> = {
  id: 'write',
  method: 'POST',
  path: '/both',
  summary: 'Write',
  description: 'Writes.',
  writes: true,
  body: { schema: Numbers, examples: { one: { summary: 'One', value: { wide: 1, other: 2 } } } },
  success: { schema: Text, examples: {}, description: 'Written.', logged: 'written' },
  failures: ['OutcomeUnknown'],
  refusalOf: () => admitted,
  async handle({ body, idempotencyKey }) {
    if (thrown) throw thrown
    return { text: `${typeof body.wide} ${body.wide} ${typeof body.other} ${idempotencyKey}` }
  }
}

const read: Operation = {
  id: 'read',
  method: 'GET',
  path: '/both',
  summary: 'Read',
  description: 'Reads.',
  writes: false,
  success: { schema: Text, examples: {}, description: 'Read.', logged: 'read' },
  failures: ['NotFound'],
  refusalOf: () => admitted,
  async handle({ idempotencyKey }) {
    if (thrown) throw thrown
    return { text: `read ${idempotencyKey}` }
  }
}

const named: Operation = {
  ...read,
  id: 'named',
  path: '/named/{wide}/{text}',
  params: Type.Object({ wide: Numbers.properties.wide, text: Type.String() }),
  async handle({ params }) {
    const { wide, text } = params as { wide: bigint; text: string }
    return { text: `${typeof wide} ${wide} ${typeof text} ${text}` }
  }
}

const renamed: Operation<typeof Numbers> = {
  ...write,
  id: 'renamed',
  path: '/named/{wide}/{text}',
  params: named.params as NonNullable<typeof named.params>,
  async handle({ params, body }) {
    const { wide, text } = params as { wide: bigint; text: string }
    return { text: `${wide} ${text} ${body.wide}` }
  }
}

const lines: string[] = []
const registry = new Registry()
const app = await createBareApp(createLogger('info', { write: (line) => void lines.push(line) }), {
  headersTimeoutMs: 60_000,
  requestTimeoutMs: 60_000,
  keepAliveTimeout: 72_000,
  maxConnections: 100,
  ajv
})
await app.register(schema)
await app.register(auth, { registry, tokens: parseTokens(`tester:${token}`), perSecond: 0 })
await app.register(addOperation, { registry, basePath: '/v1', bodyMemoryBytes: 1_000_000 })
for (const operation of [write, read, named, renamed]) app.addOperation(operation)
await app.register(telemetry, { registry })
await app.after()
app.rejectOtherMethods()
t.teardown(() => app.close())
const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/v1/both`

const body = '{"wide":9007199254740993,"other":9007199254740993}'
const keyed = { ...headers, 'idempotency-key': 'k' }
const both: [method: string, init: RequestInit][] = [
  ['POST', { method: 'POST', headers: keyed, body }],
  ['GET', { headers: keyed }]
]
/** Requests both operations; returns the whole responses. */
const requestBoth = (changes: RequestInit = {}) =>
  Promise.all(both.map(async ([, init]) => readResponse(await fetch(url, { ...init, ...changes }))))
const errorOf = (response: { body: string }) => JSON.parse(response.body).error

t.test('each is served: only a write reads the key; integers are as exact as the schema says', async (t) => {
  lines.length = 0
  const success = (text: string) => ({ status: 200, headers: everyResponse, body: JSON.stringify({ text }) })
  t.strictSame(await requestBoth(), [success('bigint 9007199254740993 number k'), success('read undefined')])
  const logged = lines.map((line) => JSON.parse(line))
  logged.sort((one, other) => (one.msg < other.msg ? 1 : -1))
  t.match(logged, [
    { level: 30, method: 'POST', route: '/v1/both', caller: 'tester', failure: 0, msg: 'written' },
    { level: 30, method: 'GET', route: '/v1/both', caller: 'tester', failure: 0, msg: 'read' }
  ])
  t.equal(logged.length, 2)
})

t.test('parameters of the path are what their schema says', async (t) => {
  const ask = async (path: string) =>
    JSON.parse((await readResponse(await fetch(url.replace('both', `named/${path}`), { headers }))).body)
  t.strictSame(await ask('-9223372036854775808/7'), { text: 'bigint -9223372036854775808 string 7' })
  for (const wide of ['9223372036854775808', '1.0', '1e3', '01', '-0', 'x', '%20', '9'.repeat(10_000)])
    t.strictSame(await ask(`${wide}/7`), { error: 422, message: 'wide must be an integer' }, wide)
})

t.test('an operation can have parameters and a body', async (t) => {
  const init = { method: 'POST', headers, body: '{"wide":9223372036854775807,"other":1}' }
  const response = await readResponse(await fetch(url.replace('both', 'named/3/x'), init))
  t.equal(response.body, '{"text":"3 x 9223372036854775807"}')
})

t.test('each needs a token', async (t) => {
  t.strictSame((await requestBoth({ headers: {} })).map(errorOf), [401, 401])
})

t.test('each is refused by its own admission, before its body is read', async (t) => {
  admitted = new Failure('Unavailable')
  t.strictSame((await requestBoth()).map(errorOf), [503, 503])
  t.equal(errorOf(await readResponse(await fetch(url, { method: 'POST', headers, body: '{' }))), 503)
  admitted = undefined
})

for (const [name, { error, message, outcome }] of Object.entries<Entry>(catalogue)) {
  t.test(`with ${name} only the one that writes says what is stored`, async (t) => {
    thrown = new Failure(name as FailureName)
    const [written, read] = await requestBoth()
    t.equal(written?.headers['write-outcome' as 'vary'], outcome)
    t.equal(read?.headers['write-outcome' as 'vary'], undefined)
    const [ending, endingOfRead] =
      outcome === 'none' ? ['; this request stored nothing; retry later', '; retry later'] : ['', '']
    t.strictSame(JSON.parse(written?.body as string), { error, message: `${message}${ending}` })
    t.strictSame(JSON.parse(read?.body as string), { error, message: `${message}${endingOfRead}` })
    thrown = undefined
  })
}

t.test('another method gets 405 with those of both', async (t) => {
  const response = await readResponse(await fetch(url, { method: 'PUT', headers, body }))
  t.match(response, { status: 400, headers: { 'error-name': 'MethodNotAllowed', allow: 'GET, HEAD, POST' } })
})

t.test('the metrics have series of both from the start', async (t) => {
  const page = await registry.metrics()
  for (const method of ['GET', 'POST'])
    t.match(page, `_count{route="/v1/both",interface="true",method="${method}",failure="500"}`)
})

t.test('the document has both, with what each can meet', async (t) => {
  const { paths, components } = JSON.parse(writeDocument([write, read, named]))
  const { post, get } = paths['/both']
  t.strictSame(Object.keys(paths['/both']), ['post', 'get'])
  t.strictSame([post.operationId, get.operationId], ['write', 'read'])
  t.strictSame(Object.keys(components.schemas), ['Numbers', 'Text', 'Error'])
  t.strictSame([post.parameters.length, get.parameters], [1, []])
  t.match(paths['/named/{wide}/{text}'].get.parameters, [
    { name: 'wide', in: 'path', required: true, schema: { type: 'integer', format: 'int64' } },
    { name: 'text', in: 'path', required: true, schema: { type: 'string' } }
  ])
  t.ok(post.requestBody)
  t.notOk(get.requestBody)
  const namesOf = (operation: typeof get) =>
    Object.keys(operation.responses[400].content['application/json'].examples)
  const ofWrite = ['MalformedKey', 'MalformedBody', 'UnsupportedMediaType', 'InvalidPlant', 'OutcomeUnknown']
  for (const name of ofWrite)
    t.strictSame(
      [post, get].map((one) => namesOf(one).includes(name)),
      [true, false],
      name
    )
  for (const name of ['MissingToken', 'RateLimited', 'Overloaded', 'Internal'])
    t.ok(namesOf(get).includes(name), name)
  t.ok(namesOf(get).includes('NotFound'))
  t.notOk('Write-Outcome' in get.responses[400].headers)
  const { get: ofParameters } = paths['/named/{wide}/{text}']
  const { examples } = ofParameters.responses[400].content['application/json']
  t.equal(examples.InvalidPlant.value.message, 'wide must be an integer')
  t.notOk('MissingField' in examples)
  t.notMatch(JSON.stringify([get, ofParameters]), /stored|creat|the plant/)
})

t.test('a route that is neither internal nor added as an operation stops the start', async (t) => {
  const routes: RouteShorthandOptions[] = [
    {},
    { config: {} },
    { config: { operation: { ...read, url: '/other' } } }
  ]
  for (const options of routes) {
    const bare = await createBareApp(createLogger('silent'), {
      headersTimeoutMs: 1_000,
      requestTimeoutMs: 1_000,
      keepAliveTimeout: 72_000,
      maxConnections: 1
    })
    await bare.register(auth, {
      registry: new Registry(),
      tokens: parseTokens(`tester:${token}`),
      perSecond: 0
    })
    await bare.register(addOperation, { registry: new Registry(), basePath: '', bodyMemoryBytes: 1 })
    const add = () => bare.get('/other', options, () => 'never')
    t.throws(add, { message: 'GET /other is neither a declared operation nor internal' })
    await bare.close()
  }
})
