/** What a client can send so that the service holds something: by kind, each drawn at random. */

import { request } from '../../harness/http/raw.ts'
import type { Random } from '../../harness/random/random.ts'
import { maximumValues } from '../../src/body/json.ts'

/** What one connection of an adversary does. */
export interface Script {
  /** Sent one after the other. */
  parts: string[]
  /** The pause after each part, in ms. */
  gapMs: number
  /** Whether the responses are taken: as they come, or never. */
  reads: boolean
  /** How the connection ends, after a while. */
  end: 'close' | 'reset' | 'half-close'
}

interface World {
  random: Random
  /** An id that no other create has. */
  id(): number
  /** Header fields of one of the adversary's callers, or of nobody. */
  caller: Record<string, string | undefined>
}

const repeat = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => make(index))
const fields = (count: number, value: string) => repeat(count, (index) => `x-${index}: ${value}\r\n`).join('')
const get = (path: string, head = '') => `GET ${path} HTTP/1.1\r\nhost: test\r\n${head}\r\n`
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const unchunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }

/** Cuts a text into pieces of this length. */
const pieces = (text: string, length: number) =>
  repeat(Math.ceil(text.length / length), (index) => text.slice(index * length, (index + 1) * length))

/** An unknown property: a long text, which is two bytes a character if one is not Latin-1, or empty objects, often too many. */
function createUnknown(random: Random): string {
  const size = 1 + random.integer(300_000)
  if (random.oneIn(3)) return `"${'x'.repeat(3 * size)}${random.pick(['', '\\u4e00'])}"`
  return `[${'{},'.repeat(random.pick([size, size % maximumValues]))}{}]`
}

const plant = ({ id }: World, name: string, more = '') => `{"id":${id()},"name":"${name}"${more}}`

/** The parts of each kind. */
export const kinds = {
  'many fields': ({ random }) => [get('/livez', fields(50 + random.integer(1_500), ''))],
  'long values': ({ random }) => [get('/livez', fields(1 + random.integer(10), 'v'.repeat(1_000)))],
  'chunked creates': (world) => [
    request('', { ...world.caller, ...unchunked }),
    chunk(plant(world, 'n'.repeat(world.random.integer(90_000)), `,"x":${createUnknown(world.random)}`)),
    '0\r\n\r\n'
  ],
  'tiny chunks': ({ random, caller }) => [
    request('', { ...caller, ...unchunked }),
    ...repeat(1 + random.integer(4), () => '1\r\n \r\n'.repeat(10_000))
  ],
  'half chunks': ({ random, caller }) => [
    request('', { ...caller, ...unchunked }),
    random.oneIn(2) ? 'ffff' : `ffff\r\n${' '.repeat(random.integer(60_000))}`
  ],
  'chunk extensions': ({ random, caller }) => [
    request('', { ...caller, ...unchunked }),
    ...repeat(1 + random.integer(20), () => `1;${'e'.repeat(random.integer(2_000))}\r\n \r\n`)
  ],
  trailers: (world) => [
    request('', { ...world.caller, ...unchunked }),
    `${chunk(plant(world, 'n'))}0\r\n${fields(world.random.integer(1_000), '')}\r\n`
  ],
  'unknown properties': (world) => [
    request(plant(world, 'n', `,"x":${createUnknown(world.random)}`), world.caller)
  ],
  'deep nesting': (world) => [
    request(plant(world, 'n', `,"x":${'['.repeat(1 + world.random.integer(100_000))}`), world.caller)
  ],
  'long ids': ({ random, caller }) => [
    request(`{"id":${'9'.repeat(random.integer(500_000))},"name":"n"}`, caller)
  ],
  'announced bodies': ({ random, caller }) => [
    request('', {
      ...caller,
      'content-length': '1048576',
      expect: random.oneIn(2) ? '100-continue' : undefined
    }),
    ...(random.oneIn(2) ? [] : [' '.repeat(random.integer(100_000))])
  ],
  'half headers': ({ random }) => [get('/livez', fields(random.integer(1_000), '')).slice(0, -2)],
  trickles: (world) =>
    pieces(request(plant(world, 'n'.repeat(world.random.integer(2_000))), world.caller), 40),
  pipelines: ({ random }) => [get('/livez').repeat(random.integer(400))],
  'unread pages': ({ random }) => [get('/openapi.json').repeat(50 + random.integer(400))],
  'unread assets': () => [get('/docs/swagger-ui-bundle.js').repeat(10)],
  'idle crowds': () => [get('/livez')],
  'floods of successes': ({ random }) => repeat(random.integer(100), () => get('/livez').repeat(16)),
  'wide bodies': (world) =>
    repeat(5, () => {
      const members = repeat(1_900, (index) => `"${index}${'k'.repeat(world.random.integer(500))}":1`)
      return request(plant(world, 'n', `,${members}`), world.caller)
    }),
  'unread creates': (world) =>
    repeat(10 + world.random.integer(30), () => request(plant(world, 'n'.repeat(300_000)), world.caller)),
  'long creates': (world) => repeat(5, () => request(plant(world, 'n'.repeat(900_000)), world.caller)),
  'refused bodies after others': (world) => [
    repeat(30, () => get('/openapi.json')).join('') + request(plant(world, 'n'), world.caller),
    request('', { ...unchunked, authorization: undefined }),
    '1\r\n \r\n'.repeat(10_000)
  ],
  'refused creates after others': (world) => [
    repeat(100, () => get('/openapi.json')).join('') + request(plant(world, 'n'), world.caller),
    ...repeat(5, () => request(`{"id":1,"x":${createUnknown(world.random)}}`, world.caller)),
    ...repeat(5, () => request(`{"id":"x","name":"${'n'.repeat(300_000)}"}`, world.caller))
  ],
  'escaped creates': (world) =>
    repeat(10, () => request(plant(world, `\\u4e00${'\\u0001'.repeat(100_000)}`), world.caller)),
  'quoted parameters': ({ random, caller }) =>
    repeat(40, () =>
      request('{}', { ...caller, 'content-type': `application/json;${'"\\'.repeat(random.integer(7_000))}` })
    ),
  'bursts of creates': (world) => [
    repeat(world.random.integer(100), () => request(plant(world, 'burst'), world.caller)).join('')
  ],
  'distinct keys': (world) =>
    repeat(20, (index) =>
      request(plant(world, 'keyed'), { ...world.caller, 'idempotency-key': `${index}${'k'.repeat(250)}` })
    ),
  'one id': (world) => repeat(20, () => request('{"id":-1,"name":"same"}', world.caller)),
  'wrong tokens': ({ random }) =>
    repeat(20, () =>
      request('{"id":1,"name":"n"}', {
        authorization: `Bearer ${random.integer(2 ** 31)}${'t'.repeat(2_000)}`
      })
    ),
  'distinct paths': ({ random }) => repeat(20, () => get(`/${random.integer(2 ** 31)}?${'q'.repeat(1_000)}`)),
  upgrades: ({ random }) => [
    get('/livez', 'connection: upgrade\r\nupgrade: websocket\r\n') + 'u'.repeat(random.integer(60_000))
  ],
  connects: ({ random }) => ['CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n', 'c'.repeat(random.integer(60_000))],
  noise: ({ random }) => [
    String.fromCharCode(...repeat(1 + random.integer(2_000), () => random.integer(256)))
  ],
  silence: () => []
} satisfies Record<string, (world: World) => string[]>

/** The name of a kind. */
export type Kind = keyof typeof kinds
export const allKinds = Object.keys(kinds) as Kind[]

const ends = ['close', 'reset', 'half-close'] as const

/** Draws what a connection of this kind does. */
export function drawScript(kind: Kind, world: World): Script {
  const { random } = world
  const reads = !kind.startsWith('unread') && !random.oneIn(4)
  const gapMs = kind === 'trickles' ? 50 : random.pick([0, 0, 20])
  const make: (world: World) => string[] = kinds[kind]
  return { parts: make(world), gapMs, reads, end: random.pick(ends) }
}
