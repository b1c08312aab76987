/** A TCP server that stands for a PostgreSQL server gone wrong. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** Listens on a free port until teardown, and returns a database URL that leads there. */
export async function listen(t: Test, onConnection: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}))
    onConnection(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `postgres://gardener:thyme@127.0.0.1:${(server.address() as AddressInfo).port}/plants`
}
