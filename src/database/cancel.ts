/** Asks PostgreSQL to cancel a statement (its manual, "Canceling Requests in Progress"). */
import { connect, isIP } from 'node:net'
import { connect as connectTls, type ConnectionOptions as TlsOptions } from 'node:tls'
import type pg from 'pg'

/** What the server has sent for cancel requests, which the driver's types leave out (docs/decisions/private-fields.md). */
type Secrets = { processID: number; secretKey: number }

/** What a request asks for, by the numbers of the PostgreSQL manual ("Message Formats"). */
const cancelCode = 80_877_102
const tlsCode = 80_877_103
/** A server that has not accepted the request after this time will not. */
const requestLimitMs = 5_000

function encodeRequest(...fields: number[]): Buffer {
  const request = Buffer.alloc(4 + 4 * fields.length)
  for (const [index, field] of [request.length, ...fields].entries()) request.writeInt32BE(field, index * 4)
  return request
}

/**
 * Asks for what a session is running to be cancelled. The request has a socket of its own and no response, and it may come
 * too late. As in libpq 17, it goes to the address of the session, and is encrypted and verified as the session is.
 */
export function cancelStatement(client: pg.Client): void {
  const { processID, secretKey } = client as unknown as Secrets
  const { host, port, ssl, connection } = client
  const request = encodeRequest(cancelCode, processID, secretKey)
  // The name may stand for another server by now.
  const { remoteAddress = host } = (connection.stream ?? {}) as { remoteAddress?: string }
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, remoteAddress)
  const ignore = () => {} // If the server cannot be reached, the statement fails, too.
  socket.on('error', ignore)
  socket.setTimeout(requestLimitMs, () => socket.destroy())
  if (!ssl) return void socket.end(request).resume()
  socket.write(encodeRequest(tlsCode))
  socket.once('data', (answer) => {
    if (answer.toString() !== 'S') return socket.destroy()
    const options = ssl as unknown as TlsOptions
    const name = isIP(host) ? {} : { servername: host }
    // `key` by name: the driver makes it non-enumerable.
    const encrypted = connectTls({ socket, host, ...options, key: options.key as string, ...name })
    return encrypted.on('error', ignore).end(request).resume()
  })
}
