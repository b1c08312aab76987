/** A TCP proxy in front of PostgreSQL that loses what a client waits for. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** The type of the message (PostgreSQL manual, "Message Formats"). */
const errorResponse = 'E'.charCodeAt(0)

/** An ErrorResponse that ends a session. */
function fatal(code: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0Mthe session has ended\0\0`)
  const head = Buffer.from([errorResponse, 0, 0, 0, 0])
  head.writeInt32BE(4 + fields.length, 1)
  return Buffer.concat([head, fields])
}

/** Starts the proxy to a port on 127.0.0.1; ends it at teardown. */
export async function startProxy(t: Test, port: number) {
  const sockets = new Set<Socket>()
  let losses = 0
  let lost = /INSERT 0 /
  let isSilentAfterError = false
  let isResponding = true
  let held: (() => void)[] | undefined
  let fatalCode: string | undefined
  let received = 0
  const proxy = createServer((client) => {
    if (held) {
      client.destroy()
      const late = held
      held = undefined
      for (const pass of late) pass()
      return
    }
    let isSilent = !isResponding
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
      received += response.length
      if (fatalCode !== undefined && response.includes('INSERT 0 ')) {
        client.end(fatal(fatalCode))
        fatalCode = undefined
        return
      }
      if (held) return void held.push(() => client.write(response))
      // The response to a write, which is durable by now, never arrives.
      if (losses > 0 && lost.test(response.toString('latin1'))) {
        losses--
        client.destroy()
      } else if (isSilentAfterError && response.at(0) === errorResponse) {
        isSilentAfterError = false
        isSilent = true
        client.write(response.subarray(0, 1 + response.readInt32BE(1)))
      } else if (!isSilent) client.write(response)
    })
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  return {
    port: (proxy.address() as { port: number }).port,
    /** Cuts the next connections on which a write succeeds, or a statement with another tag. */
    lose(count: number, tag = /INSERT 0 /) {
      losses += count
      lost = tag
    },
    /** Lets the next error through, if it begins a packet, and nothing after it. */
    silenceAfterError() {
      isSilentAfterError = true
    },
    /** Cuts all open connections. */
    cut() {
      for (const socket of sockets) socket.destroy()
    },
    /** Accepts new connections from now on, but sends nothing on them. */
    fallSilent() {
      isResponding = false
    },
    /** Serves new connections again. */
    respond() {
      isResponding = true
    },
    /** Holds all responses until the next connection comes, which is that of a cancel request and is refused. */
    holdUntilCancelled() {
      held = []
    },
    /** Replaces the response to the next write that succeeds by the end of its session, with this code. */
    endFatally(code: string) {
      fatalCode = code
    },
    /** How many bytes the server has sent. */
    received: () => received,
    /** How many of them are still to come. */
    left: () => losses
  }
}
