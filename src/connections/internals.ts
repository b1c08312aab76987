/** All that connections use of Node beyond its documented interface. `checkInternals` tries it when the process starts. */
import assert from 'node:assert'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

type Parse = (piece: Buffer) => void
type Handle = { bytesWritten: number; writeQueueSize: number; fd: number }
type Parser = { constructor: { kOnMessageBegin: number }; socket?: Socket | null } & Record<number, unknown>
type WithInternals = Socket & {
  /** Null once the socket is destroyed. */
  _handle: Handle | null
  /** Node's parser takes no bytes, even if the socket flows. */
  _paused?: boolean
  parser: Parser
  [begun]?: () => void
}

const begun = Symbol('called when a request has begun to arrive')

/** Stops Node from passing the socket's bytes to its parser, and returns the function that does so. */
export function takeOverParser(socket: Socket): Parse {
  const [parse, ...others] = socket.listeners('data') as Parse[]
  assert(parse && others.length === 0, 'the parser is the only reader of a socket')
  socket.off('data', parse)
  return parse
}

/** Calls back whenever the first byte of a request was parsed. Empty lines before a request do not count. */
export function onMessageBegin(socket: Socket, callback: () => void): void {
  const { parser } = socket as WithInternals
  ;(socket as WithInternals)[begun] = callback
  // Node reuses a parser for other sockets, so this callback must belong to none.
  parser[parser.constructor.kOnMessageBegin] = noteBegin
}

function noteBegin(this: Parser) {
  ;(this.socket as WithInternals | null)?.[begun]?.()
}

/** Calls back after a socket's last response, when Node would destroy the socket at once. */
export function replaceDestroySoon(socket: Socket, callback: () => void): void {
  socket.destroySoon = callback
}

/** Lets clients half-close their connections and wait for their responses. */
export function allowHalfOpen(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true })
}

/** Whether Node's parser takes no bytes, since much waits to be written to the socket. Node resumes it by itself. */
export const isPausedByNode = (socket: Socket): boolean => (socket as WithInternals)._paused === true

/** Pauses a socket until the next turn, which calls back. Meanwhile Node does not resume it, not even for the rest of a body. */
export function pauseForTurn(socket: Socket, callback: () => void): void {
  ;(socket.pause() as WithInternals)._paused = true
  setImmediate(() => {
    ;(socket as WithInternals)._paused = false
    callback()
  })
}

/** Returns how many bytes the kernel has accepted from a socket, and its file descriptor; undefined once it is destroyed. */
export function findWritten(socket: Socket): { accepted: number; fd: number } | undefined {
  const { _handle: handle } = socket as WithInternals
  return handle ? { accepted: handle.bytesWritten - handle.writeQueueSize, fd: handle.fd } : undefined
}

/**
 * Destroys a socket, and all that the kernel holds for its client. Once the socket is being half-closed, libuv refuses a reset
 * (`uv_tcp_close_reset`), and Node would keep the handle for ever: then it is closed without one.
 */
export function reset(socket: Socket): void {
  if (socket.writableEnded && !socket.writableFinished) socket.destroy()
  else socket.resetAndDestroy()
}

const checkLimitMs = 10_000
const request = 'GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'

/**
 * Serves one request on a loopback port, and asserts that all of the above works. Rejects with an error that names Node's
 * version if it does not: without this check, a field that Node renames would switch off a protection unnoticed.
 */
export async function checkInternals(server: Server = createServer()): Promise<void> {
  const signal = AbortSignal.timeout(checkLimitMs)
  const seen = { begins: 0, pieces: 0, ends: 0, sent: 0, fd: false, paused: false }
  allowHalfOpen(server)
  // Responds after the client has half-closed, when Node would otherwise have closed the connection.
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
    throw new Error(`Node ${process.version} is not supported by this release: ${(error as Error).message}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
