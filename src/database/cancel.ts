/** Cancelling a statement at the server. */
import { connect } from 'node:net'

const cancelRequestCode = 80_877_102
const limitMs = 5_000

/** What identifies a connection at its server. */
export interface Target {
  processID: number
  secretKey: number
  host: string
  port: number
}

/**
 * Asks the server to cancel what a connection is running (PostgreSQL manual, "Canceling Requests in Progress"): a
 * request on a connection of its own, without an answer and without a promise to be in time.
 */
export function cancelStatement({ processID, secretKey, host, port }: Target): void {
  const request = Buffer.alloc(16)
  const fields = [request.length, cancelRequestCode, processID, secretKey]
  for (const [index, field] of fields.entries()) request.writeInt32BE(field, index * 4)
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
  socket.on('error', () => {}) // the server is away, and so is the statement
  socket.setTimeout(limitMs, () => socket.destroy())
  socket.end(request)
  socket.resume()
}
