/** A session of the model of PostgreSQL: it reads a client's messages and responds to its statements, one after the other. */

import type { Trouble } from '../support/postgres/model/protocol.ts'
import { Frames, type Message, messages, readMessage } from '../support/postgres/model/protocol.ts'
import { type Command, readStatement } from '../support/postgres/model/sql.ts'
import type { Connection, Endpoint } from './connection.ts'
import type { Postgres } from './postgres.ts'
import { Statement } from './statement.ts'

/** A session, or the short life of a cancel request. */
export class Session implements Endpoint {
  readonly node: Postgres
  readonly connection: Connection
  readonly processId: number
  readonly secretKey: number
  readonly #frames = new Frames(false)
  readonly #queue: Message[] = []
  readonly #prepared = new Map<string, string>()
  /** Settings that its client has asked for. */
  #parameters = new Map<string, string>()
  #unsynced: Message[] = []
  #isClientGone = false
  #isOver = false
  /** How many statements it has had. */
  #statements = 0
  #statement: Statement | undefined

  constructor(node: Postgres, connection: Connection, processId: number) {
    this.node = node
    this.connection = connection
    this.processId = processId
    this.secretKey = node.world.random.integer(2 ** 31)
  }

  receive(bytes: Buffer) {
    for (const frame of this.#frames.push(bytes)) this.#queue.push(readMessage(frame))
    this.#next()
  }

  onEnd() {
    this.#isClientGone = true
    // A statement continues: a server looks at its connection when it has something to send.
    if (!this.#statement) this.#end()
  }

  /** Nobody waits for its statement, and perhaps no cancel request has reached it. */
  get isClientGone() {
    return this.#isClientGone
  }

  get clientName() {
    return this.connection.process.name
  }

  /** Returns a setting of the session, or of the server if its client has asked for none. */
  setting(name: string): string | undefined {
    const option = new RegExp(`-c ${name}=(\\w+)`).exec(this.#parameters.get('options') ?? '')?.[1]
    return this.#parameters.get(name) ?? option ?? this.node.settings.get(name)
  }

  /**
   * Ends it, with or without an error for its client. What its statement has put into the log stays there. PostgreSQL
   * sends none to a client that waits for the standby, as that transaction is committed; a pooler in between may.
   */
  terminate(trouble?: Trouble, isNotified = this.#statement?.phase !== 'waits') {
    if (this.#isOver) return
    if (trouble && isNotified) this.send(messages.error({ ...trouble, severity: 'FATAL' }))
    this.#isOver = true
    this.node.sessions.delete(this.processId)
    this.connection.forget(trouble ? 'ended' : 'reset')
    this.#statement?.abandon()
  }

  #end() {
    this.#isOver = true
    this.node.sessions.delete(this.processId)
    this.connection.forget('ended')
  }

  send(...parts: Buffer[]) {
    if (!this.#isClientGone) this.connection.toClient.send(Buffer.concat(parts))
  }

  /** Ends the statement that runs with its last messages. */
  respond(...parts: Buffer[]) {
    this.#statement = undefined
    this.send(...parts, messages.ready)
    if (this.#isClientGone) this.#end()
    else this.#next()
  }

  #next() {
    while (!this.#statement && !this.#isOver) {
      const message = this.#queue.shift()
      if (!message) return
      this.#handle(message)
    }
  }

  #handle(message: Message) {
    const { world, cancelDelayMs } = this.node
    switch (message.type) {
      case 'startup':
        this.#parameters = message.parameters
        world.after(world.duration(0.5), () => this.#welcome())
        break
      case 'cancel':
        world.after(world.duration(0.3) + cancelDelayMs, () => {
          this.node.sessions.get(message.processId)?.cancel(message.secretKey)
          this.#end()
        })
        break
      case 'X':
        this.#end()
        break
      case 'Q':
        this.#begin(readStatement(message.text, []), [])
        break
      case 'S':
        this.#beginPrepared()
        break
      default:
        this.#unsynced.push(message)
    }
  }

  #welcome() {
    if (this.#isOver) return
    if (this.node.isStarting) {
      this.send(messages.error({ code: '57P03', severity: 'FATAL' }))
      this.#end()
      return
    }
    const standby = {
      in_hot_standby: this.node.isPrimary ? 'off' : 'on',
      default_transaction_read_only: 'off'
    }
    const parameters = { server_version: '18.4', ...(this.node.reportsRole ? standby : {}) }
    this.send(messages.welcome(this.processId, this.secretKey, parameters))
    this.node.world.reach('connected', this)
  }

  #beginPrepared() {
    const head: Buffer[] = []
    let command: Command | undefined
    for (const message of this.#unsynced.splice(0)) {
      if (message.type === 'P') {
        this.#prepared.set(message.name, message.text)
        head.push(messages.parsed)
      } else if (message.type === 'B') {
        const text = this.#prepared.get(message.name)
        if (text === undefined) throw new Error(`a statement that was not prepared: ${message.name}`)
        command = readStatement(text, message.values)
        head.push(messages.bound)
      }
    }
    if (!command) throw new Error('a Sync that is not modelled')
    this.#begin(command, head)
  }

  #begin(command: Command, head: Buffer[]) {
    this.#statement = new Statement(this, command, ++this.#statements, head)
    this.#statement.begin()
  }

  /** Cancels what runs, if the key is right. */
  cancel(secretKey: number) {
    if (secretKey === this.secretKey) this.#statement?.cancel()
  }
}
