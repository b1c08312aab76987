/**
 * A client of the driver on a socket that this service opens itself. So a cancel request can take
 * the same way to the server: the same address, and TLS with the same options.
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

/** The length and the code of a cancel request (PostgreSQL manual, "Message Formats"). */
const cancelHead = Buffer.from('0000001004d2162e', 'hex')
/** How long a cancel request may take, in ms. */
const requestLimitMs = 5_000

/** A client on an open socket. Call `connect` to log in. */
export class Client extends pg.Client {
  readonly #socket: Socket
  readonly #target: Target
  readonly #readTls: () => ConnectionOptions | undefined

  constructor(
    socket: Socket,
    target: Target,
    { readTls, ...config }: pg.ClientConfig & { readTls: () => ConnectionOptions | undefined }
  ) {
    // `ssl` is false because the socket has TLS already. If it were undefined, the driver would
    // read it from the environment.
    super({ ...config, ...target, ssl: false, stream: () => socket })
    this.#socket = socket
    // The name may resolve to another server later, so a cancel request uses the address.
    this.#target = { ...target, address: socket.remoteAddress ?? target.host }
    this.#readTls = readTls
    // The driver calls `connect` and waits for its event, but the socket is connected already.
    socket.connect = () => {
      const isOpen = !socket.destroyed
      process.nextTick(() => (isOpen ? socket.emit('connect') : socket.emit('close')))
      return socket
    }
    // Without a listener, an error that comes before the session listens would end the process.
    this.on('error', () => {})
  }

  /** Ends the session, and its socket even if the server does not respond. */
  abandon(): void {
    void this.end()
    this.#socket.destroySoon()
  }

  /**
   * Asks PostgreSQL to cancel the session's statement (PostgreSQL manual, "Canceling Requests in
   * Progress"). Like libpq 17, it does so over TLS if the session has it. The request may arrive
   * too late, and nothing tells.
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
    // An error is ignored: if the server cannot be reached, the statement fails by itself.
    send().catch(() => {})
  }
}
