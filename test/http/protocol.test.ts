/** Bytes on the wire: whatever they are, the response is the interface's. */
import { once } from 'node:events'
import t from 'tap'
import { connectTo, exchange, type Part, parseResponses, request } from '../../harness/http/raw.ts'
import { everyResponse, maskId, startService, token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'

const headersTimeoutMs = scaled(1_500)
const requestTimeoutMs = scaled(3_000)
const service = await startService(t)
/** For what does not arrive in time. */
const hurried = await startService(t, {
  DATABASE_URL: service.databaseUrl,
  HEADERS_TIMEOUT_MS: String(headersTimeoutMs),
  REQUEST_TIMEOUT_MS: String(requestTimeoutMs)
})

let lastId = 0
const plant = () => JSON.stringify({ id: ++lastId, name: 'n' })
/** The bytes of a create. */
const good = () => request(plant())
const created = '200 {"name":"n"}'
const failed = (error: number, message: string) => `400 ${JSON.stringify({ error, message })}`
const malformed = failed(400, 'the request is malformed')
const head = `host: test\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\n`
const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
const upgrade = { connection: 'upgrade', upgrade: 'websocket' }
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const repeated = (field: string) => failed(400, `the header field ${field} is repeated`)
const badHost = failed(400, 'the header field host is missing or malformed')
const noToken = failed(401, 'a bearer token is required')
const notJson = failed(400, 'the body is not valid JSON')
const noPath = failed(404, 'no such path')
const noMethod = failed(405, 'this path does not support this method')
const tooLarge = failed(431, 'the request line and header fields are too large')
const lineEnd = failed(400, 'the request line must end with the HTTP version and CRLF')
const version = failed(505, 'the protocol must be HTTP/1.1')
const mediaType = failed(415, 'the content type must be application/json')

/** In the words of the standard that is broken or kept; what is sent; what comes back. */
type Case = [title: string, parts: Part[], responses: string[]]
const sent = (title: string, bytes: string, response: string): Case => [title, [bytes], [response]]
/** A good request but for these header fields. */
const withHead = (title: string, head: Parameters<typeof request>[1], response: string) =>
  sent(title, request(plant(), head), response)
/** A good request but for its request line. */
const withLine = (title: string, line: string, response: string) =>
  sent(title, request(plant(), {}, line), response)

const cases: Case[] = [
  // RFC 9112, section 2: message format
  sent('2.2: empty lines before a request line are ignored', `\r\n\r\n${good()}`, created),
  sent('2.2: a line that begins with white space is not a request line', ` ${good()}`, malformed),
  withLine('2.2: bytes outside ASCII in the request line', 'POST /plants\xff\xfe HTTP/1.1', malformed),
  sent('2.2: TLS hello on the plain port', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', malformed),
  sent('2.2: a lone word', 'hello\r\n\r\n', malformed),
  sent('2.2: zero bytes', '\0\0\0\0\r\n\r\n', malformed),
  sent('2.3: HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', version),
  withLine('2.3: an unsupported version', 'POST /plants HTTP/2.0', version),
  withLine('2.3: an invalid version', 'POST /plants HTTP/x.y', version),
  sent('2.3: no version', 'POST /plants\r\n\r\n', version),
  sent('2.3: HTTP/1.0 without Host', request(plant(), { host: undefined }, 'POST /plants HTTP/1.0'), created),
  [
    '2.3: the method of the HTTP/2 preface without a version, after a good request',
    [`${good()}PRI /plants\r\n\r\n`],
    [created, version]
  ],
  [
    '6.1: nothing after a Transfer-Encoding in HTTP/1.0 can be trusted',
    [
      request('', { ...chunked, connection: 'keep-alive' }, 'POST /plants HTTP/1.0'),
      `${chunk(plant())}0\r\n\r\n${good()}`
    ],
    [failed(400, 'HTTP/1.0 does not define Transfer-Encoding')]
  ],
  sent('2.3: an unsupported version, at an unknown path', request('', {}, 'POST /nope HTTP/2.0'), version),
  [
    '3.2: no Host, at an unknown path and at one that cannot be decoded',
    [
      request('', { host: undefined }, 'POST /nope HTTP/1.1') +
        request('', { host: undefined }, 'POST /%zz HTTP/1.1')
    ],
    [badHost, badHost]
  ],
  // RFC 9112, section 3: request line
  withLine('3: two blanks between method and target', 'POST  /plants HTTP/1.1', created),
  withLine('3.1: a method that nobody knows', 'PLANT /plants HTTP/1.1', malformed),
  withLine('3.1: methods are case-sensitive', 'post /plants HTTP/1.1', malformed),
  withLine('3.2: no target', 'POST HTTP/1.1', malformed),
  withHead('3.2: no Host', { host: undefined }, badHost),
  withHead('3.2: two Hosts', { Host: 'other' }, repeated('host')),
  withHead('3.2: an invalid Host', { host: 'a b' }, badHost),
  withHead('3.2: a Host with user information', { host: 'u@h' }, badHost),
  withHead('3.2: an empty Host', { host: '' }, created),
  withHead('3.2: an IPv6 Host', { host: '[::1]:3000' }, created),
  withLine('3.2.1: a query', 'POST /plants?a=b HTTP/1.1', created),
  withLine('3.2.2: the absolute form', 'POST http://test/plants HTTP/1.1', created),
  sent('3.2.2: the absolute form, unknown path', request('', {}, 'POST HTTP://test/plant HTTP/1.1'), noPath),
  sent('3.2.3: CONNECT', 'CONNECT test:80 HTTP/1.1\r\nhost: test:80\r\n\r\n', noMethod),
  [
    '3.2.3: CONNECT after a good request',
    [`${good()}CONNECT test:80 HTTP/1.1\r\nhost: test:80\r\n\r\n`],
    [created, noMethod]
  ],
  sent('3.2.4: OPTIONS *', request('', {}, 'OPTIONS * HTTP/1.1'), noPath),
  withLine('RFC 3986 2.1: broken percent-encoding', 'POST /%zz HTTP/1.1', malformed),
  withLine('RFC 3986 2.1: percent-encoding cut off', 'POST /plants% HTTP/1.1', malformed),
  withLine('RFC 3986 2.1: percent-encoding that is not UTF-8', 'POST /%ff HTTP/1.1', malformed),
  withLine('RFC 3986 6.2.2: an encoded letter is the letter', 'POST /%70lants HTTP/1.1', created),
  // RFC 9112, section 5: fields
  withHead('5: a field without a colon', { 'x\r\ny': 'z' }, malformed),
  withHead('5.1: white space before the colon', { 'x ': 'y' }, malformed),
  withHead('5.1: an empty field name', { '': 'y' }, malformed),
  withHead('5.2: obs-fold', { x: 'a\r\n b' }, malformed),
  withHead('5.5: a control character in a value', { x: 'a\x01b' }, malformed),
  withHead('5.5: U+0000 in a value', { x: 'a\0b' }, malformed),
  withHead('5.5: bytes outside ASCII in a value', { x: '\xe4\xff' }, created),
  sent('2.2: a bare line feed ends the request line', good().replace('HTTP/1.1\r\n', 'HTTP/1.1\n'), lineEnd),
  withLine('2.3: a version of three digits', 'POST /plants HTTP/1.11', lineEnd),
  sent(
    '2.2: a bare line feed ends a field line',
    good().replace('host: test\r\n', 'host: test\n'),
    malformed
  ),
  withHead('RFC 9110 5.3: two Authorizations', { Authorization: 'Bearer other' }, repeated('authorization')),
  withHead(
    'RFC 9110 5.3: two Idempotency-Keys that make one',
    { 'idempotency-key': '"a', 'Idempotency-Key': 'b"' },
    repeated('idempotency-key')
  ),
  sent('2.3: RTSP has methods of its own', request('', {}, 'DESCRIBE /plants RTSP/1.0'), noMethod),
  sent(
    'RFC 9110 4.2.1: the absolute form without a host',
    request('', {}, 'POST http:///plants HTTP/1.1'),
    malformed
  ),
  withHead('RFC 9110 5.3: two Content-Types', { 'Content-Type': 'text/plain' }, repeated('content-type')),
  withHead('RFC 6585 5: a field of 20 kB', { x: 'a'.repeat(20_000) }, tooLarge),
  sent(
    'RFC 6585 5: a target of 20 kB',
    request(plant(), {}, `POST /${'a'.repeat(20_000)} HTTP/1.1`),
    tooLarge
  ),
  sent(
    'RFC 6585 5: 20,000 fields',
    `POST /plants HTTP/1.1\r\n${'x:\r\n'.repeat(20_000)}${head}\r\n`,
    tooLarge
  ),
  sent(
    'RFC 6585 5: 100 fields, the token among them',
    `POST /plants HTTP/1.1\r\n${'x:\r\n'.repeat(96)}${good().slice(23)}`,
    created
  ),
  sent(
    'RFC 6585 5: 101 fields, the token the last of them',
    `POST /plants HTTP/1.1\r\n${'x:\r\n'.repeat(97)}${good().slice(23)}`,
    '400 {"error":431,"message":"the request has more than 100 header fields"}'
  ),
  sent(
    'RFC 6585 5: 2,500 fields before the token',
    `POST /plants HTTP/1.1\r\n${'x:\r\n'.repeat(2_500)}${good().slice(23)}`,
    tooLarge
  ),
  // RFC 9112, sections 6 and 7: bodies
  ['6.1: chunks', [request('', chunked), chunk('{"id":9000,'), chunk('"name":"n"}'), '0\r\n\r\n'], [created]],
  [
    '7.1.1: a chunk extension',
    [request('', chunked), `d;a=b\r\n{"id":9001,"na\r\n${chunk('me":"n"}')}0\r\n\r\n`],
    [malformed]
  ],
  [
    '7.1.2: a trailer',
    [request('', chunked), chunk('{"id":9002,"name":"n"}'), '0\r\nx: y\r\n\r\n'],
    [created]
  ],
  ['7.1: an invalid chunk size', [request('', chunked), 'xyz\r\n'], [malformed]],
  ['7.1: a chunk longer than its size', [request('', chunked), '1\r\nabc\r\n'], [malformed]],
  ['7.1: a chunk size beyond 64 bits', [request('', chunked), 'fffffffffffffffff\r\n'], [malformed]],
  sent('6.1: a chunk fault in the same packet as the header', `${request('', chunked)}xyz\r\n`, malformed),
  withHead('6.1: Transfer-Encoding and Content-Length', { 'transfer-encoding': 'chunked' }, malformed),
  [
    '6.1: a transfer coding besides chunked',
    [request('', { ...chunked, 'transfer-encoding': 'gzip, chunked' }), '0\r\n\r\n'],
    [failed(501, 'the only supported transfer coding is chunked')]
  ],
  [
    '6.1: chunked is not last',
    [request('', { ...chunked, 'transfer-encoding': 'chunked, gzip' }), '0\r\n\r\n'],
    [malformed]
  ],
  withHead('6.2: a negative length', { 'content-length': '-1' }, malformed),
  withHead('6.2: an invalid length', { 'content-length': '1e1' }, malformed),
  withHead('6.2: two lengths', { 'Content-Length': '7' }, malformed),
  withHead('6.2: a length list', { 'content-length': '25, 25' }, malformed),
  withHead('6.2: a length beyond 64 bits', { 'content-length': '99999999999999999999' }, malformed),
  sent('6.3: no body', request('', { 'content-length': undefined }), failed(400, 'a body is required')),
  sent('6.3: an empty body', request(''), failed(400, 'a body is required')),
  ['6.3: an empty body in chunks', [request('', chunked), '0\r\n\r\n'], [notJson]],
  ['6.3: bytes beyond the length are the next request', [`${good()}garbage\r\n\r\n`], [created, malformed]],
  withHead(
    'RFC 9110 8.4: a content coding',
    { 'content-encoding': 'gzip' },
    failed(415, 'the content encoding is not supported')
  ),
  withHead('RFC 9110 8.4: identity', { 'content-encoding': 'Identity' }, created),
  withHead('RFC 9110 8.3: no type', { 'content-type': undefined }, mediaType),
  withHead(
    'RFC 8259 8.1: a charset besides UTF-8',
    { 'content-type': 'application/json;charset=latin1' },
    failed(415, 'the charset must be UTF-8')
  ),
  withHead(
    'RFC 9110 8.3.2: a quoted charset in capitals',
    { 'content-type': 'application/json; Charset="UTF-8"' },
    created
  ),
  // RFC 9110: methods and expectations
  sent('9.3.7: OPTIONS', request('', { 'content-length': undefined }, 'OPTIONS /plants HTTP/1.1'), noMethod),
  sent('9.1: a method of WebDAV', request('', {}, 'PROPFIND /plants HTTP/1.1'), noMethod),
  withLine('9.1: QUERY with a body', 'QUERY /plants HTTP/1.1', noMethod),
  withHead(
    '10.1.1: another expectation',
    { expect: 'miracles' },
    failed(417, 'the only supported expectation is 100-continue')
  ),
  ['10.1.1: 100-continue', [request(plant(), { expect: '100-Continue' })], ['100 ', created]],
  [
    '10.1.1: 100-continue after requests that wait for their responses, the body still to come',
    [good() + request('', { expect: '100-continue', 'content-length': '24' }), /100 Continue/, '{"id":9003,'],
    [created, '100 ', malformed]
  ],
  [
    '10.1.1: 100-continue after a request that waits, the body cut off',
    [good() + request('{', { expect: '100-continue', 'content-length': '9' })],
    [created, malformed]
  ],
  sent(
    '10.1.1: 100-continue in HTTP/1.0 is ignored',
    request(plant(), { expect: '100-continue' }, 'POST /plants HTTP/1.0'),
    created
  ),
  [
    '10.1.1: 100-continue with its body, after a request and before one: there is nothing to wait for',
    [good() + request(plant(), { expect: '100-continue' }) + good()],
    [created, created, created]
  ],
  [
    '10.1.1: 100-continue refused without its body, and then a request',
    [request('', { expect: '100-continue', authorization: undefined, 'content-length': '5' }), good()],
    [noToken]
  ],
  [
    '10.1.1: 100-continue refused after a request that waits, and a request that breaks off',
    [
      good() +
        request('1', { expect: '100-continue', authorization: undefined }) +
        request('1', { 'content-length': '9' })
    ],
    [created, noToken]
  ],
  sent(
    '10.1.1: 100-continue and no good token',
    request('', { expect: '100-continue', 'content-length': '5', authorization: undefined }),
    noToken
  ),
  sent(
    '10.1.1: 100-continue and another type',
    request('', { expect: '100-continue', 'content-length': '5', 'content-type': 'a/b' }),
    mediaType
  ),
  sent(
    '10.1.1: 100-continue and too long a body',
    request('', { expect: '100-continue', 'content-length': '1048577' }),
    failed(413, 'the body is too large')
  ),
  withHead('7.8: an upgrade that is not wanted', upgrade, created),
  withHead(
    '7.8: an upgrade to HTTP/2',
    { connection: 'upgrade, http2-settings', upgrade: 'h2c', 'http2-settings': '' },
    created
  ),
  // RFC 9112, section 9: connections
  ['9.3: three requests at once', [good() + good() + good()], [created, created, created]],
  ['9.3: good, bad, good', [good() + request('{') + good()], [created, notJson, created]],
  ['9.3: good, good, garbage', [`${good()}${good()}\x01\x02\r\n\r\n`], [created, created, malformed]],
  [
    '9.3: good, then half a body that breaks off in a bad chunk',
    [good() + request('', chunked), 'zz\r\n'],
    [created, malformed]
  ],
  sent(
    '9.6: nothing after a request that closes',
    request(plant(), { connection: 'close' }) + good(),
    created
  ),
  sent(
    '8: a request is cut off by half-closing in its header',
    'POST /plants HTTP/1.1\r\nhost: te',
    malformed
  ),
  sent(
    '8: a request is cut off by half-closing in its body',
    request('{"id":1', { 'content-length': '100' }),
    malformed
  ),
  [
    '8: a request to upgrade is cut off by half-closing in its body',
    [good() + request('{"id":1', { ...upgrade, 'content-length': '100' })],
    [created, malformed]
  ],
  [
    '8: a request to upgrade is cut off by half-closing in a chunk',
    [request('', { ...upgrade, ...chunked }), '9\r\n{"id'],
    [malformed]
  ],
  sent('9.6: half-closing after a whole request', good(), created)
]

for (const [title, parts, expected] of cases) {
  t.test(title, async (t) => {
    const responses = parseResponses(await exchange(service.url, parts, { halfClose: true }))
    const found = responses.map(({ status, body }) => `${status} ${body}`)
    t.strictSame(found, expected)
    for (const { status, headers } of responses) {
      if (status === 100) continue
      t.has(maskId(headers), everyResponse)
      t.match(headers.date, /GMT$/)
    }
  })
}

t.test('6.1: after a transfer coding whose name ends like chunked nothing is read', async (t) => {
  const head = request('', { ...chunked, 'transfer-encoding': 'xchunked' })
  const responses = parseResponses(await exchange(service.url, [head + request(plant())]))
  t.strictSame(
    responses.map(({ headers, body }) => [headers.connection, body]),
    [['close', '{"error":501,"message":"the only supported transfer coding is chunked"}']]
  )
})

t.test('405 says what is allowed, on a raw socket too', async (t) => {
  for (const start of ['GET /plants HTTP/1.1', 'HEAD /plants HTTP/1.1', 'CONNECT a:1 HTTP/1.1']) {
    const bytes = await exchange(service.url, [request('', {}, start)], { halfClose: true })
    const responses = parseResponses(bytes, { isHead: start.startsWith('HEAD') })
    for (const response of responses) response.headers = maskId(response.headers)
    t.match(responses, [{ status: 400, headers: { allow: 'POST', ...everyResponse } }], start)
    t.equal(responses.length, 1)
  }
})

t.test('a header that does not arrive in time gets 408', async (t) => {
  const started = performance.now()
  const responses = parseResponses(await exchange(hurried.url, ['POST /plants HTTP/1.1\r\nhost: test\r\n']))
  const { date, ...headers } = responses[0]?.headers ?? {}
  const body = '{"error":408,"message":"the request took too long to arrive; send it again"}'
  t.strictSame(maskId(headers), {
    ...everyResponse,
    'error-name': 'RequestTimeout',
    'content-length': String(body.length),
    connection: 'close'
  })
  t.equal(responses[0]?.body, body)
  t.ok(performance.now() - started < headersTimeoutMs + scaled(18_000))
})

t.test('a body that does not arrive in time gets 408', async (t) => {
  const started = performance.now()
  const start = request('{"id":', { 'content-length': '100' })
  const isRead = () =>
    [...hurried.app.connections.bySocket.keys()].some(({ bytesRead }) => bytesRead === start.length)
  const parts = [start, () => until('the first part is read', isRead), '5,']
  const responses = parseResponses(await exchange(hurried.url, parts))
  t.strictSame(
    responses.map(({ status, headers, body }) => [status, headers.connection, body]),
    [[400, 'close', '{"error":408,"message":"the request took too long to arrive; send it again"}']]
  )
  t.ok(performance.now() - started < requestTimeoutMs + scaled(17_000))
})

t.test('a slow body after a response is cut off without a second one', async (t) => {
  const parts = [request('', { 'content-length': '100', authorization: undefined })]
  const responses = parseResponses(await exchange(hurried.url, parts))
  const bodies = responses.map(({ body }) => body)
  t.strictSame(bodies, ['{"error":401,"message":"a bearer token is required"}'])
})

t.test('a client that never speaks gets no response', async (t) => {
  t.strictSame(await exchange(hurried.url, []), Buffer.alloc(0))
})

t.test('a large body that is refused unread does not cost the response', async (t) => {
  const megabyte = Buffer.alloc(1_048_576, 'x')
  const length = String(32 * megabyte.length)
  const body = Array.from({ length: 32 }, () => megabyte)
  const refusals: [Record<string, string | undefined>, number][] = [
    [{}, 413],
    [{ authorization: undefined }, 401],
    [{ 'content-type': 'text/plain' }, 415],
    [{ connection: 'close' }, 413],
    [{ 'x y': 'malformed' }, 400]
  ]
  for (const [fields, error] of refusals) {
    const parts = [request('', { 'content-length': length, ...fields }), ...body]
    const responses = parseResponses(await exchange(service.url, parts, { halfClose: true }))
    const errors = responses.map(({ body }) => JSON.parse(body).error)
    t.strictSame(errors, [error])
  }
  const endless = [request('', chunked), ...body.flatMap((part) => ['100000\r\n', part, '\r\n']), '0\r\n\r\n']
  const responses = parseResponses(await exchange(service.url, endless, { halfClose: true }))
  const errors = responses.map(({ body }) => JSON.parse(body).error)
  t.strictSame(errors, [413])
})

t.test('a client that keeps a refused connection open is cut off, sooner when it is quiet', async (t) => {
  // A machine that stands still for a second makes a client quiet, or the service late: then once more.
  const [quiet, busy] = await until(
    'the one is cut off after a second, the other after the time of a request',
    async () => [await cutAfter(), await cutAfter(100)] as const,
    ([quiet, busy]) =>
      isBetween(quiet, 900, scaled(2_500)) && isBetween(busy, requestTimeoutMs - 100, 2 * requestTimeoutMs)
  )
  t.ok(quiet < busy, `after ${quiet} and ${busy} ms`)
})

const isBetween = (ms: number, least: number, most: number) => ms > least && ms < most

/** Returns how long a refused connection is kept, in ms, whose client sends a byte every so often, or nothing more. */
async function cutAfter(everyMs?: number): Promise<number> {
  const socket = connectTo(hurried.url, { allowHalfOpen: true })
  socket.on('error', () => {}).resume()
  const [served] = await once(hurried.app.server, 'connection')
  const cut = once(served, 'close')
  socket.write('garbage\r\n\r\n')
  await once(socket, 'end')
  const started = performance.now()
  const timer = everyMs && setInterval(() => socket.write('x'), everyMs)
  await cut
  clearInterval(timer)
  socket.destroy()
  return performance.now() - started
}

t.test('a kept connection outlives the ten minutes after which balancers end theirs', async (t) => {
  const [response] = parseResponses(
    await exchange(service.url, [request(plant()), request(plant(), { connection: 'close' })])
  )
  t.strictSame([response?.headers.connection, response?.headers['keep-alive']], ['keep-alive', 'timeout=620'])
})

t.test('a connection is used again after a refused request', async (t) => {
  const parts = [request('x'.repeat(100), { authorization: undefined }) + request(plant())]
  const responses = parseResponses(await exchange(service.url, parts, { halfClose: true }))
  const statuses = responses.map(({ status }) => status)
  t.strictSame(statuses, [400, 200])
})

t.test('many small chunks of a refused body end its connection, few do not', async (t) => {
  const start = request('', { ...chunked, authorization: undefined })
  // After the response, they are parsed in pieces, which may end in a chunk and so make two of it.
  for (const [small, when, expected] of [
    [1_000, 'before', [noToken, created]],
    [1_001, 'before', [noToken]],
    [900, 'after', [noToken, created]],
    [1_100, 'after', [noToken]]
  ] as const) {
    const chunks = chunk(' ').repeat(small)
    const rest = `${chunk(' '.repeat(512))}0\r\n\r\n${request(plant())}`
    const [before, after] = when === 'before' ? [chunks, ''] : ['', chunks]
    const parts = [start + before, /required"\}$/, after + rest]
    const responses = parseResponses(await exchange(service.url, parts, { halfClose: true }))
    const found = responses.map(({ status, body }) => `${status} ${body}`)
    t.strictSame(found, expected, `${small} chunks ${when} the response`)
  }
})

t.test('a client of HTTP/1.0 learns from each response whether its connection closes', async (t) => {
  const start = 'POST /plants HTTP/1.0'
  for (const [body, fields] of [['{'], ['{', { authorization: undefined }], [plant()]] as const) {
    const kept = request(body, { connection: 'keep-alive', ...fields }, start)
    // Without a half-close: the connection ends after the second response because the server says so.
    const responses = parseResponses(
      await exchange(service.url, [kept, /\r\n\r\n\{.*\}$/, request(plant(), {}, start)])
    )
    t.strictSame(
      responses.map(({ status, headers }) => [status, headers.connection]),
      [
        [body === '{' ? 400 : 200, 'keep-alive'],
        [200, 'close']
      ],
      body
    )
  }
})

t.test('after all that the service still serves, and logged no internal error', async (t) => {
  const [response] = parseResponses(await exchange(service.url, [request(plant())], { halfClose: true }))
  t.equal(response?.status, 200)
  const faults = service.log().filter(({ level }) => level >= 40)
  t.strictSame(faults, [])
})
