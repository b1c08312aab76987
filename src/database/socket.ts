/**
 * The socket of a session: TCP or a Unix socket, with TLS where the URL asks for it, and guarded
 * against the server's bytes.
 */
import { once } from 'node:events'
import { connect, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { createFrameCheck } from './frames.ts'

/** Where a server listens. */
export interface Target {
  /** The name that its certificate must have, an address, or the directory of a Unix socket. */
  readonly host: string
  readonly port: number
  /** The address to use instead of asking what the name stands for. */
  readonly address?: string
}

/** How often TCP probes an idle session, so that no firewall forgets it. */
const keepAliveInitialDelay = 10_000
/** The request to use TLS: its length and its code (PostgreSQL manual, "Message Formats"). */
const tlsRequest = Buffer.from('0000000804d2162f', 'hex')

/**
 * Opens a socket to a server, with these options of TLS if there are any, within a limit of ms. It
 * is ready for the first message. Rejects with the network's error, or with one that says what the
 * server did.
 */
export async function openSocket(target: Target, tls: ConnectionOptions | undefined, limitMs: number) {
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

/** Ends a socket whose time is up. */
export const expire = (socket: Socket) => void socket.destroy(new Error('timeout expired'))

/** Resolves with what a socket's event says. Rejects when the socket fails or closes before. */
async function until(socket: Socket, event: string): Promise<unknown[]> {
  // It stays: without a listener, an error of a later time would end the process.
  socket.on('error', () => {})
  const closed = once(socket, 'close').then(() => {
    throw new Error('the server has closed the connection')
  })
  return Promise.race([once(socket, event), closed])
}

/** Asks the server to use TLS. Its answer is one byte. */
async function requestTls(socket: Socket) {
  socket.write(tlsRequest)
  const [answer] = (await until(socket, 'data')) as [Buffer]
  const text = answer.toString('latin1')
  if (text === 'N') throw new Error('the server does not support TLS')
  // What follows the byte is not encrypted, but would be taken for something that is
  // (CVE-2021-23222).
  if (text !== 'S') throw new Error('the server does not answer a request for TLS as PostgreSQL does')
}

/**
 * Makes what the driver throws while it reads the server's bytes the end of this session: uncaught,
 * it would end the process. The driver throws where it does not know a message, and where one is
 * cut off.
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
