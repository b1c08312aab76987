/** What stands for `net.Socket` in a simulated process. */
import { Duplex } from 'node:stream'
import type { Connection } from './connection.ts'
import type { Network } from './network.ts'
import { currentProcess } from './process.ts'

/** Observes a socket: what it sends, what reaches the kernel and the process, and its end. */
export interface Tap {
  onSent(bytes: Buffer): void
  onArrived(bytes: Buffer): void
  onReceived(bytes: Buffer): void
  onClosed(): void
}

/** As much of a `net.Socket` as the driver and the cancel request use. */
export class VirtualSocket extends Duplex {
  readonly #network: Network
  readonly #process = currentProcess()
  readonly #tap: Tap | undefined
  #connection: Connection | undefined
  #early: (() => void)[] = []

  constructor(network: Network, tap?: Tap) {
    super({ allowHalfOpen: false })
    this.#network = network
    this.#tap = tap
  }

  connect(_port: number, address: string) {
    const client = {
      arrive: (bytes: Buffer) => this.destroyed || this.#tap?.onArrived(bytes),
      receive: (bytes: Buffer) => {
        if (this.destroyed) return
        this.#tap?.onReceived(bytes)
        this.push(bytes)
      },
      onEnd: (reason: 'ended' | 'reset') => {
        if (this.destroyed) return
        if (reason === 'ended') this.push(null)
        else this.destroy(failure('read ECONNRESET', 'ECONNRESET'))
      }
    }
    this.#network.connect(this.#process, address, client, (connection) => {
      if (this.destroyed) connection?.toHost.send('ended')
      else if (!connection) this.destroy(failure('connect ECONNREFUSED', 'ECONNREFUSED'))
      else {
        this.#connection = connection
        this.emit('connect')
        for (const write of this.#early.splice(0)) write()
      }
    })
    return this
  }

  override _read() {}

  override _write(bytes: Buffer, _: unknown, done: () => void) {
    this.#tap?.onSent(bytes)
    this.#whenConnected((connection) => {
      connection.toHost.send(bytes)
      done()
    })
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void) {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), undefined, done)
  }

  override _final(done: () => void) {
    this.#whenConnected((connection) => {
      connection.toHost.send('ended')
      done()
    })
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void) {
    this.#tap?.onClosed()
    this.#connection?.toHost.send('ended')
    done(error)
  }

  #whenConnected(write: (connection: Connection) => void) {
    if (this.#connection) write(this.#connection)
    else this.#early.push(() => write(this.#connection as Connection))
  }

  setTimeout(ms: number, callback: () => void) {
    const timer = this.#process.setTimer(callback, ms)
    this.once('close', () => this.#process.clearTimer(timer))
    return this
  }

  setNoDelay() {
    return this
  }
  setKeepAlive() {
    return this
  }
  ref() {
    return this
  }
  unref() {
    return this
  }
}

const failure = (message: string, code: string) => Object.assign(new Error(message), { code })
