/** Group commit: concurrent rows share durable transactions, and each row gets its own outcome. */
import { Failure } from '../failures.ts'
import { Estimate } from './estimate.ts'
import { backoffMs, Health } from './health.ts'
import { type Ending, endingOf, isLookUp, isSingle, lanes, type Mode, modes, Row } from './row.ts'
import type { FailureKind, Item, Limits, Results, Store, Verdict } from './types.ts'

/** The share of the deadline that rows may be expected to wait; a new row that waits longer would probably expire. */
const mostOfDeadline = 0.8
/** A bad row's error is held back nine times the row's age: a client that repeats it spends a tenth of its time on failing others. */
const errorDelayFactor = 9
/** The part of its limit that a slow batch gets after a probe has succeeded: a stall may have just ended for both. */
const partAfterProbe = 1 / 4
/**
 * How long before its deadline the last attempt at a single row ends, in ms, or a tenth of a short deadline. Its verdict then
 * arrives in time, and the client is told that nothing was stored, not that the outcome is unknown.
 */
const verdictMs = 100
/** How often a close looks whether something is left, in ms. */
const closeEveryMs = 10

/** What is told of attempts and outages. */
export interface Hooks {
  /** Called when an attempt has ended: with an insert or a look-up that succeeded, or why it has failed. */
  readonly onAttempt: (rows: number, ms: number, outcome: 'written' | 'found' | FailureKind) => void
  /** Called when the database is down, each minute while it is, and when it is back. */
  readonly onOutage: (databaseDown: boolean, cause?: unknown) => void
}

/**
 * A group commit over a store. While all lanes are busy, rows gather into the next batch. A lane takes rows of its mode, tries
 * them, and settles what that has decided; the table says what becomes of the others.
 */
export class GroupCommit<T extends Item, R extends string> {
  readonly #store: Store<T, R>
  readonly #limits: Limits
  readonly #onAttempt: Hooks['onAttempt']
  readonly #estimate: Estimate
  readonly #health: Health
  /** Rows that wait for a lane of their mode. */
  readonly #waiting = Object.fromEntries(modes.map((mode) => [mode, []])) as unknown as Record<
    Mode,
    Row<T, R>[]
  >
  /** How many more attempts of each mode may begin, and how many run. */
  readonly #freeLanes: Record<Mode, number>
  #attempts = 0
  /** How many rows wait for their outcome, and their bytes. */
  #rows = 0
  #bytes = 0

  constructor(store: Store<T, R>, limits: Limits, { onAttempt, onOutage }: Hooks) {
    this.#store = store
    this.#limits = limits
    this.#onAttempt = onAttempt
    this.#estimate = new Estimate(limits)
    this.#freeLanes = { ...lanes, batch: limits.lanes }
    this.#health = new Health({
      deadlineMs: limits.deadlineMs,
      probe: () => store.probe(),
      onOutage,
      onDue: () => this.#start()
    })
  }

  /**
   * Returns the name of the failure that a new item would meet now, or undefined. Callers share the expected wait: one that
   * has all of what waits (`portion` 1) may fill half of the deadline; one that has nothing in it (0), four fifths.
   */
  refusal(portion: number) {
    if (this.#health.isDown) return 'Unavailable'
    const share = Math.min(mostOfDeadline, 1 / (1 + portion))
    return this.load.expectedMs <= this.#limits.deadlineMs * share ? undefined : 'Overloaded'
  }

  /** How many rows wait, how long a new one is expected to, in ms, and whether the database is down. */
  get load() {
    const expectedMs = this.#estimate.expectMs(this.#rows, this.#bytes)
    return { rows: this.#rows, expectedMs, databaseDown: this.#health.isDown }
  }

  /**
   * Stores an item; ask `refusal` first. By the deadline, resolves with the store's result once the item is durable, or
   * rejects with the store's error for it, or with the Failure DeadlineExceeded or OutcomeUnknown.
   */
  submit(item: T): Promise<R> {
    this.#rows++
    this.#bytes += item.bytes
    const { deadlineMs } = this.#limits
    const { promise, resolve, reject } = Promise.withResolvers<R>()
    // After a standstill, Node rings the timers before it reads results that have arrived in time. Those are read first.
    const timer = setTimeout(() => setImmediate(() => this.#expire(row)), deadlineMs)
    const row: Row<T, R> = new Row(item, performance.now() + deadlineMs, (outcome) => {
      clearTimeout(timer)
      this.#rows--
      this.#bytes -= item.bytes
      if (outcome instanceof Error) reject(outcome)
      else resolve(outcome)
    })
    this.#enter(row)
    // Many requests arrive in one turn: a lane that took the first of them alone would be busy when the others come.
    if (this.#freeLanes.batch > 0 && this.#waiting.batch.length === 1) setImmediate(() => this.#start())
    return promise
  }

  /** Resolves when every row has its outcome and no attempt runs. Call it when nothing is submitted any more. */
  async close() {
    while (this.#rows > 0 || this.#attempts > 0)
      await new Promise((resolve) => setTimeout(resolve, closeEveryMs))
    this.#health.stop()
  }

  #start() {
    for (const mode of modes)
      while (!this.#health.isPaused && this.#freeLanes[mode] > 0) {
        const rows = this.#take(mode)
        if (rows.length === 0) break
        void this.#run(mode, rows)
      }
  }

  #enter(row: Row<T, R>) {
    row.enter('waiting')
    this.#waiting[row.mode].push(row)
  }

  /** Removes and returns rows of a mode for one attempt; none if none waits. */
  #take(mode: Mode): Row<T, R>[] {
    const { batchRows, batchBytes } = this.#limits
    const waiting = this.#waiting[mode]
    let bytes = 0
    const isFull = ({ item }: Row<T, R>, count: number) => {
      // A look-up sends the id alone.
      if (!isLookUp(mode)) bytes += item.bytes
      return count === (isSingle(mode) ? 1 : batchRows) || (bytes > batchBytes && count > 0)
    }
    const end = waiting.findIndex(isFull)
    const taken = waiting.splice(0, end === -1 ? waiting.length : end)
    // All lanes and processes lock ids in the same order, so that none deadlocks with another.
    return taken.sort(({ item: a }, { item: b }) => (a.id < b.id ? -1 : Number(a.id > b.id)))
  }

  async #run(mode: Mode, rows: Row<T, R>[]) {
    const began = performance.now()
    const controller = new AbortController()
    const cutOff = () => controller.abort()
    this.#freeLanes[mode]--
    this.#attempts++
    for (const row of rows) row.enter('tried')
    // The store has it first. What follows is done while the database works.
    const attempt = this.#try(mode, rows, controller.signal)
    // Nobody waits for it any more when its last row has expired.
    const lastDeadline = rows.reduce((last, { deadline }) => Math.max(last, deadline), 0)
    const timer = setTimeout(cutOff, lastDeadline - began)
    const endWatch = mode === 'batch' && this.#watchSlow(cutOff)
    const end = await attempt
    clearTimeout(timer)
    if (endWatch) endWatch()
    this.#freeLanes[mode]++
    this.#attempts--
    const ms = performance.now() - began
    const isCutOff = controller.signal.aborted
    if ('kind' in end) this.#fail(mode, rows, end, ms, isCutOff)
    else this.#apply(mode, rows, end, ms)
    this.#start()
  }

  #try(mode: Mode, rows: Row<T, R>[], signal: AbortSignal): Promise<Results<R> | Verdict> {
    const { lockMs } = this.#estimate
    if (mode === 'batch') return this.#store.insert(rows, lockMs, signal)
    if (isLookUp(mode)) return this.#store.find(rows, lockMs, signal)
    return this.#store.insertEach(rows, this.#savepointsLimitMs(mode, rows), signal)
  }

  /** Returns the limit of a careful call, in ms from 1. */
  #savepointsLimitMs(mode: Mode, rows: Row<T, R>[]): number {
    const [first] = rows as [Row<T, R>]
    const limitMs = this.#estimate.savepointsLimitMs(mode, rows.length, first.rests)
    return isSingle(mode) ? Math.max(1, Math.min(limitMs, this.#leftMs(first))) : limitMs
  }

  /** Returns how long a last attempt at a single row may take, in ms; 0 or less if there is no time for one. */
  #leftMs({ deadline }: Row<T, R>): number {
    const marginMs = Math.min(verdictMs, this.#limits.deadlineMs / 10)
    return Math.floor(deadline - performance.now() - marginMs)
  }

  /** Cuts off a batch that takes too long, once a probe has shown that the database is not slow. Returns what ends the watch. */
  #watchSlow(cutOff: () => void) {
    const limitMs = this.#estimate.batchLimitMs
    let timer = setTimeout(async () => {
      if (!(await this.#health.probe())) timer = setTimeout(cutOff, limitMs * partAfterProbe)
    }, limitMs)
    return () => clearTimeout(timer)
  }

  #fail(mode: Mode, rows: Row<T, R>[], failure: Verdict, ms: number, isCutOff: boolean) {
    this.#onAttempt(rows.length, ms, failure.kind)
    if (mode === 'batch' && isCutOff) this.#estimate.noteCutOff()
    const ending = endingOf(failure, rows.length, isCutOff)
    // What was cut off while it waited for a session shows nothing.
    if (ending === 'unavailable' || failure.kind !== 'unavailable') this.#health.hasFailed(failure)
    for (const row of rows) this.#proceed(row, ending, failure.error)
  }

  /** Settles the rows that an attempt has decided, and lets the table decide about the others. */
  #apply(mode: Mode, rows: Row<T, R>[], results: Results<R>, ms: number) {
    this.#onAttempt(rows.length, ms, isLookUp(mode) ? 'found' : 'written')
    // What has decided no row may have committed nothing.
    const isCommitted = results.some((result) => typeof result === 'string' || result instanceof Error)
    this.#health.hasServed(isCommitted)
    if (mode === 'batch' && isCommitted) this.#estimate.learn(rows, ms)
    for (const [index, row] of rows.entries()) {
      const result = results[index]
      if (result === undefined) this.#proceed(row, 'absent')
      else if (typeof result === 'object' && 'kind' in result) this.#proceed(row, result.kind, result.error)
      else if (row.state !== 'done') row.settle(result)
    }
  }

  #proceed(row: Row<T, R>, ending: Ending, error?: Error) {
    if (row.state === 'done') return
    const [mode, when] = row.record(ending, error) ?? []
    if (mode === undefined) this.#failLate(row)
    else if (when === 'after its rest') this.#rest(row, backoffMs(row.rests), () => this.#retry(row))
    else this.#enter(row)
  }

  /** Tries a row again that has rested, if there is time for a verdict. Otherwise it rests until its deadline. */
  #retry(row: Row<T, R>) {
    const needsVerdict = isSingle(row.mode) && !isLookUp(row.mode)
    if (!needsVerdict || this.#leftMs(row) > 0) this.#enter(row)
  }

  /** Fails a row; with a delay if its data is at fault and others may have failed with it, so that its client cannot fail others all the time. */
  #failLate(row: Row<T, R>) {
    const leftMs = row.deadline - performance.now()
    const ms = Math.min((this.#limits.deadlineMs - leftMs) * errorDelayFactor, leftMs / 2)
    const isLate = row.refusal !== undefined && row.insertMode !== 'batch' && ms > 0
    if (isLate) this.#rest(row, ms, () => row.settle(row.toError()))
    else row.settle(row.toError())
  }

  /** Lets a row rest outside the lanes, and then calls back, unless it has expired. */
  #rest(row: Row<T, R>, ms: number, onEnd: () => void) {
    row.enter('resting')
    setTimeout(() => {
      if (row.state !== 'resting') return
      onEnd()
      this.#start()
    }, ms)
  }

  /** Fails a row whose deadline has come. An attempt that still runs may write it. */
  #expire(row: Row<T, R>) {
    if (row.state === 'done') return
    const isOpen = row.mayBeStored || (row.state === 'tried' && !isLookUp(row.mode))
    const waiting = this.#waiting[row.mode]
    if (row.state === 'waiting') waiting.splice(waiting.indexOf(row), 1)
    row.settle(new Failure(isOpen ? 'OutcomeUnknown' : 'DeadlineExceeded', { cause: row.cause }))
  }
}
