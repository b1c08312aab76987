/** What a balancer can pass on that makes the service hold something: a kind is a line. */
import { request } from './sockets.ts'

/** The token of the caller that sends it all. */
export const flooder = 'flooder-secret-0123456789'

/** What one connection sends: one request, in parts, as a balancer passes it on. */
export interface Script {
  parts: string[]
  /** The pause after each part. */
  gapMs?: number
  /** How long the client reads nothing of the response. */
  unreadMs?: number
  /** The client leaves without reading anything. */
  leaves?: true
}

const repeat = (count: number, make: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => make(i))
const by = (fields: Record<string, string | undefined> = {}) => ({
  authorization: `Bearer ${flooder}`,
  ...fields
})
const create = (id: number, more = '', fields = {}) =>
  request(`{"id":${id},"name":"n"${more}}`, by(fields))
const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
/** Twice its bytes in memory: one character is not Latin-1. */
const wideName = (length: number) => `\\u4e00${'n'.repeat(length)}`
const named = (id: number, name: string) => request(`{"id":${id},"name":"${name}"}`, by())
const cut = (text: string, length: number) =>
  repeat(Math.ceil(text.length / length), (index) =>
    text.slice(index * length, (index + 1) * length)
  )

/** Each kind: how many connections send it at a time, and what, with a fresh id. */
export const kinds: Record<string, [connections: number, (id: number) => Script]> = {
  'bodies up to the limit': [40, (id) => ({ parts: [named(id, wideName(1_000_000))] })],
  'bodies beyond the limit': [4, (id) => ({ parts: [named(id, wideName(1_100_000))] })],
  'nested values': [
    4,
    (id) => ({ parts: [create(id, `,"x":${'['.repeat(500_000)}${']'.repeat(500_000)}`)] })
  ],
  'many values': [4, (id) => ({ parts: [create(id, `,"x":[${'{},'.repeat(340_000)}{}]`)] })],
  'many members': [
    4,
    (id) => ({ parts: [create(id, repeat(1_900, (i) => `,"${i}${'k'.repeat(500)}":1`).join(''))] })
  ],
  'many chunks': [
    4,
    (id) => ({
      parts: [
        request('', by(chunked)),
        ...cut(`{"id":${id},"name":"n"}`.padEnd(20_000), 1).map(chunk),
        '0\r\n\r\n'
      ]
    })
  ],
  'slow bodies': [10, (id) => ({ parts: cut(named(id, 'n'.repeat(500_000)), 25_000), gapMs: 50 })],
  'bodies that break off': [
    5,
    (id) => ({
      parts: [named(id, 'n'.repeat(900_000)).slice(0, -50_000)],
      gapMs: 200,
      leaves: true
    })
  ],
  'long headers': [
    5,
    (id) => ({
      parts: [
        create(
          id,
          '',
          Object.fromEntries(repeat(80, (i) => `x-${i}`).map((name) => [name, 'v'.repeat(150)]))
        )
      ]
    })
  ],
  'many keys': [
    5,
    (id) => ({ parts: [create(id, '', { 'idempotency-key': `${id}`.padEnd(255, 'k') })] })
  ],
  'responses that are not read': [
    8,
    (id) => ({ parts: [named(id, 'n'.repeat(900_000))], unreadMs: 2_000 })
  ],
  'idle connections': [
    40,
    () => ({ parts: [request('', {}, 'GET /readyz HTTP/1.1')], unreadMs: 1_000 })
  ],
  'the document': [
    5,
    () => ({ parts: [request('', {}, 'GET /openapi.json HTTP/1.1')], unreadMs: 500 })
  ]
}
