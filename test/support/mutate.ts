/** Requests good and bad, and the ways to damage them. */
import type { Random } from './random.ts'
import { token } from './service.ts'
import { request } from './sockets.ts'

const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** Every kind of request that the service distinguishes, around a body, and bytes of other protocols. */
const corpus: ((body: string) => string)[] = [
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

const signs = ['\r\n', '\r\n\r\n', '\n', '\r', '\0', '\x7f', '\xff', ' ', '\t', ':', ',', ';', '/', '%']
const targets = ['%00', '%ff', '?', '#', 'HEAD ', 'CONNECT ', 'OPTIONS * ', 'POST /plants HTTP/1.1\r\n']
const versions = ['HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/1.']
const hosts = ['host: \r\n', 'host: a b\r\n', 'authorization:', `authorization: Bearer ${token}\r\n`]
const lengths = ['0\r\n', '-1\r\n', '99999999999999999999\r\n', ''].map((value) => `content-length: ${value}`)
const codings = [
  'transfer-encoding: chunked\r\n',
  'transfer-encoding: identity\r\n',
  '0\r\n\r\n',
  'ffffffff\r\n'
]
const others = ['expect: 100-continue\r\n', 'expect: x\r\n', 'connection: close\r\n', 'content-type: a/b\r\n']
const json = ['{', '}', '[', ']', '"', '\\', '\\u0000', '\\ud800', '"id":', '"id":1e400,', '"id":1.5,', '1']
const members = ['"tag":null,', '"__proto__":{},', '"constructor":{"prototype":{}},', 'upgrade: x\r\n']
const encodings = ['\xc0\x80', '\xed\xa0\x80', '\xef\xbb\xbf']
const headers = [...hosts, ...lengths, ...codings, ...others]
const tokens = [...signs, ...targets, ...versions, ...headers, ...json, ...members, ...encodings]

/** Writes a request of the corpus: one in four is whole, the others are damaged in one to six places. */
export function createRequest(random: Random, body: string): string {
  let text = random.pick(corpus)(body)
  if (random.oneIn(4)) return text
  for (let left = 1 + random.integer(6); left > 0; left--) text = random.pick(mutations)(random, text, body)
  return text
}

const mutations: ((random: Random, text: string, body: string) => string)[] = [
  /** A bit is flipped. */
  (random, text) => {
    const [before, found, after] = cut(random, text, 1)
    return before + String.fromCharCode((found.charCodeAt(0) ^ (1 << random.integer(8))) & 0xff) + after
  },
  /** Some characters are lost, added, replaced, or there twice. */
  (random, text) => replace(random, text, 8, () => ''),
  (random, text) => replace(random, text, 0, () => random.pick(tokens)),
  (random, text) => replace(random, text, 8, () => random.pick(tokens)),
  (random, text) => replace(random, text, 200, (found) => found + found),
  /** It continues as another request. */
  (random, text, body) => {
    const other = random.pick(corpus)(body)
    return text.slice(0, random.integer(text.length + 1)) + other.slice(random.integer(other.length + 1))
  },
  /** It breaks off. */
  (random, text) => (random.oneIn(3) ? text.slice(0, random.integer(text.length + 1)) : text),
  /** A line is there again elsewhere. */
  (random, text) => {
    const lines = text.split('\r\n')
    const line = random.pick(lines)
    lines.splice(random.integer(lines.length), 0, line)
    return lines.join('\r\n')
  }
]

function replace(random: Random, text: string, length: number, by: (found: string) => string): string {
  const [before, found, after] = cut(random, text, length)
  return before + by(found) + after
}

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
