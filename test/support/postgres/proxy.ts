/** A TCP proxy in front of PostgreSQL that loses responses a client waits for. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Teardown } from '../teardown.ts'

/** Starts the proxy to a port on 127.0.0.1; ends it at teardown. */
export async function startProxy(t: Teardown, port: number) {
  const sockets = new Set<Socket>()
  let losses = 0
  let lost = /INSERT 0 /
  const proxy = createServer((client) => {
    const server = connect(port, '127.0.0.1')
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
    client.pipe(server)
    server.on('data', (response) => {
      // The response to a write, which is durable by now, never arrives.
      if (losses > 0 && lost.test(response.toString('latin1'))) {
        losses--
        client.destroy()
      } else client.write(response)
    })
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  return {
    port: (proxy.address() as AddressInfo).port,
    /** Cuts the next connections on which a write succeeds, or a statement with another tag. */
    lose(count: number, tag = /INSERT 0 /) {
      losses += count
      lost = tag
    },
    /** How many of them are still to come. */
    left: () => losses
  }
}
