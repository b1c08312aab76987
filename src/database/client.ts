/**
 * A client of the driver on a socket that we open, so that it can also be asked to cancel a
 * statement there.
 */
import type { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import { openSocket, type Target } from './socket.ts'

/**
 * The key that a cancel request must have. The server sent it at the login; the driver keeps it in
 * fields that its types leave out (docs/decisions.md).
 */
type CancelKey = { processID: number; secretKey: number }

/** The length and the code of a request to cancel (PostgreSQL manual, "Message Formats"). */
const cancelHead = Buffer.from('0000001004d2162e', 'hex')
/** A server that has not accepted the request after this time will not. */
const requestLimitMs = 5_000

/** A client on an open socket. It must still connect, that is log in. */
export class Client extends pg.Client {
  readonly #socket: Socket
  readonly #target: Target
  readonly #readTls: () => ConnectionOptions | undefined

  constructor(
    socket: Socket,
    target: Target,
    { readTls, ...config }: pg.ClientConfig & { readTls: () => ConnectionOptions | undefined }
  ) {
    // False, and not undefined: the driver would ask the environment.
    super({ ...config, ...target, ssl: false, stream: () => socket })
    this.#socket = socket
    // The name may stand for another server later.
    this.#target = { ...target, address: socket.remoteAddress ?? target.host }
    this.#readTls = readTls
    socket.connect = () => {
      const isOpen = !socket.destroyed
      process.nextTick(() => (isOpen ? socket.emit('connect') : socket.emit('close')))
      return socket
    }
    // Without a listener, an error before its user listens would end the process.
    this.on('error', () => {})
  }

  /** Ends the session and its socket, also if the server does not. */
  abandon(): void {
    void this.end()
    this.#socket.destroySoon()
  }

  /**
   * Asks PostgreSQL to cancel what the session is running (its manual, "Canceling Requests in
   * Progress"): as libpq 17 does, at its address and with its TLS. It may come too late.
   */
  cancelStatement(): void {
    const { processID, secretKey } = this as unknown as CancelKey
    const request = Buffer.concat([cancelHead, Buffer.alloc(8)])
    request.writeInt32BE(processID, 8)
    request.writeInt32BE(secretKey, 12)
    const send = async () => {
      const socket = await openSocket(this.#target, this.#readTls(), requestLimitMs)
      socket.setTimeout(requestLimitMs, () => socket.destroy())
      socket.end(request).resume()
    }
    // If the server cannot be reached, the statement fails, too.
    send().catch(() => {})
  }
}
