/**
 * A statement in the model of PostgreSQL: row by row to its commit, which counts once the standby has it.
 * What it understands of SQL is in sql.ts, what its rows can cause in rows.ts.
 */

import type { Trouble } from '../support/postgres/model/protocol.ts'
import { messages } from '../support/postgres/model/protocol.ts'
import type { Columns, Command } from '../support/postgres/model/sql.ts'
import type { Transaction } from './postgres.ts'
import { causeOf, storedIdOf, storedNameOf } from './rows.ts'
import type { Session } from './session.ts'

/** An error that a statement will meet, whatever it writes. */
export interface Mishap {
  readonly trouble: Trouble
  /** `logged`: though the commit is in the log. */
  readonly at: 'start' | 'commit' | 'logged'
}

/** Where commits take long, the longest is ten times the usual, in ms: a stall is a fault of its own. */
const longestCommitMs = 150

/** A statement that runs, as a transaction of its own. */
export class Statement {
  readonly session: Session
  readonly transaction: Transaction
  readonly command: Command
  /** How many statements the session has had, with this one. */
  readonly number: number
  /** Where it is: it waits for the standby when it is in the log. */
  phase: 'executes' | 'commits' | 'waits' | 'over' = 'executes'
  /** How much longer it takes, in ms. */
  delayMs = 0
  mishap: Mishap | undefined = undefined
  readonly #head: readonly Buffer[]
  readonly #returned: (string | null)[][] = []
  /** `now()`, in microseconds. */
  readonly #now: string
  /** What its rows have met, while it inserts them one by one. */
  #outcomes: { push(outcome: unknown): void; cancel(): void } | undefined = undefined
  #isCancelled = false
  #isAsleep = false
  #isResultSent = false

  constructor(session: Session, command: Command, number: number, head: readonly Buffer[]) {
    this.session = session
    this.command = command
    this.number = number
    this.#head = head
    const { node } = session
    this.#now = `${Math.floor(node.world.now * 1000)}`
    this.transaction = {
      name: `${node.name}:${session.processId}:${number}`,
      locked: new Set(),
      writes: new Map(),
      isOver: false
    }
  }

  get #node() {
    return this.session.node
  }

  get #world() {
    return this.#node.world
  }

  /** Continues after a while, unless it is over or cancelled by then. */
  #after(ms: number, step: () => void) {
    this.#world.after(ms, () => {
      if (this.phase === 'over') return
      if (this.#isCancelled && this.phase === 'executes') this.#fail({ code: '57014' })
      else step()
    })
  }

  /** The same, and a cancel request acts at once. */
  #sleep(ms: number, step: () => void) {
    this.#isAsleep = true
    this.#after(ms, () => {
      this.#isAsleep = false
      step()
    })
  }

  #setting(name: 'lock_timeout' | 'synchronous_commit' | 'client_min_messages') {
    return this.command.settings.get(name) ?? this.session.setting(name)
  }

  begin() {
    this.#log(`begins: ${describe(this.command)}`)
    this.#world.reach('statement', this)
    const ms = this.#world.duration(0.3) * Math.sqrt(this.#node.slowness)
    this.#after(ms + this.delayMs, () => {
      if (this.mishap?.at === 'start') this.#fail(this.mishap.trouble)
      else this.#execute()
    })
  }

  #execute() {
    const { command } = this
    const { isPrimary, denied } = this.#node
    if (command.kind === 'readiness') {
      this.#return({ transaction_read_only: isPrimary ? 'off' : 'on' })
      this.#finish()
    } else if (command.kind === 'find') this.#find(command)
    else if (!isPrimary) this.#fail({ code: '25006' })
    else if (denied === 'insert' || (command.kind === 'commitNothing' && denied === 'message'))
      this.#fail({ code: '42501' })
    else if (command.kind === 'commitNothing') this.#commit()
    else if (command.kind === 'insertEach') this.#insertEach(command)
    else this.#insert(0)
  }

  /** Adds a row of the table to the result. Returns false if that has failed. */
  #return(row: Columns): boolean {
    const { returning } = this.command
    // A row that is only in memory is not damaged.
    const isRead = row.transaction !== this.transaction.name && returning.some(({ reads }) => reads)
    if (isRead && causeOf(row.name)?.isDamaged) {
      this.#fail({ code: 'XX001' })
      return false
    }
    this.#returned.push(returning.map((output) => output.value(row, this.#now)))
    return true
  }

  #find({ ids, writes }: Extract<Command, { kind: 'find' }>) {
    const { denied, isPrimary, table } = this.#node
    if (denied === (writes ? 'message' : 'select')) return this.#fail({ code: '42501' })
    for (const id of ids) {
      const row = table.get(id)
      if (row && !this.#return(row)) return
    }
    if (!writes || this.#returned.length === 0) this.#finish()
    else if (isPrimary) this.#commit()
    else this.#fail({ code: 'XX000', routine: 'GetNewTransactionId' })
  }

  /** Continues with a row of an insert; the rows are inserted one after the other. */
  #insert(index: number) {
    const { command, transaction } = this
    if (command.kind !== 'insert') return
    const row = command.rows[index]
    // A transaction that has not even locked a row has no commit to wait for.
    if (!row) return transaction.locked.size === 0 ? this.#finish() : this.#commit()
    const { ms = 0, trouble, isDeferred, isSkipped } = causeOf(row.name) ?? {}
    const { refusal } = this.#node
    const insert = () => {
      // As policies, checks and casts do, it acts before the id is looked at.
      if (refusal && !causeOf(row.name)) this.#fail(refusal)
      else if (trouble && !isDeferred) this.#fail(trouble)
      else if (isSkipped) this.#insert(index + 1)
      else this.#insertRow(row, command, index)
    }
    if (ms > 0) this.#sleep(ms, insert)
    else insert()
  }

  /** Inserts rows one after the other, each with its own outcome, until the limits are over. */
  #insertEach({ rows, limitMs, softMs }: Extract<Command, { kind: 'insertEach' }>) {
    const { transaction } = this
    const softEnd = this.#world.now + softMs
    const outcomes: unknown[] = []
    const end = () => {
      this.#outcomes = undefined
      this.#returned.push([JSON.stringify(outcomes)])
      if (transaction.locked.size === 0) this.#finish()
      else this.#commit()
    }
    const proceed = () => {
      if (outcomes.length === rows.length || (outcomes.length > 0 && this.#world.now > softEnd)) end()
      else this.#insertOneOfEach(rows[outcomes.length] as Columns)
    }
    this.#outcomes = {
      push: (outcome) => {
        transaction.waitsFor = undefined
        outcomes.push(outcome)
        proceed()
      },
      cancel: () => {
        transaction.waitsFor = undefined
        outcomes.push({ code: '57014' })
        end()
      }
    }
    this.#world.after(limitMs, () => this.#outcomes?.cancel())
    proceed()
  }

  #insertOneOfEach(row: Columns) {
    const { transaction } = this
    const { ms = 0, trouble, isDeferred, isSkipped } = causeOf(row.name) ?? {}
    const outcomes = this.#outcomes
    const id = storedIdOf(row.name as string, row.id as string)
    // What comes after a cancel, or after the wait has ended, belongs to another row.
    let isOver = false
    const isCurrent = () => !isOver && this.phase === 'executes' && this.#outcomes === outcomes
    const tell = (outcome: unknown) => {
      if (!isCurrent()) return
      isOver = true
      outcomes?.push(outcome)
    }
    const fail = (trouble: Trouble) => {
      if (!isCurrent()) return
      this.#world.reach(`fails: ${trouble.code}`)
      if (trouble.severity === 'FATAL') return this.#fail(trouble)
      tell({ ...trouble, context: `${trouble.where === undefined ? '' : `${trouble.where}\n`}own\nown` })
    }
    const refusal = causeOf(row.name) ? undefined : this.#node.refusal
    const insert = () => {
      if (!isCurrent()) return
      if (refusal) return fail(refusal)
      if (trouble && !isDeferred) return fail(trouble)
      if (isSkipped) return tell(false)
      this.#node.lock(transaction, id, false, () => {
        if (!isCurrent()) return
        if (this.#node.table.has(id)) return tell(false)
        this.#node.hold(transaction, id)
        const fresh = {
          ...row,
          id,
          name: storedNameOf(row.name as string),
          created_at: this.#now,
          transaction: transaction.name
        }
        transaction.writes.set(id, fresh)
        // A deferred trigger acts at once; the end of the transaction does not.
        if (isDeferred && trouble?.where !== undefined) {
          this.#node.releaseRow(transaction, id)
          return fail(trouble)
        }
        this.#world.after(this.#world.duration(0.05), () => tell(true))
      })
      const limitMs = Number.parseInt(this.#setting('lock_timeout') ?? '0', 10)
      if (transaction.waitsFor) this.#world.after(limitMs, () => transaction.waitsFor && fail(rowLocked))
    }
    this.#world.after(ms, insert)
  }

  #insertRow(row: Columns, { onConflict }: Extract<Command, { kind: 'insert' }>, index: number) {
    const { transaction } = this
    const id = storedIdOf(row.name as string, row.id as string)
    const again = onConflict === 'write again'
    let isFree = false
    this.#node.lock(transaction, id, again, () => {
      isFree = true
      const there = this.#node.table.get(id)
      if (transaction.writes.has(id)) throw new Error(`a statement has the id ${id} twice`)
      if (!there || again) this.#node.hold(transaction, id)
      if (!there) {
        const { name: by } = transaction
        const fresh = {
          ...row,
          id,
          name: storedNameOf(row.name as string),
          created_at: this.#now,
          transaction: by
        }
        transaction.writes.set(id, fresh)
        this.#return(fresh)
      } else if (again && there.write_id === row.write_id) {
        const isSameTime = there.created_at === this.#now
        const written = { ...there, created_at: isSameTime ? `${Number(this.#now) - 1}` : there.created_at }
        transaction.writes.set(id, written as Columns)
        if (!this.#return(written as Columns)) return
      }
      this.#after(this.#world.duration(0.05), () => this.#insert(index + 1))
    })
    const limitMs = Number.parseInt(this.#setting('lock_timeout') ?? '0', 10)
    if (!isFree && limitMs > 0) this.#after(limitMs, () => isFree || this.#fail(rowLocked))
  }

  #commit() {
    const { writes } = this.transaction
    const atCommit = this.mishap?.at === 'commit' ? this.mishap.trouble : this.#deferredTrouble()
    this.phase = 'commits'
    // The result can be on its way before the commit: only the last message confirms it.
    if (atCommit || this.#world.random.oneIn(8)) this.#sendResult()
    const ms = Math.min(longestCommitMs, this.#world.duration(this.#node.commitMs)) * this.#node.slowness
    // It may outlast what has slowed it down.
    if (this.#node.slowness > 1) this.#world.trouble(ms)
    this.#after(ms, () => {
      if (atCommit) return this.#fail(atCommit)
      this.phase = 'waits'
      this.#node.append([...writes.values()], () => this.#onReplicated())
      this.#world.inserts.set(this.transaction.name, { at: this.#world.now, by: this.session.clientName })
      this.#log('is in the log')
      this.#world.reach('logged', this)
      if (this.phase !== 'waits') return
      if (this.mishap?.at === 'logged') {
        this.#publish()
        this.#fail(this.mishap.trouble)
      } else if (this.#isCancelled) this.#stopWaiting()
      else if (/off|local/.test(this.#setting('synchronous_commit') ?? 'on')) this.#succeed()
    })
  }

  #deferredTrouble(): Trouble | undefined {
    const causes = [...this.transaction.writes.values()].map(({ name }) => causeOf(name))
    return causes.find((cause) => cause?.isDeferred)?.trouble
  }

  #onReplicated() {
    if (this.phase === 'waits') this.#succeed()
  }

  #publish() {
    for (const [id, row] of this.transaction.writes) this.#node.table.set(id, row)
  }

  #succeed(...notices: Buffer[]) {
    this.#publish()
    this.#finish(...notices)
  }

  /** The only sign of a commit that has not waited for its standby is a warning, and not everyone is sent warnings. */
  #stopWaiting() {
    const isWarned = this.#setting('client_min_messages') !== 'error'
    this.#succeed(...(isWarned ? [unreplicated] : []))
  }

  #finish(...notices: Buffer[]) {
    this.#world.reach('responds', this)
    if (this.phase === 'over') return
    if (!this.#isResultSent) this.#sendResult()
    this.#end(...notices)
  }

  #sendResult() {
    const rows = this.#returned.map((row) => messages.row(row))
    this.#isResultSent = true
    if (this.command.kind === 'insertEach')
      this.session.send(messages.complete('INSERT 0 0'), messages.complete('DO'))
    this.session.send(
      ...this.#head,
      messages.description(this.command.returning),
      ...rows,
      messages.complete('INSERT 0 0')
    )
  }

  #fail(trouble: Trouble) {
    const { code, severity = 'ERROR' } = trouble
    this.#log(`fails: ${severity} ${code}`)
    if (this.command.kind === 'find') this.#world.reach('find fails')
    this.#world.reach(`fails: ${severity === 'FATAL' ? 'FATAL ' : ''}${code}`)
    if (severity === 'FATAL') this.session.terminate(trouble, true)
    else this.#end(...(this.#isResultSent ? [] : this.#head), messages.error(trouble))
  }

  #end(...parts: Buffer[]) {
    this.phase = 'over'
    this.#node.release(this.transaction)
    this.session.respond(...parts)
  }

  /** It is cancelled: a commit that is in the log already is no longer waited for. */
  cancel() {
    this.#log('is cancelled')
    this.#world.reach('cancelled', this)
    if (this.#outcomes) return this.#outcomes.cancel()
    this.#isCancelled = true
    if (this.phase === 'executes' && (this.#isAsleep || this.transaction.waitsFor))
      this.#fail({ code: '57014' })
    else if (this.phase === 'waits') this.#stopWaiting()
  }

  /** Its session ends: it is rolled back, unless it is in the log. */
  abandon() {
    this.#outcomes = undefined
    if (this.phase === 'waits') this.#publish()
    this.phase = 'over'
    this.#node.release(this.transaction)
  }

  #log(what: string) {
    this.#world.log(this.#node.name, `${this.transaction.name} ${what}`)
  }
}

const rowLocked = { code: '55P03', where: 'while inserting index tuple (0,1) in relation "plants"' }
const unreplicated = messages.warning('SyncRepWaitForLSN')

function describe(command: Command): string {
  if (command.kind === 'readiness' || command.kind === 'commitNothing') return command.kind
  if (command.kind === 'find') return `find ${command.ids.join(' ')}`
  if (command.kind === 'insertEach') return `insert each: ${command.rows.map(({ id }) => id).join(' ')}`
  return `insert, on conflict ${command.onConflict}: ${command.rows.map(({ id }) => id).join(' ')}`
}
