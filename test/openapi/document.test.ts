/** The OpenAPI document: what it says is what the service does. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { writeDocument } from '../../dev/generated/openapi.ts'
import { everyResponse, failure, headers, read, startService, token } from '../../harness/service/service.ts'
import { catalogue, type Entry, type FailureName } from '../../src/failures/catalogue.ts'
import { formatMessage } from '../../src/failures/failure.ts'
import { operations } from '../../src/plants/route.ts'

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
const text = writeDocument(operations)
const document = JSON.parse(text)
const { post: operation } = document.paths['/plants']
const examples: Record<
  string,
  { summary: string; 'x-retry': string; value: { error: number; message: string } }
> = operation.responses[400].content['application/json'].examples

const service = await startService(t, { BODY_LIMIT_BYTES: '200' })
const { url } = service

t.test('GET and HEAD get the document without a token', async (t) => {
  const plain = { status: 200, headers: { ...everyResponse, vary: 'accept-encoding' } }
  const identity = { headers: { 'accept-encoding': 'identity' } }
  t.strictSame(await read(await fetch(`${url}/openapi.json`, identity)), { ...plain, body: text })
  const response = { status: 200, headers: { ...plain.headers, 'content-encoding': 'gzip' } }
  t.strictSame(await read(await fetch(`${url}/openapi.json`)), { ...response, body: text })
  t.strictSame(await read(await fetch(`${url}/openapi.json`, { method: 'HEAD' })), { ...response, body: '' })
})

t.test('another method gets 405', async (t) => {
  const response = await read(await fetch(`${url}/openapi.json`, { method: 'POST', headers, body: '{' }))
  t.strictSame(response, failure(405, 'this path does not support this method', { allow: 'GET, HEAD' }))
})

t.test('it names the interface, its licence, and the path in front of it', async (t) => {
  t.equal(document.openapi, '3.1.1')
  t.match(document.info, { title: 'Plant Store', version, license: { name: 'MIT', identifier: 'MIT' } })
  t.equal(document.servers[0].url, '/')
  t.strictSame(document.security, [{ bearer: [] }])
  t.match(document.components.securitySchemes.bearer, { type: 'http', scheme: 'bearer' })
})

t.test('no reader rounds a number of it, or compiles a pattern; descriptions have the rules', async (t) => {
  t.notMatch(text, /"(?:pattern|rule|storable|int64)":/)
  const numbers = [...text.matchAll(/": (-?\d+)\b/g)].map(([, digits]) => Number(digits))
  t.ok(numbers.length > 0)
  const rounded = numbers.filter((number) => !Number.isSafeInteger(number))
  t.strictSame(rounded, [])
  const { NewPlant, Plant, Error: ErrorBody } = document.components.schemas
  const { id, name, tag } = NewPlant.properties
  t.match(id.description, /: an integer from -9223372036854775808 to 9223372036854775807$/)
  for (const { description } of [name, tag, Plant.properties.name])
    t.match(description, /: a string without U\+0000 and without lone surrogates$/)
  t.strictSame(NewPlant.required, ['id', 'name'])
  t.match(NewPlant.properties, { id: { type: 'integer', format: 'int64' }, name: { type: 'string' } })
  t.strictSame(Object.keys(NewPlant.properties), ['id', ...Object.keys(Plant.properties)])
  t.strictSame(Plant.required, ['name'])
  t.match(ErrorBody, {
    required: ['error', 'message'],
    properties: { error: { type: 'integer', format: 'int32' } }
  })
})

t.test('the document has the routes of the interface, and no other', async (t) => {
  // What needs no token.
  const others = service.app.routes.filter(({ operation }) => !operation).map(({ url }) => url)
  const paths = new Set(others.filter((url) => !url.startsWith('/docs/')))
  t.strictSame(paths, new Set(['/livez', '/readyz', '/openapi.json', '/', '/docs']))
  // HEAD goes with GET.
  const registered = service.app.routes.filter(({ method, operation }) => operation && method !== 'HEAD')
  const documented = Object.entries<object>(document.paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path.replaceAll(/{(\w+)}/g, ':$1')}`)
  )
  t.ok(documented.includes('POST /plants'))
  t.strictSame(documented.sort(), registered.map(({ method, url }) => `${method} ${url}`).sort())
  for (const { id, summary, success } of operations)
    for (const words of [id, summary, success.logged]) t.match(words, /./, id)
})

t.test('every failure of the operation is an example with its number', async (t) => {
  const others = ['NotFound', 'MethodNotAllowed', 'NotReady']
  const names = Object.keys(catalogue).filter((name) => !others.includes(name))
  t.strictSame(new Set(Object.keys(examples)), new Set([...names, 'MissingField']))
  for (const [name, { summary, value }] of Object.entries(examples)) {
    const { error } = catalogue[name === 'MissingField' ? 'InvalidPlant' : (name as keyof typeof catalogue)]
    t.equal(value.error, error, name)
    t.equal(summary, `${error}: ${value.message}`, name)
  }
})

t.test('the table has each message once, and the text after it the numbers of other requests', async (t) => {
  const { description } = operation.responses[400]
  const messages = [...description.matchAll(/^\|\d+\|\w+\|(.+?)\|/gm)].map(([, message]) => message)
  t.equal(new Set(messages).size, messages.length)
  t.equal(messages.length, Object.keys(examples).length - 1)
  t.match(description, /\n\nAnother path gets 404, another method 405\.$/)
})

t.test('each failure says whether to retry, each number the same, in one sentence', async (t) => {
  const retried = new Map<number, boolean>()
  for (const [name, entry] of Object.entries<Entry>(catalogue)) {
    const { error, retry, headers } = entry
    t.equal(retried.get(error) ?? retry !== 'never', retry !== 'never', name)
    retried.set(error, retry !== 'never')
    if (retry === 'after Retry-After') t.ok(headers?.['retry-after'], name)
    if (retry === 'never') t.notOk(headers?.['retry-after'], name)
    t.notMatch(formatMessage(entry, true), /, (?:this|the|it)\b|: (?:try|send)|\.$/, name)
  }
  for (const [name, example] of Object.entries(examples)) {
    const { retry } = catalogue[name === 'MissingField' ? 'InvalidPlant' : (name as FailureName)]
    t.equal(example['x-retry'], retry, name)
  }
})

const { authorization: _, ...noToken } = headers
const plant = '{"id":1,"name":"Monstera"}'

/** Requests whose failures need no special state, after `plant` was created with the key "a". */
const requests: [name: string, init: RequestInit][] = [
  ['MalformedKey', { headers: { ...headers, 'idempotency-key': 'a b' } }],
  ['MalformedBody', { body: '{' }],
  ['MissingToken', { headers: noToken }],
  ['MalformedToken', { headers: { ...headers, authorization: 'Bearer' } }],
  ['InvalidToken', { headers: { ...headers, authorization: `Bearer ${token}x` } }],
  ['DuplicatePlant', {}],
  ['BodyTooLarge', { body: JSON.stringify({ id: 1, name: 'x'.repeat(200) }) }],
  ['UnsupportedMediaType', { headers: { ...headers, 'content-type': 'text/plain' } }],
  ['InvalidPlant', { body: '{"id":9223372036854775808,"name":"Monstera"}' }],
  ['MissingField', { body: '{"id":1}' }],
  ['ReusedKey', { body: '{"id":1,"name":"Fern"}', headers: { ...headers, 'idempotency-key': 'a' } }]
]

t.test('requests get the responses of the examples, with documented header fields', async (t) => {
  const created = await service.post(plant, { headers: { ...headers, 'idempotency-key': 'a' } })
  t.equal(created.status, 200)
  const documented = new Set(Object.keys(operation.responses[400].headers).map((name) => name.toLowerCase()))
  const general = new Set(Object.keys(everyResponse))
  for (const [name, init] of requests) {
    const response = await service.post(plant, init)
    t.equal(response.status, 400, name)
    t.strictSame(JSON.parse(response.body), examples[name]?.value, name)
    for (const field of Object.keys(response.headers).filter((field) => !general.has(field))) {
      t.ok(documented.has(field), `${name}: ${field}`)
    }
  }
})

t.test('a body of more values than the document states gets the failure that it names', async (t) => {
  const [, most, name] =
    /^At most (\d+) values: .* it gets (\w+)\./.exec(operation.requestBody.description) ?? []
  const usual = await startService(t)
  const bodyOf = (values: number) => `{"id":-1,"name":"n","x":[${Array(values - 4).fill(1)}]}`
  t.equal((await usual.post(bodyOf(Number(most)))).status, 200)
  const { headers, body } = await usual.post(bodyOf(Number(most) + 1))
  t.equal(headers['error-name'], name)
  t.strictSame(JSON.parse(body), { error: 400, message: `the body has more than ${most} values` })
})

t.test('a rate limit adds the documented header fields to both responses', async (t) => {
  const limited = await startService(t, { RATE_LIMIT: '1000' })
  for (const status of [200, 400]) {
    const response = await limited.post({ id: 1, name: 'Monstera' })
    t.equal(response.status, status)
    const fields = Object.keys(operation.responses[status].headers).filter((name) =>
      name.startsWith('RateLimit-')
    )
    t.equal(fields.length, 3)
    for (const name of fields) t.match(response.headers[name.toLowerCase() as 'vary'], /^\d+$/, name)
  }
})
