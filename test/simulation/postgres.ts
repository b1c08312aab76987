/** A model of a PostgreSQL server: its log, its table, its row locks, its role, and its sessions. */

import type { Trouble } from '../support/postgres/model/protocol.ts'
import type { Columns } from '../support/postgres/model/sql.ts'
import type { Connection, Endpoint, Host } from './connection.ts'
import { Session } from './session.ts'
import type { World } from './world.ts'

/** A transaction: the rows that it locks, and those that it writes. */
export interface Transaction {
  readonly name: string
  readonly locked: Set<string>
  readonly writes: Map<string, Columns>
  waitsFor?: Transaction | undefined
  isOver: boolean
  /** It belongs to an outsider, not to a service. */
  readonly isOutside?: boolean
}

/** What a transaction's commit puts into the log. */
export type LogRecord = readonly Columns[]

/** A server. What it has written to its log survives it; what is visible to others is another matter. */
export class Postgres implements Host {
  readonly name: string
  readonly world: World
  /** Called when something was written to the log. */
  onAppend = () => {}
  isUp = true
  isSilent = false
  isStarting = false
  isPrimary: boolean
  log: LogRecord[] = []
  /** The committed rows, as others see them. */
  table = new Map<string, Columns>()
  readonly locks = new Map<string, Transaction>()
  readonly sessions = new Map<number, Session>()
  /** What every plant that is no cause itself meets, since an operator has changed the table. */
  refusal: Trouble | undefined = undefined
  /** How long a commit takes, in ms, typically. */
  commitMs = 0.5
  /** How many times longer its disk takes. */
  slowness = 1
  /** How long cancel requests take to be acted on, in ms. */
  cancelDelayMs = 0
  /** What the service's role may not do. */
  denied: 'insert' | 'select' | 'message' | undefined = undefined
  /** It reports its role to new sessions. */
  reportsRole = true
  /** What an operator has set; a client may ask for something else. */
  readonly settings = new Map<string, string>()
  #lastProcessId = 100
  #waitsForLock = new Map<string, (() => void)[]>()
  /** Commits that wait for the standby, by the length of the log that it must have. */
  #commits: { length: number; done: () => void }[] = []
  #replicated = 0
  #starts = 0

  constructor(world: World, name: string, isPrimary: boolean) {
    this.world = world
    this.name = name
    this.isPrimary = isPrimary
  }

  accept(connection: Connection): Endpoint {
    const session = new Session(this, connection, ++this.#lastProcessId)
    this.sessions.set(session.processId, session)
    return session
  }

  /** Ends it: `fast` notifies the sessions, `crash` leaves that to the kernel, `vanish` notifies nobody. */
  stop(how: 'fast' | 'crash' | 'vanish') {
    this.world.log(this.name, `stops (${how})`)
    this.isUp = this.isStarting = false
    this.isSilent = how === 'vanish'
    this.#starts++
    for (const session of this.sessions.values())
      session.terminate(how === 'fast' ? { code: '57P01' } : undefined)
    this.sessions.clear()
    this.locks.clear()
    this.#waitsForLock.clear()
    this.#commits = []
  }

  /** Starts it again: it refuses sessions while it recovers. */
  start(isPrimary: boolean, done: () => void) {
    const start = ++this.#starts
    this.isUp = this.isStarting = true
    this.isSilent = false
    this.isPrimary = isPrimary
    this.#replicated = 0
    this.world.after(this.world.duration(50), () => {
      if (start !== this.#starts) return
      this.isStarting = false
      this.replay()
      this.world.log(this.name, `is up as ${isPrimary ? 'primary' : 'standby'}`)
      done()
    })
  }

  /** Makes what is in the log visible, all of it. */
  replay() {
    this.table = new Map(this.log.flat().map((row) => [row.id as string, row]))
  }

  promote() {
    this.world.log(this.name, 'is promoted')
    this.isPrimary = true
    this.#replicated = 0
    this.replay()
  }

  /** Takes the log of a primary, up to a length. */
  follow(log: readonly LogRecord[], length: number) {
    if (length <= this.log.length) return
    for (const record of log.slice(this.log.length, length)) {
      this.log.push(record)
      for (const row of record) this.table.set(row.id as string, row)
    }
  }

  /** Writes a commit to the log; `done` is called when the standby has it. */
  append(record: LogRecord, done: () => void) {
    this.log.push(record)
    this.#commits.push({ length: this.log.length, done })
    this.onAppend()
  }

  /** The standby has all of the log. */
  get isConfirmed() {
    return this.#replicated === this.log.length
  }

  /** The standby has this much of the log. */
  confirm(length: number) {
    if (length <= this.#replicated) return
    this.#replicated = length
    const confirmed = this.#commits.filter((commit) => commit.length <= length)
    this.#commits = this.#commits.filter((commit) => commit.length > length)
    for (const { done } of confirmed) done()
  }

  /**
   * Locks a row, or waits: a statement that updates waits for its holder; one that does nothing if the id is taken
   * waits only for a writer. `done` is called when nobody is in the way.
   */
  lock(transaction: Transaction, id: string, updates: boolean, done: () => void) {
    if (transaction.isOver) return
    const holder = this.locks.get(id)
    const isInTheWay = holder && holder !== transaction && (updates || holder.writes.has(id))
    if (!isInTheWay) return done()
    transaction.waitsFor = holder
    for (let other: Transaction | undefined = holder; other; other = other.waitsFor) {
      if (other === transaction) return this.world.violate(`a deadlock over id ${id} on ${this.name}`)
    }
    this.world.reach('waits for a lock')
    const waiting = this.#waitsForLock.get(id) ?? []
    this.#waitsForLock.set(id, waiting)
    waiting.push(() => {
      transaction.waitsFor = undefined
      this.lock(transaction, id, updates, done)
    })
  }

  hold(transaction: Transaction, id: string) {
    this.locks.set(id, transaction)
    transaction.locked.add(id)
  }

  /** Ends the transactions of outsiders, and those of sessions whose client has gone, as an operator does. */
  releaseOutside() {
    for (const session of [...this.sessions.values()]) if (session.isClientGone) session.terminate()
    for (const transaction of new Set(this.locks.values()))
      if (transaction.isOutside) this.release(transaction)
  }

  /** Rolls a row back to its savepoint. */
  releaseRow(transaction: Transaction, id: string) {
    transaction.writes.delete(id)
    transaction.locked.delete(id)
    this.#free(transaction, id)
  }

  /** Ends a transaction: what it has locked is free. */
  release(transaction: Transaction) {
    transaction.waitsFor = undefined
    transaction.isOver = true
    for (const id of transaction.locked) this.#free(transaction, id)
  }

  #free(transaction: Transaction, id: string) {
    if (this.locks.get(id) === transaction) this.locks.delete(id)
    const waiting = this.#waitsForLock.get(id) ?? []
    this.#waitsForLock.delete(id)
    for (const wake of waiting) this.world.after(this.world.duration(0.02), wake)
  }
}
