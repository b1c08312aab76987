/** Requests good and bad, and the ways to damage them. */

import { request } from '../../harness/http/raw.ts'
import type { Random } from '../../harness/random/random.ts'
import { token } from '../../harness/service/service.ts'

const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** Writes a request of the corpus around a body. */
type Template = (body: string) => string

/** Every kind of request that the service distinguishes, and bytes of other protocols. */
const corpus: Template[] = [
  (body) => request(body),
  (body) => request(body),
  (body) => request(body, { 'content-type': 'application/json; charset=utf-8', accept: '*/*' }),
  (body) => `${request('', chunked)}${chunk(body.slice(0, 9))}${chunk(body.slice(9))}0\r\n\r\n`,
  (body) => `${request('', { ...chunked, trailer: 'x' })}${chunk(body)}0\r\nx: y\r\n\r\n`,
  (body) => request(body, { expect: '100-continue' }),
  (body) => request(body, { expect: 'miracles' }),
  (body) => request(body, { connection: 'close' }),
  (body) => request(body, { connection: 'keep-alive' }, 'POST /plants HTTP/1.0'),
  (body) => request(body, { connection: 'upgrade', upgrade: 'websocket' }),
  (body) => request(body, { connection: 'upgrade, http2-settings', upgrade: 'h2c', 'http2-settings': '' }),
  (body) => request(body, { authorization: undefined }),
  (body) => request(body, { authorization: 'Bearer x' }),
  (body) => request(body, { authorization: `Bearer ${token}, Bearer ${token}` }),
  (body) => request(body, { 'content-encoding': 'gzip' }),
  (body) => request(body, { 'content-type': 'text/plain' }),
  (body) => request(body, { 'content-length': '7' }),
  (body) => request(body, { 'content-length': '99' }),
  (body) => request(body, { 'transfer-encoding': 'gzip, chunked' }),
  (body) => request(body, { x: 'a\r\n b' }),
  (body) => request(body, { x: 'a'.repeat(20_000) }),
  (body) => request(body, {}, 'POST /plants?a=b#c HTTP/1.1'),
  (body) => request(body, {}, 'POST http://test/plants HTTP/1.1'),
  (body) => request(body, {}, 'POST /%70lants HTTP/1.1'),
  (body) => request(body, {}, 'POST /pl%zz HTTP/1.1'),
  (body) => request(body, {}, 'PUT /plants HTTP/1.1'),
  (body) => request(body, {}, 'QUERY /plants HTTP/1.1'),
  () => request('', { 'content-length': undefined }, 'GET /plants HTTP/1.1'),
  () => request('', { 'content-length': undefined }, 'HEAD /plants HTTP/1.1'),
  () => request('', { 'content-length': undefined }, 'OPTIONS * HTTP/1.1'),
  () => request('', {}, 'GET / HTTP/1.1'),
  () => 'CONNECT test:80 HTTP/1.1\r\nhost: test:80\r\n\r\n',
  () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  () => '\r\n\r\n',
  () => 'GET /\r\n'
]

const tokens = [
  ...[
    '\r\n',
    '\r\n\r\n',
    '\n',
    '\r',
    '\0',
    '\x7f',
    '\xff',
    ' ',
    '\t',
    ':',
    ',',
    ';',
    '/',
    '%',
    '%00',
    '%ff',
    '?',
    '#'
  ],
  ...[
    'POST /plants HTTP/1.1\r\n',
    'HEAD ',
    'CONNECT ',
    'OPTIONS * ',
    'HTTP/1.0',
    'HTTP/0.9',
    'HTTP/2.0',
    'HTTP/1.'
  ],
  ...[
    'host: \r\n',
    'host: a b\r\n',
    `authorization: Bearer ${token}\r\n`,
    'authorization:',
    'content-type: a/b\r\n'
  ],
  ...[
    'content-length: 0\r\n',
    'content-length: -1\r\n',
    'content-length: 99999999999999999999\r\n',
    'content-length:'
  ],
  ...[
    'transfer-encoding: chunked\r\n',
    'transfer-encoding: identity\r\n',
    '0\r\n\r\n',
    'ffffffffffffffff\r\n'
  ],
  ...[
    'expect: 100-continue\r\n',
    'expect: x\r\n',
    'connection: close\r\n',
    'connection: upgrade\r\nupgrade: x\r\n'
  ],
  ...[
    '{',
    '}',
    '[',
    ']',
    '"',
    '\\',
    '\\u0000',
    '\\ud800',
    '"id":',
    '"id":1e400,',
    '"id":1.5,',
    '"tag":null,',
    ',',
    '1'
  ],
  ...[
    '"__proto__":{},',
    '"constructor":{"prototype":{}},',
    '\xc0\x80',
    '\xed\xa0\x80',
    '\xef\xbb\xbf',
    '\ufeff'
  ]
]

/** Writes a request of the corpus: one in four is whole, the others are damaged in one to six places. */
export function createRequest(random: Random, body: string): string {
  let text = random.pick(corpus)(body)
  if (random.oneIn(4)) return text
  for (let left = 1 + random.integer(6); left > 0; left--) {
    text = random.pick(mutations)(random, text, body)
  }
  return text
}

const mutations: ((random: Random, text: string, body: string) => string)[] = [
  (random, text) => {
    const [before, found, after] = cut(random, text, 1)
    return before + String.fromCharCode((found.charCodeAt(0) ^ (1 << random.integer(8))) & 0xff) + after
  },
  (random, text) => {
    const [before, , after] = cut(random, text, 8)
    return before + after
  },
  (random, text) => {
    const [before, , after] = cut(random, text, 0)
    return before + random.pick(tokens) + after
  },
  (random, text) => {
    const [before, , after] = cut(random, text, 8)
    return before + random.pick(tokens) + after
  },
  (random, text) => {
    const [before, found, after] = cut(random, text, 200)
    return before + found + found + after
  },
  (random, text, body) => {
    const other = random.pick(corpus)(body)
    return text.slice(0, random.integer(text.length + 1)) + other.slice(random.integer(other.length + 1))
  },
  (random, text) => (random.oneIn(3) ? text.slice(0, random.integer(text.length + 1)) : text),
  (random, text) => {
    const lines = text.split('\r\n')
    const line = random.pick(lines)
    lines.splice(random.integer(lines.length), 0, line)
    return lines.join('\r\n')
  }
]

/** Cuts a text in three somewhere, the middle empty, or 1 to `length` long. */
function cut(random: Random, text: string, length: number): [string, string, string] {
  const at = random.integer(text.length + (length === 0 ? 1 : 0))
  const end = length === 0 ? at : at + 1 + random.integer(length)
  return [text.slice(0, at), text.slice(at, end), text.slice(end)]
}

/** Cuts a text into one to five packets. */
export function toPackets(random: Random, text: string): string[] {
  const packets: string[] = []
  let rest = text
  for (let left = random.oneIn(2) ? 0 : random.integer(5); left > 0; left--) {
    const at = random.integer(rest.length + 1)
    packets.push(rest.slice(0, at))
    rest = rest.slice(at)
  }
  return [...packets, rest].filter((packet) => packet !== '')
}
