/** What may stand between the service and a PostgreSQL with TLS: a proxy that accepts nothing else, a man in the middle. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { createSecureContext, connect as encrypt, TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import type { Certificate } from '../../harness/postgres/certificates.ts'

/** SSLRequest (PostgreSQL manual, "Message Formats"). */
const request = Buffer.from('0000000804d2162f', 'hex')

/** Opens an encrypted connection to PostgreSQL on this port, whatever its certificate. */
async function connectTo(port: number) {
  const socket = connect(port, '127.0.0.1')
  socket.write(request)
  await once(socket, 'data')
  return encrypt({ socket, rejectUnauthorized: false })
}

/**
 * Ends the TLS of clients with its own certificate, and begins its own to PostgreSQL on a port of 127.0.0.1. `alter`
 * changes what the server sends. Ends at teardown.
 */
export async function startTlsProxy(
  t: Test,
  certificate: Certificate,
  port: number,
  alter = (bytes: Buffer) => bytes
) {
  const inClear: string[] = []
  const read: Buffer[] = []
  const sockets = new Set<Socket>()
  const keep = (socket: Socket) => sockets.add(socket.on('error', () => {}))
  const server = createServer((client) => {
    keep(client)
    client.once('data', async (first) => {
      if (!first.equals(request)) {
        inClear.push(first.toString('hex'))
        return client.destroy()
      }
      const inner = new TLSSocket(client, { isServer: true, secureContext: createSecureContext(certificate) })
      keep(inner)
      client.write('S')
      const upstream = await connectTo(port)
      keep(upstream)
      inner.on('data', (bytes) => {
        read.push(bytes)
        upstream.write(bytes)
      })
      inner.on('end', () => upstream.end())
      upstream.on('data', (bytes) => inner.write(alter(bytes)))
      upstream.on('end', () => inner.end())
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    /** What clients sent first instead of asking for TLS, in hex. */
    inClear,
    /** Calls back when a client's connection has ended. */
    onceClosed: (callback: () => void) =>
      void server.once('connection', (socket) => socket.once('close', callback)),
    /** What it could read. */
    read: () => Buffer.concat(read).toString('latin1')
  }
}

const binding = Buffer.from('SCRAM-SHA-256-PLUS\0')

/** Removes the offer of channel binding from AuthenticationSASL. */
export function withoutBinding(bytes: Buffer): Buffer {
  const at = bytes.indexOf(binding)
  if (at < 0) return bytes
  const rest = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + binding.length)])
  rest.writeInt32BE(rest.readInt32BE(1) - binding.length, 1)
  return rest
}
