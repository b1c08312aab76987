/** A connection in memory: Node's server reads and writes it as a socket, and no kernel takes part. */
import type { Server } from 'node:http'
import { Duplex } from 'node:stream'

/** The server's end of a connection. */
export class Connection extends Duplex {
  readonly remoteAddress = '127.0.0.1'
  readonly remotePort = 1
  bytesRead = 0
  readonly #onResponse: (response: string) => void

  /** Opens a connection; `onResponse` is called with each response. */
  constructor(server: Server, onResponse: (response: string) => void) {
    // Strings stay strings: a real socket also leaves their encoding to native code.
    super({ decodeStrings: false })
    this.#onResponse = onResponse
    server.emit('connection', this)
  }

  /** Sends a request. */
  send(request: Buffer) {
    this.bytesRead += request.length
    this.push(request)
  }

  override _read() {}

  override _write(chunk: Buffer | string, _: BufferEncoding, done: () => void) {
    done()
    this.#onResponse(chunk.toString('latin1'))
  }

  override _writev(chunks: { chunk: Buffer | string }[], done: () => void) {
    const text = chunks.map(({ chunk }) => chunk.toString('latin1')).join('')
    this._write(text, 'latin1', done)
  }

  setTimeout() {
    return this
  }

  setNoDelay() {
    return this
  }

  setKeepAlive() {
    return this
  }
}
