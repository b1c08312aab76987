/**
 * The socket of a session: TCP or a Unix socket, with TLS if the URL asks for it. What the driver
 * throws while it reads the server's bytes ends the socket, and not the process.
 */
import { once } from 'node:events'
import { connect, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { createFrameCheck } from './frames.ts'

/** Where a server listens. */
export interface Target {
  /** The name that the server's certificate must have, an address, or a Unix socket's directory. */
  readonly host: string
  readonly port: number
  /** The address to connect to, if the name must not be resolved. */
  readonly address?: string
}

/** How long a session is idle before TCP probes it, so that no firewall forgets it. */
const keepAliveInitialDelay = 10_000
/** The request for TLS: its length and its code (PostgreSQL manual, "Message Formats"). */
const tlsRequest = Buffer.from('0000000804d2162f', 'hex')

/**
 * Opens a socket to a server within a limit of ms, with TLS if `tls` has options for it. The socket
 * is then ready for the driver's first message. Rejects with the network's error, or with an error
 * that says what the server did.
 */
export async function openSocket(
  target: Target,
  tls: ConnectionOptions | undefined,
  limitMs: number
) {
  const { host, port, address = host } = target
  let socket = host.startsWith('/')
    ? connect(`${host}/.s.PGSQL.${port}`)
    : connect({ host: address, port, noDelay: true, keepAlive: true, keepAliveInitialDelay })
  const timer = setTimeout(() => expire(socket), limitMs)
  try {
    await until(socket, 'connect')
    if (tls) {
      await requestTls(socket)
      const plain = socket
      const name = isIP(host) ? {} : { servername: host }
      socket = connectTls({ socket: plain, host, ...tls, ...name })
      await until(socket, 'secureConnect')
    }
    return guard(socket)
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Ends a socket whose time is up, with an error. */
export const expire = (socket: Socket) => void socket.destroy(new Error('timeout expired'))

/** Resolves with the values of a socket's event. Rejects if the socket fails or closes first. */
async function until(socket: Socket, event: string): Promise<unknown[]> {
  // This listener is never removed. Without one, a later error would end the process.
  socket.on('error', () => {})
  const closed = once(socket, 'close').then(() => {
    throw new Error('the server has closed the connection')
  })
  return Promise.race([once(socket, event), closed])
}

/** Asks the server to use TLS. The server answers with one byte. */
async function requestTls(socket: Socket) {
  socket.write(tlsRequest)
  const [answer] = (await until(socket, 'data')) as [Buffer]
  const text = answer.toString('latin1')
  if (text === 'N') throw new Error('the server does not support TLS')
  // Refuse bytes after the answer: they are not encrypted, but would be read as if they were
  // (CVE-2021-23222).
  if (text !== 'S')
    throw new Error('the server does not answer a request for TLS as PostgreSQL does')
}

/**
 * Makes an error that the driver throws while it reads the server's bytes end this socket. The
 * driver throws in a listener if it does not know a message, or if a message is cut off. Uncaught,
 * that would end the process, so `emit`, which calls the listeners, catches it.
 */
function guard(socket: Socket): Socket {
  const emit: (event: string, ...values: unknown[]) => boolean = socket.emit
  const checkFrames = createFrameCheck()
  socket.emit = (event: string, ...values: unknown[]) => {
    if (event !== 'data') return emit.call(socket, event, ...values)
    try {
      checkFrames(values[0] as Buffer)
      return emit.call(socket, event, ...values)
    } catch (cause) {
      const { message } = cause as Error
      socket.destroy(new Error(`what the server sends is not understood: ${message}`, { cause }))
      return true
    }
  }
  return socket
}
