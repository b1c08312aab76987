/** What the connections use of Node beyond its documented interface, all in one place. The start tries each of it. */
import assert from 'node:assert'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

type Parse = (chunk: Buffer) => void
type Handle = { bytesWritten: number; writeQueueSize: number; fd: number }
type Parser = { constructor: { kOnMessageBegin: number }; socket?: Socket | null } & Record<number, unknown>
/** Its handle is null once it is destroyed. */
type WithInternals = Socket & {
  _handle: Handle | null
  _paused?: boolean
  parser: Parser
  [begun]?: () => void
}

const begun = Symbol('called when a request has begun to arrive')

/** Takes the socket's bytes away from Node's parser, and returns the function that gives the parser some. */
export function takeOverParser(socket: Socket): Parse {
  const [parse, ...others] = socket.listeners('data') as Parse[]
  assert(parse && others.length === 0, 'the parser is the only reader of a socket')
  socket.off('data', parse)
  return parse
}

/** Calls back whenever the first byte of a request was parsed. Empty lines before a request are none of it. */
export function onMessageBegin(socket: Socket, callback: () => void): void {
  const { parser } = socket as WithInternals
  ;(socket as WithInternals)[begun] = callback
  // Node uses a parser again for other sockets, so what it calls must belong to none.
  parser[parser.constructor.kOnMessageBegin] = noteBegin
}

function noteBegin(this: Parser) {
  ;(this.socket as WithInternals | null)?.[begun]?.()
}

/** Replaces what Node does with a socket after its last response: it would destroy it at once. */
export function replaceDestroySoon(socket: Socket, callback: () => void): void {
  socket.destroySoon = callback
}

/** Lets a client half-close its connection, and wait for its responses. */
export function allowHalfOpen(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true })
}

/** Whether Node's parser takes no bytes, even from a socket that flows, since much waits to be written. Node resumes it. */
export const isPausedByNode = (socket: Socket): boolean => (socket as WithInternals)._paused === true

/** Pauses a socket so that Node, which resumes it for the rest of a body, leaves it so until `callback` has been called. */
export function pauseForTurn(socket: Socket, callback: () => void): void {
  ;(socket.pause() as WithInternals)._paused = true
  setImmediate(() => {
    ;(socket as WithInternals)._paused = false
    callback()
  })
}

/** Returns how many bytes of responses the kernel has accepted, and the socket's file descriptor; undefined once it is destroyed. */
export function findWritten(socket: Socket): { accepted: number; fd: number } | undefined {
  const { _handle: handle } = socket as WithInternals
  return handle ? { accepted: handle.bytesWritten - handle.writeQueueSize, fd: handle.fd } : undefined
}

/**
 * Destroys a socket with all that the kernel holds for its client. While a shutdown is under way, libuv refuses a reset
 * (`uv_tcp_close_reset`), and Node would keep the handle for ever: nothing waits to be written then.
 */
export function reset(socket: Socket): void {
  if (socket.writableEnded && !socket.writableFinished) socket.destroy()
  else socket.resetAndDestroy()
}

const checkLimitMs = 10_000
const request = 'GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'

/**
 * Serves one request on a loopback port, and asserts that each of the above acts as it should. Rejects with an error that
 * names Node's version; without it, a renamed field would switch a protection off in silence.
 */
export async function checkInternals(server: Server = createServer()): Promise<void> {
  const signal = AbortSignal.timeout(checkLimitMs)
  const seen = { begins: 0, pieces: 0, ends: 0, sent: 0, fd: false, paused: false }
  allowHalfOpen(server)
  // After the client's end, which Node would otherwise take for the connection's.
  server.on('request', ({ socket }, response) =>
    socket.once('end', () => setImmediate(() => response.end('served')))
  )
  server.on('connection', (socket: Socket) => {
    const parse = takeOverParser(socket)
    socket.on('data', (chunk: Buffer) => {
      for (const piece of [chunk.subarray(0, 5), chunk.subarray(5)]) parse(piece)
      seen.pieces += 2
    })
    onMessageBegin(socket, () => seen.begins++)
    replaceDestroySoon(socket, () => {
      const written = findWritten(socket)
      seen.ends++
      seen.sent = Number(written?.accepted)
      seen.fd = Number.isInteger(written?.fd)
      seen.paused = typeof (socket as WithInternals)._paused === 'boolean'
      socket.end()
    })
  })
  try {
    await once(server.listen(0, '127.0.0.1'), 'listening', { signal })
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    client
      .setEncoding('latin1')
      .setTimeout(checkLimitMs, () => client.destroy())
      .end(request)
    let received = ''
    for await (const text of client) received += text
    assert(received.endsWith('served'), 'a client that half-closes gets its response')
    const expected = { begins: 1, pieces: 2, ends: 1, sent: received.length, fd: true, paused: true }
    assert.deepEqual(seen, expected)
  } catch (error) {
    if (!(error instanceof assert.AssertionError)) throw error
    throw new Error(`Node ${process.version} is not one that this release knows: ${(error as Error).message}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
