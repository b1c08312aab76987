/** A man in the middle: a proxy that ends the TLS of PostgreSQL's clients, and reads what they send. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { createSecureContext, connect as encrypt, TLSSocket } from 'node:tls'
import type { Teardown } from '../teardown.ts'
import type { Certificate } from './certificates.ts'

/** SSLRequest (PostgreSQL manual, "Message Formats"). */
const request = Buffer.from('0000000804d2162f', 'hex')
const binding = Buffer.from('SCRAM-SHA-256-PLUS\0')

/** Removes the offer of channel binding from AuthenticationSASL, with which the server would notice the proxy. */
function withoutBinding(bytes: Buffer): Buffer {
  const at = bytes.indexOf(binding)
  if (at < 0) return bytes
  const rest = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + binding.length)])
  rest.writeInt32BE(rest.readInt32BE(1) - binding.length, 1)
  return rest
}

/** Starts the proxy, with its own certificate, to a port of 127.0.0.1; ends it at teardown. Returns its port. */
export async function startTlsProxy(t: Teardown, certificate: Certificate, to: number): Promise<number> {
  const sockets = new Set<Socket>()
  const keep = (socket: Socket) => sockets.add(socket.on('error', () => {}))
  const server = createServer((client) => {
    keep(client)
    client.once('data', async () => {
      const plain = connect(to, '127.0.0.1')
      keep(plain)
      plain.write(request)
      await once(plain, 'data')
      const upstream = encrypt({ socket: plain, rejectUnauthorized: false })
      const inner = new TLSSocket(client, { isServer: true, secureContext: createSecureContext(certificate) })
      keep(upstream)
      keep(inner)
      client.write('S')
      inner.pipe(upstream)
      upstream.on('data', (bytes) => inner.write(withoutBinding(bytes))).on('end', () => inner.end())
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}
