/**
 * A server in PostgreSQL's place: it passes sessions on to one, or plays a part, in clear text and
 * under TLS.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import type { Teardown } from '../teardown.ts'
import type { Certificate } from './certificates.ts'

/** What is played to each connection. */
export interface Part {
  /** What is sent before anything has come. */
  greeting?: Buffer
  /** What is sent for what comes, one after the other; the last of them for all that follows. */
  answers?: Buffer[]
  /**
   * The answer to a request for TLS; by default it is granted, and the part is played under TLS.
   */
  tlsAnswer?: Buffer
  /** The connection ends after the last answer. */
  ends?: boolean
}

/**
 * A message of a server: its type, its length and its content (PostgreSQL manual, "Message
 * Formats").
 */
export function message(type: string, ...content: (number | string | Buffer)[]): Buffer {
  const parts = content.map((part) => (typeof part === 'number' ? int32(part) : Buffer.from(part)))
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body])
}

/** An integer of four bytes. */
export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** The codes of requests that come before a login. */
const requestCodes = { tls: 80_877_103, cancel: 80_877_102 }

/** Starts it in front of a port on 127.0.0.1; ends it at teardown. */
export async function startDouble(t: Teardown, port: number, { key, cert }: Certificate) {
  const sockets = new Set<Duplex>()
  let part: Part | undefined
  let played = 0
  const cancels = { clear: 0, encrypted: 0 }
  const names = new Set<string>()
  const SNICallback = (name: string, done: (error: null) => void) => {
    names.add(name)
    done(null)
  }
  let isHoldingCancels = false
  const held: (() => void)[] = []
  const keep = <T extends Duplex>(socket: T): T => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    return socket
  }

  const play = (socket: Duplex, { answers = [], ends }: Part) => {
    let count = 0
    socket.on('data', () => {
      socket.write(answers[Math.min(count++, answers.length - 1)] ?? '')
      if (ends && count >= answers.length) socket.end()
    })
    socket.on('close', () => played++)
  }

  const pass = (socket: Duplex, first: Buffer, isEncrypted: boolean) => {
    const server = keep(connect(port, '127.0.0.1'))
    // Not destroyed: what has come is still to be passed on.
    socket.on('close', () => server.end())
    server.on('close', () => socket.destroy())
    const forward = () => {
      server.write(first)
      socket.pipe(server).pipe(socket)
    }
    const isCancel = first.length >= 8 && first.readUInt32BE(4) === requestCodes.cancel
    if (isCancel) cancels[isEncrypted ? 'encrypted' : 'clear']++
    if (isCancel && isHoldingCancels) held.push(forward)
    else forward()
  }

  /** Reads what begins a session, and passes it on or plays to it. */
  const begin = (socket: Duplex, isEncrypted: boolean) => {
    const now = part
    if (now) {
      play(socket, now)
      return
    }
    socket.once('data', (first: Buffer) => pass(socket, first, isEncrypted))
  }

  const server = createServer((socket) => {
    keep(socket)
    if (part?.greeting) socket.write(part.greeting)
    socket.once('data', (first: Buffer) => {
      if (first.length === 8 && first.readUInt32BE(4) === requestCodes.tls) {
        const answer = part?.tlsAnswer
        if (answer) {
          socket.write(answer)
          socket.on('close', () => played++)
          return
        }
        socket.write('S')
        begin(keep(new TLSSocket(socket, { isServer: true, key, cert, SNICallback })), true)
        return
      }
      begin(socket, false)
      socket.emit('data', first)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  t.teardown(() => {
    cut()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    /** Plays a part from now on, or passes on again; ends what is open. */
    become(next: Part | undefined) {
      part = next
      played = 0
      cut()
    },
    /** How many connections this part was played to, to their ends. */
    played: () => played,
    /** How many requests to cancel have come, in clear text and under TLS. */
    cancels,
    /** The names of servers that were asked for under TLS (RFC 6066, section 3). */
    names,
    /** Keeps requests to cancel from the server, until the function that it returns is called. */
    holdCancels() {
      isHoldingCancels = true
      return () => {
        isHoldingCancels = false
        for (const forward of held.splice(0)) forward()
      }
    }
  }
}
