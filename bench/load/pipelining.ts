/** Clients that send requests and never read: what they can make a process hold. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const flood = 'GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(20_000)

/** Opens so many connections, sends 20,000 requests on each, reads nothing, and calls `look` after `seconds`. */
export async function floodByPipelining(
  url: string,
  count: number,
  seconds: number,
  look: () => Promise<void>
) {
  const { hostname, port } = new URL(url)
  const sockets = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
      socket.on('error', () => {}).pause()
      await once(socket, 'connect')
      socket.write(flood)
      return socket
    })
  )
  await sleep(seconds * 1_000)
  await look().finally(() => {
    for (const socket of sockets) socket.destroy()
  })
}
