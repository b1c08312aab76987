/**
 * A process that floods: `flood.ts URL KIND`, from several addresses of this machine. Connections that end are opened again.
 * At SIGTERM it ends, and prints what it has had as JSON.
 */
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { token } from '../../support/service.ts'

let lastId = 2 ** 40
const head = (length: string, secret = token) =>
  `POST /plants HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${secret}\r\ncontent-type: application/json\r\n${length}\r\n\r\n`
const post = (body: string, secret?: string) =>
  `${head(`content-length: ${body.length}`, secret)}${body}`
const create = () => post(`{"id":${++lastId},"name":"n"}`)
const wrong = post('{"id":1,"name":"n"}', 'wrong-secret-0123456789')
/** The id of the identity provider's key. */
export const kid = 'flooded'
const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
/** A create with a JWT whose signature has the right length and is wrong. */
const forge = (kid: string) => {
  const signature = randomBytes(256).toString('base64url')
  const token = `${encode({ alg: 'RS256', kid })}.${encode({ n: ++lastId })}.${signature}`
  return post('{"id":1,"name":"n"}', token)
}
const page = 'GET /docs/static/swagger-ui-bundle.js HTTP/1.1\r\nhost: test\r\n\r\n'
const probe = 'GET /readyz HTTP/1.1\r\nhost: test\r\n\r\n'
const refused = 'POST /plants HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n'
const nested = post(`{"id":1,"name":"n","x":${'['.repeat(500_000)}${']'.repeat(500_000)}}`)
const pipelined = post('{').repeat(100)

/** Sends a text once, and then a piece of it again and again. */
const slowly = (first: string, piece: string, everyMs: number) => (socket: Socket) => {
  socket.write(first)
  const timer = setInterval(() => socket.write(piece), everyMs)
  socket.once('close', () => clearInterval(timer))
}
/** Sends a text, and again with each piece of the response. */
const inLoop = (text: string) => (socket: Socket) => {
  socket.write(text)
  socket.on('data', () => socket.write(text))
}
/** The same with what a function makes, one request at a time. */
const inTurn = (make: () => string) => (socket: Socket) => {
  socket.write(make())
  socket.on('data', (chunk) => chunk.includes('}') && socket.write(make()))
}
/** Sends a text at once, and again in this rhythm. */
const every = (ms: number, text: string) => (socket: Socket) => {
  const timer = setInterval(() => socket.write(text), ms)
  socket.once('close', () => clearInterval(timer)).write(text)
}
/** Sends a text again and again, and reads nothing. */
const deaf = (text: string) => (socket: Socket) => {
  const send = () => socket.write(text, () => setTimeout(send, 100))
  socket.pause()
  send()
}

/** What a flood does on a connection, and how many connections it has from each of its addresses. */
export interface Kind {
  act: (socket: Socket) => void
  connections: number[]
  /** How long it waits before it opens a connection again that has ended, in ms: 100 by default. */
  againMs?: number
}

/** So many addresses with so many connections each. */
const from = (addresses: number, each: number) => Array.from({ length: addresses }, () => each)
/** So many connections from eight addresses. */
const total = (connections: number) => from(8, connections / 8)

/** Each kind of flood. */
export const kinds: Record<string, Kind> = {
  'idle connections': { connections: total(4_200), act: () => {} },
  'slow headers': {
    connections: total(4_200),
    act: slowly('POST /plants HTTP/1.1\r\nhost: test\r\nx: ', 'x', 2_000)
  },
  'refusals in a loop': { connections: total(512), act: inLoop(refused) },
  'slow bodies': { connections: total(600), act: slowly(head('content-length: 100000'), ' ', 100) },
  'slow chunked bodies': {
    connections: total(600),
    act: slowly(head('transfer-encoding: chunked'), '1\r\n \r\n', 50)
  },
  'nested values': { connections: total(16), act: inLoop(nested) },
  pipelines: { connections: total(40), act: inLoop(pipelined) },
  'pipelines that read nothing': { connections: total(400), act: deaf(pipelined) },
  'responses that are not read': {
    connections: total(1_600),
    act: (socket) => socket.pause().write(post(`{"id":${++lastId},"name":"${'n'.repeat(20_000)}"}`))
  },
  // Five times 1.5 MB are more than buffers on the way hold.
  'pages that are not read': {
    connections: total(1_600),
    act: (socket) => socket.pause().write(page.repeat(5))
  },
  // Each address takes what haproxy.cfg leaves it: two addresses fewer than would fill its table.
  'kept connections': {
    connections: [...from(10, 200), ...from(20, 50), ...from(30, 20), ...from(36, 8)],
    act: every(45_000, probe),
    againMs: 1_000
  },
  'kept connections of few addresses': {
    connections: from(21, 200),
    act: every(45_000, probe),
    againMs: 1_000
  },
  'creates in a loop': { connections: from(4, 200), act: inTurn(create) },
  'wrong tokens in a loop': { connections: from(4, 200), act: inTurn(() => wrong) },
  'forged tokens in a loop': { connections: from(4, 200), act: inTurn(() => forge(kid)) },
  'tokens of made-up keys in a loop': {
    connections: from(4, 200),
    act: inTurn(() => forge(`${++lastId}`))
  }
}

/** What a flood has had. */
export interface Report {
  opened: number
  /** Responses by the number of their failure, 0 for a success. */
  responses: Record<string, number>
}

function flood(url: string, kind: string) {
  const { hostname: host, port } = new URL(url)
  const { connections, act, againMs = 100 } = kinds[kind] ?? process.exit(1)
  const report: Report = { opened: 0, responses: {} }
  const open = (localAddress: string) => {
    const socket = connect({ host, port: Number(port), localAddress })
    socket.once('connect', () => {
      report.opened++
      act(socket)
      // A paused socket stays paused.
      if (!socket.isPaused())
        socket.on('data', (chunk) => {
          for (const [, error = '0'] of chunk.toString('latin1').matchAll(/\{(?:"error":(\d+))?/g))
            report.responses[error] = (report.responses[error] ?? 0) + 1
        })
    })
    socket.on('error', () => {}).once('close', () => setTimeout(open, againMs, localAddress))
  }
  // Sockets that are not read do not keep a process running, and a test that was killed does not end it.
  setTimeout(() => process.exit(1), 300_000)
  for (const [index, count] of connections.entries())
    for (let left = count; left > 0; left--) open(`127.0.1.${1 + index}`)
  process.once('SIGTERM', () => process.stdout.write(JSON.stringify(report), () => process.exit()))
  process.stdout.write('flooding\n')
}

if (import.meta.main) flood(process.argv[2] as string, process.argv[3] as string)
