/** The cases of the contract on a socket: a row says what is sent, and the whole response to it. Add one to the table of its subject. */
import { about } from '../support/plants.ts'
import { type FailureName, failure, type Reply, replay, success } from '../support/responses.ts'
import { type Part, request } from '../support/sockets.ts'

// What comes back: a success, or a failure with the catalogue's message or a more exact one.
export const created = success({ name: 'n' })
const continued: Reply = { status: 100, headers: { 'x-request-id': 'missing' }, body: '' }
const exact = (name: FailureName) => (message: string) => failure(name, { message })
const malformed = failure('MalformedRequest')
const malformedBy = exact('MalformedRequest')
const badHost = malformedBy('the header field host is missing or malformed')
const badLine = malformedBy('the request line must end with the HTTP version and CRLF')
const repeated = (field: string) => malformedBy(`the header field ${field} is repeated`)
const version = failure('VersionNotSupported')
const noPath = failure('NotFound')
const noMethod = failure('MethodNotAllowed')
const noToken = failure('MissingToken')
const tooLarge = failure('HeadersTooLarge')
const coding = failure('TransferCodingNotSupported')
const mediaType = failure('UnsupportedMediaType')
const unsupported = exact('UnsupportedMediaType')
const charset = unsupported('the charset must be UTF-8')
const longBody = failure('BodyTooLarge')
const notJson = failure('MalformedBody')
const badBody = exact('MalformedBody')
const noBody = badBody('a body is required')
const notUtf8 = badBody('the body is not valid UTF-8')
const invalid = exact('InvalidPlant')
const badKey = failure('MalformedKey')
const late = failure('RequestTimeout')

// What is sent.
type Head = Parameters<typeof request>[1]
let lastId = 0
export const plant = () => `{"id":${++lastId},"name":"n"}`
/** The bytes of a create that succeeds. */
export const good = () => request(plant())
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
/** The header of a create whose body is sent in chunks, or has nine bytes. */
const chunkedHead = request('', chunked)
const headOf = (head: Head, line?: string) => request('', { 'content-length': '9', ...head }, line)
const noAuthorization = { authorization: undefined }
export const upgrade = { connection: 'upgrade', upgrade: 'websocket' }
const utf8 = (text: string) => Buffer.from(text).toString('latin1')
/** A wait until this many responses have come. */
export const come = (count: number) =>
  new RegExp(`^(HTTP/1\\.1 [^]*?\\r\\n\\r\\n\\{[^]*?\\}){${count}}$`)
/** Sends each request when the one before has its response. */
const inTurn = (...requests: string[]) =>
  requests.flatMap((bytes, index) => [bytes, come(index + 1)])

/** A title, what is sent, and each response to it. */
export type Case = [title: string, parts: Part[], ...expected: Reply[]]
/** A good create but for its request line, for header fields, or for its body. */
const withLine = (line: string, expected: Reply): Case => [
  line,
  [request(plant(), {}, line)],
  expected
]
const withHead = (head: Head, expected: Reply): Case => [
  JSON.stringify(head, (_, value) => value ?? 'none'),
  [request(plant(), head)],
  expected
]
const withBody = (title: string, body: string, expected: Reply): Case => [
  title,
  [request(body)],
  expected
]

const goodTargets = [' /plants', '/plants?a=b', '/plants?a=%zz', '/%70lants', 'http://test/plants']
const badLines = ['POST HTTP/1.1', 'PLANT /plants HTTP/1.1', 'post /plants HTTP/1.1']
const badTargets = ['/plants\xff\xfe', '/%zz', '/plants%', '/%ff', 'http:///plants']

const requestLines: Case[] = [
  ['empty lines before a request line', [`\r\n\r\n${good()}`], created],
  ['a blank before a request line', [` ${good()}`], malformed],
  ['a lone word', ['hello\r\n\r\n'], malformed],
  ['zero bytes', ['\0\0\0\0\r\n\r\n'], malformed],
  ['TLS', ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'], malformed],
  ['a bare line feed', [good().replace('HTTP/1.1\r\n', 'HTTP/1.1\n')], badLine],
  ...goodTargets.map((target) => withLine(`POST ${target} HTTP/1.1`, created)),
  ...badLines.map((line) => withLine(line, malformed)),
  ...badTargets.map((target) => withLine(`POST ${target} HTTP/1.1`, malformed)),
  withLine('POST /plants HTTP/1.11', badLine),
  withLine('POST /plants HTTP/2.0', version),
  withLine('POST /nope HTTP/x.y', version),
  ['no version', ['POST /plants\r\n\r\n'], version],
  ['the preface of HTTP/2', ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'], version],
  [
    'PRI without a version, behind a good request',
    [`${good()}PRI /plants\r\n\r\n`],
    created,
    version
  ],
  ['RTSP', [request('', {}, 'DESCRIBE /plants RTSP/1.0')], noMethod],
  withLine('POST /plants HTTP/1.0', created),
  [
    'HTTP/1.0 without Host',
    [request(plant(), { host: undefined }, 'POST /plants HTTP/1.0')],
    created
  ],
  withLine('POST HTTP://test/plant HTTP/1.1', noPath),
  withLine(`POST /${'a'.repeat(20_000)} HTTP/1.1`, tooLarge)
]

const manyFields = exact('HeadersTooLarge')('the request has more than 100 header fields')
const [line = '', ...behindLine] = good().split(/(?<=\r\n)/)
const withFields = (count: number, expected: Reply): Case => [
  `${count} fields before those of a good request`,
  [[line, 'x:\r\n'.repeat(count), ...behindLine].join('')],
  expected
]
const echoed = { ...created, headers: { ...created.headers, 'x-request-id': 'A-z_0.9' } }

const headerFields: Case[] = [
  ...[undefined, 'a b', 'u@h', 'a:8o', '::1'].map((host) => withHead({ host }, badHost)),
  withHead({ host: '[::1]:3000' }, created),
  withHead({ host: '' }, created),
  ['no Host at a path of no text', [request('', { host: undefined }, 'GET /%z HTTP/1.1')], badHost],
  withHead({ Host: 'other' }, repeated('host')),
  withHead({ Authorization: 'Bearer other' }, repeated('authorization')),
  withHead({ 'Content-Type': 'text/plain' }, repeated('content-type')),
  withHead({ 'idempotency-key': '"a', 'Idempotency-Key': 'b"' }, repeated('idempotency-key')),
  withHead({ accept: 'a/b', Accept: 'c/d' }, created),
  withHead({ 'x\r\ny': 'no colon' }, malformed),
  withHead({ 'x ': 'a blank before the colon' }, malformed),
  withHead({ '': 'no name' }, malformed),
  ...['a\x01b', 'a\0b', 'folded\r\n b'].map((x) => withHead({ x }, malformed)),
  withHead({ x: '\xe4\xff' }, created),
  ['a bare line feed ends a field', [good().replace('host: test\r\n', 'host: test\n')], malformed],
  withHead({ x: 'a'.repeat(20_000) }, tooLarge),
  withFields(96, created),
  withFields(97, manyFields),
  withFields(2_500, tooLarge),
  withFields(20_000, tooLarge),
  withHead({ 'x-request-id': 'A-z_0.9' }, echoed),
  ...['a b', 'a'.repeat(129)].map((id) => withHead({ 'x-request-id': id }, created)),
  withHead(upgrade, created),
  withHead(
    { connection: 'upgrade, http2-settings', upgrade: 'h2c', 'http2-settings': '' },
    created
  ),
  withHead({ expect: 'miracles' }, failure('ExpectationFailed'))
]

const bare = (line: string) =>
  request('', { 'content-length': undefined, 'content-type': undefined, ...noAuthorization }, line)
const otherMethods = ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY']
const connect = 'CONNECT test:80 HTTP/1.1\r\nhost: test:80\r\n\r\n'

/** A failure below /docs, where the page's policy of content holds. */
const ofPage = (reply: Reply): Reply => ({
  ...reply,
  headers: {
    ...reply.headers,
    'content-security-policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  }
})
const page = (head: Head, path = 'index.css', method = 'GET') =>
  request('', { 'content-length': undefined, ...head }, `${method} /docs/static/${path} HTTP/1.1`)
const old = 'Thu, 01 Jan 1970 00:00:00 GMT'
/** What a file of the page, which is as HTTP has it, cannot fulfil. */
const badConditions: Head[] = [
  { 'if-match': '"x"' },
  { 'if-match': '"x", W/"y"', 'if-none-match': '*' },
  { 'if-unmodified-since': old },
  { range: 'bytes=99999999-' }
]
/** Paths that no file of the page can have, or that could lead out of them; not all can be decoded. */
const badFiles = [
  '%2e%2e/package.json',
  '../package.json',
  'a/../index.css',
  './index.css',
  '/index.css',
  '..%5cindex.css',
  '%2e',
  '%00',
  'index.css%00.js',
  'a'.repeat(300),
  'a/'.repeat(5_000)
]
const noFiles = [
  'nothing.js',
  'index.css/x',
  '%2findex.css',
  '%25',
  '%2500',
  '%23',
  '%c3%a4',
  '*',
  '.git'
]
const routes: Case[] = [
  ...otherMethods.map((name): Case => [name, [bare(`${name} /plants HTTP/1.1`)], noMethod]),
  ['HEAD', [bare('HEAD /plants HTTP/1.1')], { ...noMethod, body: '' }],
  ['OPTIONS *', [bare('OPTIONS * HTTP/1.1')], noPath],
  ['CONNECT', [connect], noMethod],
  ['CONNECT behind a good request', [good() + connect], created, noMethod],
  ['a path above', [bare('GET /v1 HTTP/1.1')], noPath],
  ...badConditions.map((head): Case => [JSON.stringify(head), [page(head)], ofPage(malformed)]),
  [
    'HEAD of a file',
    [page({ 'if-match': '"x"' }, 'index.css', 'HEAD')],
    ofPage({ ...malformed, body: '' })
  ],
  ['POST to a file', [page({}, 'index.css', 'POST')], noPath],
  ...[...badFiles, ...noFiles].map(
    (path): Case => [`/docs/static/${path}`, [page({}, path)], ofPage(noPath)]
  ),
  ['the path of a file that is no text', [page({}, '%e4')], malformed],
  ...['/plan', '/plants/1', '/plants/', '/Plants'].map((path) =>
    withLine(`POST ${path} HTTP/1.1`, noPath)
  )
]

const gzip = { ...chunked, 'transfer-encoding': 'gzip, chunked' }
export const coded = (value: string) => request('', { ...chunked, 'transfer-encoding': value })
const oldCoding = malformedBy('HTTP/1.0 does not define Transfer-Encoding')
export const oldChunked = request(
  '',
  { ...chunked, connection: 'keep-alive' },
  'POST /plants HTTP/1.0'
)
const badLengths = ['-1', '1e1', '25, 25', '9'.repeat(20)]
const goodTypes = ['; charset=utf-8', ';a=b ; Charset="UTF-8"', '; a=";charset=latin1"']
const badCharsets = [';charset=latin1', '; charset=utf-8x', '; a="b";charset=utf-16']
const otherTypes = [
  undefined,
  'application/json5',
  'application/vnd.api+json',
  'text/plain',
  'nonsense'
]
const withType = (type: string | undefined, expected: Reply) =>
  withHead({ 'content-type': type }, expected)

const bodies: Case[] = [
  ['chunks', [chunkedHead, chunk('{"id":70000,"na'), chunk('me":"n"}'), '0\r\n\r\n'], created],
  ['a trailer', [chunkedHead, chunk(plant()), '0\r\nx: y\r\n\r\n'], created],
  [
    'a chunk extension',
    [chunkedHead, chunk(plant()).replace('\r', ';a=b\r'), '0\r\n\r\n'],
    created
  ],
  ['a bad chunk size', [chunkedHead, 'xyz\r\n'], malformed],
  ['a bad chunk size in the packet of its header', [`${chunkedHead}xyz\r\n`], malformed],
  ['a chunk longer than its size', [chunkedHead, '1\r\nabc\r\n'], malformed],
  ['a chunk size beyond 64 bits', [chunkedHead, 'fffffffffffffffff\r\n'], malformed],
  ['an empty body in chunks', [chunkedHead, '0\r\n\r\n'], notJson],
  withHead({ 'transfer-encoding': 'chunked' }, malformed),
  ['gzip, chunked', [`${coded('gzip, chunked')}0\r\n\r\n`], coding],
  ['chunked, gzip', [`${coded('chunked, gzip')}0\r\n\r\n`], malformed],
  ['xchunked: nothing behind it is read', [coded('xchunked') + good()], coding],
  [
    'chunked in HTTP/1.0: nothing behind it is read',
    [oldChunked, `${chunk('{}')}0\r\n\r\n${good()}`],
    oldCoding
  ],
  ...badLengths.map((length) => withHead({ 'content-length': length }, malformed)),
  withHead({ 'Content-Length': '7' }, malformed),
  ['no body', [request('', { 'content-length': undefined })], noBody],
  ['an empty body', [request('')], noBody],
  [
    'bytes beyond the length are the next request',
    [`${good()}garbage\r\n\r\n`],
    created,
    malformed
  ],
  ...goodTypes.map((end) => withType(`Application/JSON${end}`, created)),
  ...badCharsets.map((end) => withType(`application/json${end}`, charset)),
  ...otherTypes.map((type) => withType(type, mediaType)),
  withHead({ 'content-encoding': 'gzip' }, unsupported('the content encoding is not supported')),
  withHead({ 'content-encoding': 'Identity' }, created),
  withBody('1 MiB', plant().padEnd(2 ** 20), created),
  withBody('1 MiB and a byte', plant().padEnd(2 ** 20 + 1), longBody),
  [
    '1 MiB and a byte in chunks',
    [chunkedHead, chunk('{"id":1}'.padEnd(2 ** 20 + 1)), '0\r\n\r\n'],
    longBody
  ]
]

const noJson = [
  '{',
  ' ',
  '{"id":1,}',
  "{'id':1}",
  '{"id":01,"name":"n"}',
  '{"id":NaN}',
  '"\n"',
  '{}{}'
]
const noObject = ['null', '1', '"text"', '[]', '[{"id":1,"name":"n"}]', 'true']
const nested = `${'['.repeat(1_900)}${']'.repeat(1_900)}`
/** A good plant with this number of values: itself, its members, and the elements of the last one. */
const valuesOf = (count: number) => plant().replace('}', `,"x":[${Array(count - 4).fill(1)}]}`)
const manyValues = badBody('the body has more than 2000 values')
const commas = ','.repeat(2_001)

const json: Case[] = [
  ...noJson.map((text) => withBody(text, text, notJson)),
  ...noObject.map((text) => withBody(text, text, invalid('the body must be a JSON object'))),
  withBody('a byte order mark', utf8('\ufeff{"id":1,"name":"n"}'), notJson),
  withBody('a byte that is not UTF-8', '{"id":1,"name":"\xff"}', notUtf8),
  withBody('a surrogate in UTF-8', '{"id":1,"name":"\xed\xa0\x80"}', notUtf8),
  withBody('2,000 values', valuesOf(2_000), created),
  withBody('2,001 values', valuesOf(2_001), manyValues),
  // What is in a text is no value, and the text ends at a quote that is not escaped.
  withBody(
    '2,001 commas in a text, behind a quote',
    plant().replace('}', `,"x":"\\"${commas}"}`),
    created
  ),
  withBody(
    '2,001 values behind a text that ends with \\',
    `["\\\\",${Array(2_000).fill(1)}]`,
    manyValues
  ),
  withBody('1,900 arrays in one another', plant().replace('}', `,"x":${nested}}`), created)
]

const idRule = 'id must be an integer from -9223372036854775808 to 9223372036854775807'
const noInt64 = [
  '9223372036854775808',
  '-9223372036854775809',
  '1e400',
  '1.5',
  '1e-1',
  '9007199254740992.5'
]
const noId = ['"5"', 'null', 'true', '[1]', '{}', ...noInt64]
const ids = [
  '-1.0',
  '-2e3',
  '-30e-1',
  '-9007199254740993',
  '9223372036854775807',
  '-9223372036854775808'
]
const strange = '"a":{"id":"x"},"__proto__":{"tag":"x"},"constructor":{"prototype":{"tag":"y"}}'
const withField = (field: string, value: string, expected: Reply) =>
  withBody(`${field} ${value}`, `{"id":${++lastId},"name":"n","${field}":${value}}`, expected)

const fields: Case[] = [
  withBody('no fields', '{}', invalid('id is required')),
  withBody('no id', '{"name":"n"}', invalid('id is required')),
  withBody('no name', '{"id":1}', invalid('name is required')),
  ...noId.map((value) => withField('id', value, invalid(idRule))),
  ...Object.entries(about).flatMap(([field, { taken, refused, rule }]) => [
    ...refused.map((value) => withField(field, value, invalid(`${field} must be ${rule}`))),
    ...taken.map((value) =>
      withField(field, utf8(value), success({ name: 'n', [field]: JSON.parse(value) }))
    )
  ]),
  ...ids.map((id) => withField('id', id, created)),
  withBody('unknown properties', plant().replace('}', `,${strange}}`), created)
]

const keyOf = (length: number) => 'k'.repeat(length)
const goodKeys = [
  keyOf(255),
  `"${'\\"'.repeat(255)}"`,
  '"a, b"',
  "!#$%&'()*+-./09:;<=>?@AZ[\\]^_`az{|}~"
]
const badKeys = [
  keyOf(256),
  `"${keyOf(256)}"`,
  '',
  '""',
  '"a',
  'a"b',
  'a b',
  'a,b',
  '"a\\b"',
  '\xe4'
]
const again = (id: number, key?: string, name = 'n') =>
  request(`{"id":${id},"name":"${name}"}`, key === undefined ? {} : { 'idempotency-key': key })
const duplicate = failure('DuplicatePlant')
const reused = failure('ReusedKey')
const replayed = replay({ name: 'n' })

const keys: Case[] = [
  ...goodKeys.map((key) => withHead({ 'idempotency-key': key }, created)),
  ...badKeys.map((key) => withHead({ 'idempotency-key': key }, badKey)),
  ['an id again', inTurn(again(80_000), again(80_000)), created, duplicate],
  ['an id again, with a key', inTurn(again(80_001), again(80_001, 'a')), created, duplicate],
  ['a key again', inTurn(again(80_003, 'a'), again(80_003, 'a')), created, replayed],
  ['a key with other content', inTurn(again(80_005, 'a'), again(80_005, 'a', 'o')), created, reused]
]

const hundred = { expect: '100-continue' }
const mebibyte = { 'content-length': '1048577' }
/** A request whose body never comes: its response shows that nothing of the body is waited for. */
const unread = (title: string, head: Head, expected: Reply, line?: string): Case => [
  title,
  [headOf(head, line), come(1)],
  expected
]

const order: Case[] = [
  unread('the header, then the token', { host: undefined, ...noAuthorization }, badHost),
  unread('the path, then the token', noAuthorization, noPath, 'POST /no HTTP/1.1'),
  unread('the method, then the token', noAuthorization, noMethod, 'PUT /plants HTTP/1.1'),
  unread('the token, then the key', { ...noAuthorization, 'idempotency-key': '' }, noToken),
  unread('the token, then the type', { ...noAuthorization, 'content-type': 'a/b' }, noToken),
  unread('the token, then the length', { ...noAuthorization, ...mebibyte }, noToken),
  unread('the token, then the body', { authorization: 'Bearer other' }, failure('InvalidToken')),
  unread(
    'the token, then chunks',
    { authorization: 'Bearer', ...chunked },
    failure('MalformedToken')
  ),
  unread('the token, then 100', { ...noAuthorization, ...hundred }, noToken),
  unread('the key, then the type', { 'idempotency-key': '', 'content-type': 'a/b' }, badKey),
  unread('the type, then the length', { 'content-type': 'a/b', ...mebibyte }, mediaType),
  unread('the length, then the body', mebibyte, longBody),
  unread('the length, then 100', { ...mebibyte, ...hundred }, longBody)
]

const half = [
  headOf({ ...hundred, 'content-length': '24' }),
  /100 Continue/,
  '{"id":70001,'
] as const

const continues: Case[] = [
  ['the body after 100', [...half, '"name":"n"} '], continued, created],
  [
    'the body cut off after 100, behind a good request',
    [good(), ...half],
    created,
    continued,
    malformed
  ],
  ['the body at once', [request(plant(), { expect: '100-Continue' })], continued, created],
  ['HTTP/1.0', [request(plant(), hundred, 'POST /plants HTTP/1.0')], created],
  // What follows could be the body or another request.
  [
    'nothing is read after a refusal',
    [headOf({ ...hundred, ...noAuthorization }), come(1), good()],
    noToken
  ]
]

export const refused = request('{', noAuthorization)

const connections: Case[] = [
  ['three at once', [good() + good() + good()], created, created, created],
  ['not JSON between good ones', [good() + request('{') + good()], created, notJson, created],
  ['a refused body between good ones', [good() + refused + good()], created, noToken, created],
  ['garbage behind good ones', [`${good() + good()}\x01\x02\r\n\r\n`], created, created, malformed],
  ['a bad chunk behind a good one', [good() + chunkedHead, 'zz\r\n'], created, malformed],
  [
    'one that closes before a good one',
    [request(plant(), { connection: 'close' }) + good()],
    created
  ],
  ['half-closed in a header', ['POST /plants HTTP/1.1\r\nhost: te'], malformed],
  ['half-closed in a body', [headOf({}), '{"id":1'], malformed],
  ['half-closed in a chunk', [chunkedHead, '9\r\n{"id'], malformed],
  [
    'half-closed in the body of an upgrade',
    [good() + headOf(upgrade), '{"id":1'],
    created,
    malformed
  ],
  [
    'half-closed in a chunk of an upgrade',
    [request('', { ...upgrade, ...chunked }), '9\r\n{'],
    malformed
  ],
  ['half-closed at once', []]
]

/** More than both kernels buffer. */
const megabytes = Array.from({ length: 16 }, () => Buffer.alloc(2 ** 20, 'x'))
const long = (title: string, head: Head, expected: Reply): Case => [
  title,
  [request('', { 'content-length': String(16 * 2 ** 20), ...head }), ...megabytes],
  expected
]

const largeBodies: Case[] = [
  long('too long', {}, longBody),
  long('too long on a connection that closes', { connection: 'close' }, longBody),
  long('without a token', noAuthorization, noToken),
  long('behind a malformed field', { 'x y': 'z' }, malformed),
  [
    'in chunks',
    [chunkedHead, ...megabytes.flatMap((part) => ['100000\r\n', part, '\r\n'])],
    longBody
  ]
]

const below = 'POST /v1/store/plants HTTP/1.1'

/** The client keeps its side open until the server closes. */
const hurriedCases: Case[] = [
  ['a create', [request(plant(), { connection: 'close' }, below)], created],
  ['no BASE_PATH', [request('', { connection: 'close' })], noPath],
  ['nothing arrives', []],
  ['half a header arrives', ['POST /plants HTTP/1.1\r\nhost: test\r\n'], late],
  ['no body arrives', [headOf({}, below)], late],
  ['half a body arrives', [headOf({}, below), '{"id":1'], late],
  ['half a chunk arrives', [request('', chunked, below), '9\r\n{"id":1'], late],
  ['half a body arrives that is refused', [headOf(noAuthorization, below), '{'], noToken],
  ['no chunk of another coding arrives', [coded('gzip, chunked')], coding],
  [
    'chunks of another coding, of an upgrade',
    [request('', { ...upgrade, ...gzip }), good()],
    coding
  ]
]

interface Options {
  /** How many cases run at the same time. */
  jobs?: number
  /** The service has little patience, and a path before its own; the client keeps its side open until the server closes. */
  isHurried?: boolean
}

/** All cases, by subject. */
export const tables: [subject: string, cases: Case[], options?: Options][] = [
  ['the request line', requestLines],
  ['header fields', headerFields],
  ['paths and methods', routes],
  ['framing and media type', bodies],
  ['JSON', json],
  ['fields of a plant', fields],
  ['Idempotency-Key', keys],
  ['the order of the checks', order, { jobs: 16 }],
  ['100-continue', continues],
  ['several requests, and half-closing', connections],
  ['16 MiB that are refused do not cost the response', largeBodies],
  ['what does not arrive in time', hurriedCases, { isHurried: true, jobs: 8 }]
]
