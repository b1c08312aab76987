/** Whatever is thrown, the response is the interface's, the log reports it, and neither reveals too much. */
import { Registry } from '@prometheus-io/client'
import t from 'tap'
import auth from '../../src/auth/auth.ts'
import { parseTokens } from '../../src/auth/tokens.ts'
import { catalogue, type Entry, type FailureName } from '../../src/failures/catalogue.ts'
import { Failure, formatMessage, toFailure } from '../../src/failures/failure.ts'
import { createBareApp } from '../../src/http/bare-app.ts'
import { createLogger } from '../../src/logger.ts'
import telemetry from '../../src/telemetry/requests.ts'

const lines: string[] = []
const app = await createBareApp(createLogger('info', { write: (line) => void lines.push(line) }), {
  headersTimeoutMs: 60_000,
  requestTimeoutMs: 60_000,
  keepAliveTimeout: 72_000,
  maxConnections: 100,
  genReqId: () => 'the-id'
})
await app.register(auth, { registry: new Registry(), tokens: parseTokens('abcdefghijklmnop'), perSecond: 0 })
await app.register(telemetry, { registry: new Registry() })
// Requests without a caller have too few lines for all that is thrown here.
app.addHook('onRequest', (request, _, done) => {
  request.caller = 'tester'
  done()
})

let thrown: unknown
app.get('/throws', () => {
  throw thrown
})
app.get('/rejects', async () => {
  throw thrown
})
app.get('/sends', (_, reply) => void reply.code(503).header('content-length', '1').send(thrown))
const hook = () => {
  throw thrown
}
app.get('/hook', { preHandler: hook }, () => 'never')
app.get(
  '/on-send',
  { onSend: (request, _, payload, done) => (request.failure ? done(null, payload) : hook()) },
  () => 'never'
)
app.get('/done', { onRequest: (_, __, done) => done(thrown as Error) }, () => 'never')
t.teardown(() => app.close())
const url = await app.listen({ host: '127.0.0.1', port: 0 })

/** Requests a path; returns the response, and the log lines that it left. */
async function get(path: string) {
  lines.length = 0
  const response = await fetch(`${url}${path}`)
  const { status, headers } = response
  const body = await response.text()
  return { status, type: headers.get('content-type'), body, log: lines.map((line) => JSON.parse(line)) }
}

const throwing = (name: string) =>
  Object.defineProperty(new Error('secret'), name, {
    get() {
      throw new Error('secret of a getter')
    }
  })
const cyclic: Error & { code?: unknown } = new Error('secret')
cyclic.cause = cyclic
cyclic.code = { toString: () => hook() }
const untouchable = new Proxy(new Error('secret'), {
  getPrototypeOf: () => {
    throw new Error('secret of a proxy')
  },
  get: () => {
    throw new Error('secret of a proxy')
  }
})

const oddities: Record<string, unknown> = {
  'an error': new Error('secret'),
  'a string': 'secret',
  'a number': 42,
  'a bigint': 42n,
  'a symbol': Symbol('secret'),
  true: true,
  'an object': { statusCode: 200, message: 'secret', headers: { secret: 'yes' } },
  'an object without a prototype': Object.create(null),
  'an error with a status code': Object.assign(new Error('secret'), { statusCode: 404, status: 201 }),
  'an error with an odd status code': Object.assign(new Error('secret'), { statusCode: 'secret' }),
  'an error with headers': Object.assign(new Error('secret'), { headers: { 'x-secret': 'secret' } }),
  'an error with the code of a property of every object': Object.assign(new Error('secret'), {
    code: 'constructor'
  }),
  'an error with a numeric code': Object.assign(new Error('secret'), { code: 7 }),
  'an error with validation': Object.assign(new Error('secret'), { validation: [{ message: 'secret' }] }),
  'an error whose code throws': throwing('code'),
  'an error whose message throws': throwing('message'),
  'an error whose stack throws': throwing('stack'),
  'an error whose cause throws': throwing('cause'),
  'an error whose name throws': throwing('name'),
  'an error whose status code throws': throwing('statusCode'),
  'an error without a constructor': Object.setPrototypeOf(
    new Error('secret'),
    Object.create(Error.prototype)
  ),
  'a frozen error': Object.freeze(new Error('secret')),
  'an error that is its own cause': cyclic,
  'an error of 10 MB': new Error('secret'.repeat(1_700_000)),
  'an AggregateError': new AggregateError([new Error('secret')], 'secret'),
  'a DOMException': new DOMException('secret'),
  'a proxy that throws at every look': untouchable
}

const internal = '{"error":500,"message":"internal error"}'

for (const [title, oddity] of Object.entries(oddities)) {
  t.test(`${title} that is thrown gets 500 and one line in the log`, async (t) => {
    thrown = oddity
    const paths = ['/throws', '/rejects', '/hook', '/on-send', '/done']
    if (isError(oddity)) paths.push('/sends')
    for (const path of paths) {
      const { log, ...response } = await get(path)
      t.strictSame(response, { status: 400, type: 'application/json', body: internal }, path)
      t.match(log, [{ level: 50, requestId: 'the-id', failure: 500, msg: 'internal error' }], path)
      t.equal(log.length, 1, path)
      t.ok(JSON.stringify(log).length < 50_000, path)
    }
  })
}

function isError(value: unknown): boolean {
  try {
    return value instanceof Error
  } catch {
    return false
  }
}

t.test('null and undefined that are thrown get 500', async (t) => {
  for (const nothing of [null, undefined]) {
    thrown = nothing
    for (const path of ['/throws', '/rejects']) {
      const { log, ...response } = await get(path)
      t.strictSame(response, { status: 400, type: 'application/json', body: internal }, path)
      t.match(log, [{ level: 50, failure: 500 }], path)
      t.equal(log.length, 1, path)
    }
  }
})

t.test('503 is logged as a warning, with its cause and without stacks', async (t) => {
  thrown = new Failure('Unavailable', {
    cause: new Error('no connection', {
      cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
    })
  })
  const { body, log } = await get('/throws')
  t.match(JSON.parse(body), { error: 503 })
  const [{ level, failure, err, cause }] = log
  t.strictSame([log.length, level, failure, err], [1, 40, 503, undefined])
  t.strictSame(cause, {
    type: 'Error',
    name: 'Error',
    message: 'no connection',
    cause: { type: 'Error', name: 'Error', code: 'ECONNREFUSED', message: 'refused' }
  })
})

t.test('an unexpected error is logged with the stack of where it was thrown', async (t) => {
  thrown = new Error('unforeseen')
  const { log } = await get('/throws')
  t.match(log, [{ level: 50, failure: 500, err: { name: 'Internal', cause: { message: 'unforeseen' } } }])
  t.match(log[0].err.cause.stack, /^Error: unforeseen\n +at .*error-handler\.test\.ts/)
})

for (const [name, entry] of Object.entries<Entry>(catalogue)) {
  t.test(`${name} has its name, and nothing of what is stored`, async (t) => {
    thrown = new Failure(name as FailureName)
    const response = await fetch(`${url}/throws`)
    t.equal(response.headers.get('error-name'), name)
    t.equal(response.headers.get('write-outcome'), null)
    t.equal(response.headers.get('retry-after'), entry.headers?.['retry-after'] ?? null)
    t.strictSame(await response.json(), { error: entry.error, message: formatMessage(entry, false) })
  })
}

t.test('a failure has no stack, and the errors after it have theirs', async (t) => {
  t.equal(new Failure('Overloaded').stack?.includes('\n'), false)
  t.match(new Error('next').stack, /\n +at /)
})

t.test('of an error of PostgreSQL the log has the code and the names, and nothing of a row', async (t) => {
  const quoting = {
    severity: 'ERROR',
    code: '23514',
    detail: 'secret',
    hint: 'secret',
    where: 'secret',
    internalQuery: 'secret',
    table: 'plants',
    constraint: 'short_names',
    routine: 'ExecConstraints'
  }
  const error = Object.assign(new Error('secret'), quoting)
  thrown = new Failure('Internal', { cause: Object.assign(new TypeError('outer'), { cause: error }) })
  const { log } = await get('/throws')
  t.strictSame(log[0].err.cause.cause, {
    type: 'Error',
    name: 'Error',
    code: '23514',
    severity: 'ERROR',
    table: 'plants',
    constraint: 'short_names',
    routine: 'ExecConstraints'
  })
  t.equal(log[0].err.cause.message, 'outer')
  t.notMatch(lines.join(''), /secret/)
})

t.test('the log of an error that cannot be read says so', async (t) => {
  thrown = throwing('stack')
  const { log } = await get('/throws')
  t.strictSame(log[0].err.cause, { type: 'an error that cannot be read' })
})

t.test('of a chain of causes the log has the first six', async (t) => {
  thrown = cyclic
  const { log } = await get('/throws')
  let levels = 0
  for (let err = log[0].err; err !== undefined; err = err.cause) levels++
  t.equal(levels, 6)
})

t.test("only an error's code makes it the client's", async (t) => {
  const coded = (code: string) => Object.assign(new Error('x'), { code })
  const cases: [thrown: unknown, name: string][] = [
    [coded('FST_ERR_CTP_INVALID_MEDIA_TYPE'), 'UnsupportedMediaType'],
    [coded('ECONNREFUSED'), 'Internal'],
    [{ code: 'FST_ERR_CTP_INVALID_MEDIA_TYPE' }, 'Internal'],
    [new Error('x'), 'Internal']
  ]
  for (const [thrown, name] of cases) {
    const failure = toFailure(thrown)
    t.equal(failure.name, name)
    t.equal(failure.cause, thrown)
  }
  t.match(toFailure(throwing('code')), { name: 'Internal', cause: Error })
})

t.test('a failure has the header fields of its entry and its own', async (t) => {
  const { headers } = new Failure('Overloaded', { headers: { allow: 'POST' } })
  t.strictSame(headers, { 'retry-after': '1', allow: 'POST' })
})
