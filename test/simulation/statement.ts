/** A statement in the model of PostgreSQL: row by row to its commit, which is worth something when the standby has it. */
import type { Transaction } from './postgres.ts'
import { messages, type Returned } from './protocol.ts'
import type { Session } from './session.ts'
import type { Command } from './sql.ts'

/** A plant with this name breaks a rule of the table. */
export const badName = 'bad'

/** A statement that runs, as a transaction of its own. */
export class Statement {
  readonly session: Session
  readonly transaction: Transaction
  readonly command: Command
  /** How many statements the session has had, with this one. */
  readonly number: number
  /** Where it is: it waits for the standby when it is in the log. */
  phase: 'executes' | 'commits' | 'waits' | 'over' = 'executes'
  /** An error that it is to meet, and how much longer it is to take, in ms. */
  error: string | undefined = undefined
  delayMs = 0
  readonly #head: readonly Buffer[]
  readonly #returned: Returned[] = []
  #isCancelled = false
  #isResultSent = false

  constructor(session: Session, command: Command, number: number, head: readonly Buffer[]) {
    this.session = session
    this.command = command
    this.number = number
    this.#head = head
    const name = `${session.node.name}:${session.processId}:${number}`
    this.transaction = { name, locked: new Set(), writes: new Map(), isOver: false }
  }

  get #node() {
    return this.session.node
  }

  get #world() {
    return this.#node.world
  }

  /** Goes on after a while, unless it is over or cancelled by then. */
  #after(ms: number, step: () => void) {
    this.#world.after(ms, () => {
      if (this.phase === 'over') return
      if (this.#isCancelled && this.phase === 'executes') this.#fail('57014')
      else step()
    })
  }

  begin() {
    const { command } = this
    this.#log(`begins: ${tell(command)}`)
    this.#world.reach('statement', this)
    const ms = this.#world.duration(0.3) * Math.sqrt(this.#node.slowness)
    this.#after(ms + this.delayMs, () => {
      if (this.error !== undefined) return this.#fail(this.error)
      if (command.kind === 'insert') {
        if (this.#node.isPrimary) this.#insert(0)
        else this.#fail('25006')
        return
      }
      if (command.kind === 'find') return this.#find(command)
      this.#returned.push({ read_only: this.#node.isPrimary ? 'off' : 'on' })
      this.#finish()
    })
  }

  #find({ ids, writes }: Extract<Command, { kind: 'find' }>) {
    for (const id of ids) {
      const row = this.#node.table.get(id)
      if (row) this.#returned.push({ ...row, pg_logical_emit_message: '0/0' })
    }
    if (!writes || this.#returned.length === 0) this.#finish()
    else if (this.#node.isPrimary) this.#commit()
    else this.#fail('XX000')
  }

  /** Goes on with a row of an insert; the rows are inserted one after the other. */
  #insert(index: number) {
    const { command, transaction } = this
    if (command.kind !== 'insert') return
    const row = command.rows[index]
    // A transaction that has not even locked a row has no commit to wait for.
    if (!row) return transaction.locked.size === 0 ? this.#finish() : this.#commit()
    if (row.name === badName) return this.#fail('23514')
    const id = row.id as string
    const again = command.onConflict === 'write again'
    let isFree = false
    this.#node.lock(transaction, id, again, () => {
      isFree = true
      const there = this.#node.table.get(id)
      if (transaction.writes.has(id)) throw new Error(`a statement has the id ${id} twice`)
      if (!there || again) this.#node.hold(transaction, id)
      if (!there) {
        transaction.writes.set(id, { ...row, created_at: transaction.name })
        this.#returned.push({ ...row, is_new: 't' })
      } else if (again && there.write_id === row.write_id) {
        transaction.writes.set(id, { ...there })
        this.#returned.push({ ...there, is_new: 'f' })
      }
      this.#after(this.#world.chance() * 0.05, () => this.#insert(index + 1))
    })
    if (!isFree) this.#after(command.lockTimeoutMs, () => isFree || this.#fail('55P03'))
  }

  #commit() {
    const { writes } = this.transaction
    this.phase = 'commits'
    // What is returned can be on its way before the commit: only the last message tells that it has happened.
    if (this.#world.random.oneIn(8)) this.#sendResult()
    this.#after(this.#world.duration(0.5) * this.#node.slowness, () => {
      this.phase = 'waits'
      this.#node.append([...writes.values()], () => this.phase === 'waits' && this.#publish())
      this.#log('is in the log')
      this.#world.reach('logged', this)
      if (this.#isCancelled && this.phase === 'waits') this.#publish(unreplicated)
    })
  }

  #publish(...notices: Buffer[]) {
    for (const [id, row] of this.transaction.writes) this.#node.table.set(id, row)
    this.#finish(...notices)
  }

  #finish(...notices: Buffer[]) {
    this.#world.reach('answers', this)
    if (this.phase === 'over') return
    if (!this.#isResultSent) this.#sendResult()
    this.#end(...notices)
  }

  #sendResult() {
    const { command } = this
    const columns = command.kind === 'readiness' ? ['read_only'] : command.returning
    const rows = this.#returned.map((row) => messages.row(columns, row))
    this.#isResultSent = true
    this.session.send(...this.#head, messages.description(columns), ...rows, messages.complete('INSERT 0 0'))
  }

  #fail(code: string) {
    this.#log(`fails: ${code}`)
    this.#world.reach(`fails: ${code}`)
    this.#end(...this.#head, messages.error(code))
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
    this.#isCancelled = true
    if (this.phase === 'executes' && this.transaction.waitsFor) this.#fail('57014')
    else if (this.phase === 'waits') this.#publish(unreplicated)
  }

  /** Its session ends: it is rolled back, unless it is in the log. */
  abandon() {
    if (this.phase === 'waits') {
      for (const [id, row] of this.transaction.writes) this.#node.table.set(id, row)
    }
    this.phase = 'over'
    this.#node.release(this.transaction)
  }

  #log(what: string) {
    this.#world.log(this.#node.name, `${this.transaction.name} ${what}`)
  }
}

/** The only sign of a commit that has not waited for its standby. */
const unreplicated = messages.warning('SyncRepWaitForLSN')

function tell(command: Command): string {
  if (command.kind === 'readiness') return 'readiness'
  if (command.kind === 'find') return `find ${command.ids.join(' ')}`
  return `insert, on conflict ${command.onConflict}: ${command.rows.map(({ id }) => id).join(' ')}`
}
