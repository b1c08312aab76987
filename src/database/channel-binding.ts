/**
 * Channel binding that is required (RFC 5802, section 6). The driver's own option binds only if the server offers it, and a
 * man in the middle does not offer it.
 */
import type { Duplex } from 'node:stream'
import type pg from 'pg'

/**
 * Ends a session whose server has not proved that it is the other end of the TLS session, before anything but the user's
 * name is sent. Call it before the client connects: these listeners must come before the driver's.
 */
export function requireChannelBinding(client: pg.Client) {
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter & { stream: Duplex } }
  let isOffered = false
  let isProved = false
  const refuse = () => {
    // Fail the client first: it would still act on the rest of the packet before it hears of the destroyed stream.
    connection.emit('error', new Error('the server does not offer the channel binding that the URL requires'))
    connection.stream.destroy()
  }
  connection.on('authenticationCleartextPassword', refuse)
  connection.on('authenticationMD5Password', refuse)
  connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
    isOffered = mechanisms.includes('SCRAM-SHA-256-PLUS')
    if (!isOffered) refuse()
  })
  // The driver checks the signature, and fails the connection if it is wrong.
  connection.on('authenticationSASLFinal', () => {
    isProved = isOffered
  })
  connection.on('authenticationOk', () => isProved || refuse())
}
