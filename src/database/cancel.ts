/** Asks PostgreSQL to cancel a statement (its manual, "Canceling Requests in Progress"). */
import { connect, isIP } from 'node:net'
import { connect as connectTls, type ConnectionOptions as TlsOptions } from 'node:tls'
import type pg from 'pg'

/** What the server has sent for cancel requests, which the driver's types leave out (docs/decisions.md). */
type Secrets = { processID: number; secretKey: number }

/** The length and the code of both requests (PostgreSQL manual, "Message Formats"). */
const cancelHead = Buffer.from('0000001004d2162e', 'hex')
const tlsRequest = Buffer.from('0000000804d2162f', 'hex')
/** A server that has not accepted the request after this time will not. */
const requestLimitMs = 5_000

/** Asks for what a session is running to be cancelled: as in libpq 17, at its address and with its TLS. It may come too late. */
export function cancelStatement(client: pg.Client): void {
  const { processID, secretKey } = client as unknown as Secrets
  const { host, port, ssl, connection } = client
  const request = Buffer.concat([cancelHead, Buffer.alloc(8)])
  request.writeInt32BE(processID, 8)
  request.writeInt32BE(secretKey, 12)
  // The name may stand for another server by now.
  const { remoteAddress = host } = (connection.stream ?? {}) as { remoteAddress?: string }
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, remoteAddress)
  const ignore = () => {} // If the server cannot be reached, the statement fails, too.
  socket.on('error', ignore)
  socket.setTimeout(requestLimitMs, () => socket.destroy())
  if (!ssl) return void socket.end(request).resume()
  socket.write(tlsRequest)
  socket.once('data', (answer) => {
    if (answer.toString() !== 'S') return socket.destroy()
    const options = ssl as unknown as TlsOptions
    const name = isIP(host) ? {} : { servername: host }
    // `key` by name: the driver makes it non-enumerable.
    const encrypted = connectTls({ socket, host, ...options, key: options.key as string, ...name })
    return encrypted.on('error', ignore).end(request).resume()
  })
}
