/**
 * Group commit. Concurrent rows share durable transactions, and each gets an outcome of its own.
 *
 * A submitted row is queued in mode `batch`. A free lane takes all rows of a mode that wait, up to
 * the limits of a batch, and runs one attempt with them; meanwhile, new rows queue for the next
 * one. So a row waits only while all lanes work, and batches grow with the load.
 *
 * An attempt has a result for each row. A result that decides the row settles it. Any other goes
 * through the table in row.ts, which says how the row is tried next: at once or after a back-off,
 * in which mode, or not at all. If a batch fails, its rows are tried again with savepoints, those
 * that share a failure again are tried one at a time, and each mode has lanes of its own. So a bad
 * row soon fails by itself. A row that may be stored already is looked up before its client is told
 * anything.
 *
 * Each row ends by its deadline: it is created, refused, or failed with an error that says whether
 * it may be stored. While the database is unavailable, no attempt begins (health.ts), and rows stay
 * queued; those of an attempt that has failed so are queued again, behind the others.
 *
 * Row assigns the states of rows, Health those of the database, and this class moves rows between
 * the queues and the lanes. None of them knows SQL or HTTP.
 */
import { Failure } from '../failures.ts'
import { Estimate } from './estimate.ts'
import { backoffMs, Health } from './health.ts'
import {
  isLookUp,
  isSingle,
  lanes,
  type Mode,
  modes,
  type ResultKind,
  Row,
  resultKindOf
} from './row.ts'
import type { AttemptFailure, FailureKind, Item, Limits, RowResults, Store } from './types.ts'

/**
 * The part of the deadline that a new row may be expected to wait. Beyond it, many would expire.
 */
const mostOfDeadline = 0.8
/**
 * The error of a bad row is held back for nine times the row's age, but for at most half of the
 * time that it has left, so that its client gets the error by the deadline. A client that sends bad
 * rows in a loop then spends about a tenth of its time on failing the batches of others.
 */
const errorDelayFactor = 9
/**
 * How much longer a slow batch may take after a successful probe, as a part of its limit. A
 * standstill of the database ends for the batch and the probe together, so the batch may be about
 * to finish.
 */
const partAfterProbe = 1 / 4
/**
 * How long before the row's deadline an attempt in the modes `single` and `singleSlow` ends, in ms;
 * with a short deadline, a tenth of it. Its result then arrives in time, and the client learns that
 * nothing was stored instead of that the outcome is unknown.
 */
const resultMarginMs = 100
/** How often `close` checks whether something is left, in ms. */
const closeCheckMs = 10

/** Who is told of attempts and outages. */
export interface Hooks {
  /**
   * Called after each attempt with its result: an insert or a look-up succeeded, or why it failed.
   */
  readonly onAttempt: (rows: number, ms: number, result: 'written' | 'found' | FailureKind) => void
  /** Called when the database is down, each minute while it is, and when it is back. */
  readonly onOutage: (databaseDown: boolean, cause?: unknown) => void
}

/** A group commit over a store, as the head of this file describes it. */
export class GroupCommit<T extends Item, R extends string> {
  readonly #store: Store<T, R>
  readonly #limits: Limits
  readonly #onAttempt: Hooks['onAttempt']
  readonly #estimate: Estimate
  readonly #health: Health
  /** The queued rows of each mode, which wait for a lane. */
  readonly #queues = Object.fromEntries(modes.map((mode) => [mode, []])) as unknown as Record<
    Mode,
    Row<T, R>[]
  >
  /** How many more attempts of each mode may begin. */
  readonly #freeLanes: Record<Mode, number>
  /** How many attempts run. */
  #attempts = 0
  /** How many rows have no outcome yet, and their bytes. */
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
      onResume: () => this.#startAttempts()
    })
  }

  /**
   * Returns the name of the failure that a new item would meet now, or undefined. `portion` is the
   * caller's part of what waits. A caller with all of it (1) is refused when the expected wait is
   * half of the deadline, one with nothing in it (0) at four fifths: so one caller leaves room.
   */
  refusal(portion: number) {
    if (this.#health.isDown) return 'Unavailable'
    const share = Math.min(mostOfDeadline, 1 / (1 + portion))
    return this.load.expectedMs <= this.#limits.deadlineMs * share ? undefined : 'Overloaded'
  }

  /** How many rows wait, how many ms a new row is expected to, and whether the database is down. */
  get load() {
    const expectedMs = this.#estimate.expectMs(this.#rows, this.#bytes)
    return { rows: this.#rows, expectedMs, databaseDown: this.#health.isDown }
  }

  /**
   * Stores an item; call `refusal` first. By the deadline, resolves with the store's value once the
   * item is durable, or rejects with the store's error for it, or with the Failure DeadlineExceeded
   * or OutcomeUnknown.
   */
  submit(item: T): Promise<R> {
    this.#rows++
    this.#bytes += item.bytes
    const { deadlineMs } = this.#limits
    const { promise, resolve, reject } = Promise.withResolvers<R>()
    // After a standstill of the process, Node runs timers before it reads sockets. The immediate
    // lets it read results first that have arrived in time.
    const timer = setTimeout(() => setImmediate(() => this.#expire(row)), deadlineMs)
    const row: Row<T, R> = new Row(item, performance.now() + deadlineMs, (outcome) => {
      clearTimeout(timer)
      this.#rows--
      this.#bytes -= item.bytes
      if (outcome instanceof Error) reject(outcome)
      else resolve(outcome)
    })
    this.#enqueue(row)
    // Many requests can arrive in one turn of the event loop. Start after the turn, so that a lane
    // takes all of them, and not the first one by itself.
    if (this.#freeLanes.batch > 0 && this.#queues.batch.length === 1)
      setImmediate(() => this.#startAttempts())
    return promise
  }

  /**
   * Resolves when every row has its outcome and no attempt runs. Submit nothing after this call.
   */
  async close() {
    while (this.#rows > 0 || this.#attempts > 0)
      await new Promise((resolve) => setTimeout(resolve, closeCheckMs))
    this.#health.stop()
  }

  /** Gives queued rows to free lanes, unless the database is unavailable. */
  #startAttempts() {
    for (const mode of modes)
      while (!this.#health.isPaused && this.#freeLanes[mode] > 0) {
        const rows = this.#take(mode)
        if (rows.length === 0) break
        void this.#runAttempt(mode, rows)
      }
  }

  #enqueue(row: Row<T, R>) {
    row.enter('queued')
    this.#queues[row.mode].push(row)
  }

  /** Removes and returns the rows of one attempt from the queue of a mode; none if it is empty. */
  #take(mode: Mode): Row<T, R>[] {
    const queue = this.#queues[mode]
    const mostRows = isSingle(mode) ? 1 : this.#limits.batchRows
    // A look-up sends ids only, whatever the size of the rows.
    const mostBytes = isLookUp(mode) ? Number.POSITIVE_INFINITY : this.#limits.batchBytes
    let count = 0
    let bytes = 0
    for (const { item } of queue) {
      bytes += item.bytes
      // The first row is taken whatever its size: one that is larger than a batch goes by itself.
      if (count === mostRows || (count > 0 && bytes > mostBytes)) break
      count++
    }
    // All lanes and all processes lock ids in the same order, so that no two of them deadlock.
    return queue
      .splice(0, count)
      .sort(({ item: a }, { item: b }) => (a.id < b.id ? -1 : Number(a.id > b.id)))
  }

  async #runAttempt(mode: Mode, rows: Row<T, R>[]) {
    const began = performance.now()
    const controller = new AbortController()
    const cutOff = () => controller.abort()
    this.#freeLanes[mode]--
    this.#attempts++
    for (const row of rows) row.enter('running')
    // Send the statement first. What follows is done while the database works.
    const attempt = this.#try(mode, rows, controller.signal)
    // When the last row has expired, nobody waits for the attempt any more.
    const lastDeadline = rows.reduce((last, { deadline }) => Math.max(last, deadline), 0)
    const timer = setTimeout(cutOff, lastDeadline - began)
    const endWatch = mode === 'batch' && this.#watchForSlowRow(cutOff)
    const result = await attempt
    clearTimeout(timer)
    if (endWatch) endWatch()
    this.#freeLanes[mode]++
    this.#attempts--
    const ms = performance.now() - began
    const isCutOff = controller.signal.aborted
    if ('kind' in result) this.#handleFailure(mode, rows, result, ms, isCutOff)
    else this.#handleResults(mode, rows, result, ms)
    this.#startAttempts()
  }

  #try(
    mode: Mode,
    rows: Row<T, R>[],
    signal: AbortSignal
  ): Promise<RowResults<R> | AttemptFailure> {
    const { lockMs } = this.#estimate
    if (mode === 'batch') return this.#store.insert(rows, lockMs, signal)
    if (isLookUp(mode)) return this.#store.find(rows, lockMs, signal)
    return this.#store.insertEach(rows, this.#savepointsLimitMs(mode, rows), signal)
  }

  /** Returns the time limit of an attempt with savepoints, in ms, at least 1. */
  #savepointsLimitMs(mode: Mode, rows: Row<T, R>[]): number {
    const [first] = rows as [Row<T, R>]
    const limitMs = this.#estimate.savepointsLimitMs(mode, rows.length, first.backoffs)
    return isSingle(mode) ? Math.max(1, Math.min(limitMs, this.#leftMs(first))) : limitMs
  }

  /** Returns how many ms a last attempt at a single row may take; 0 or less if it is too late. */
  #leftMs({ deadline }: Row<T, R>): number {
    const marginMs = Math.min(resultMarginMs, this.#limits.deadlineMs / 10)
    return Math.floor(deadline - performance.now() - marginMs)
  }

  /**
   * Cuts off a batch that takes too long, once a probe has shown that the database itself is quick.
   * Returns a function that ends the watch.
   */
  #watchForSlowRow(cutOff: () => void) {
    const limitMs = this.#estimate.batchLimitMs
    let timer = setTimeout(async () => {
      // If the attempt has ended meanwhile, the abort does nothing.
      if (!(await this.#health.probe())) timer = setTimeout(cutOff, limitMs * partAfterProbe)
    }, limitMs)
    return () => clearTimeout(timer)
  }

  /** Handles an attempt that has failed as a whole. */
  #handleFailure(
    mode: Mode,
    rows: Row<T, R>[],
    failure: AttemptFailure,
    ms: number,
    isCutOff: boolean
  ) {
    this.#onAttempt(rows.length, ms, failure.kind)
    if (mode === 'batch' && isCutOff) this.#estimate.noteCutOff()
    const result = resultKindOf(failure, rows.length, isCutOff)
    // We cut it off before it had a connection. That says nothing about the database.
    const hadNoConnectionYet = failure.kind === 'unavailable' && result !== 'unavailable'
    if (!hadNoConnectionYet) this.#health.noteFailure(failure)
    for (const row of rows) this.#handleResult(row, result, failure.error)
  }

  /** Settles the rows that an attempt has decided, and lets the table decide about the others. */
  #handleResults(mode: Mode, rows: Row<T, R>[], results: RowResults<R>, ms: number) {
    this.#onAttempt(rows.length, ms, isLookUp(mode) ? 'found' : 'written')
    // An attempt that has decided no row may have committed nothing.
    const isCommitted = results.some(
      (result) => typeof result === 'string' || result instanceof Error
    )
    this.#health.noteAnswer(isCommitted)
    if (mode === 'batch' && isCommitted) this.#estimate.learn(rows, ms)
    for (const [index, row] of rows.entries()) {
      const result = results[index]
      if (result === undefined) this.#handleResult(row, 'absent')
      else if (typeof result === 'object' && 'kind' in result)
        this.#handleResult(row, result.kind, result.error)
      else if (row.state !== 'done') row.settle(result)
    }
  }

  /** Does what the table says about a row that an attempt has not decided. */
  #handleResult(row: Row<T, R>, result: ResultKind, error?: Error) {
    if (row.state === 'done') return
    const [mode, when] = row.recordResult(result, error) ?? []
    if (mode === undefined) this.#failRow(row)
    else if (when === 'afterBackoff')
      this.#backOff(row, backoffMs(row.backoffs), () => this.#requeue(row))
    else this.#enqueue(row)
  }

  /**
   * Queues a row that has backed off. A single insert is not started if there is no time for its
   * result: started now, it would make the outcome unknown. The row then waits for its deadline.
   */
  #requeue(row: Row<T, R>) {
    const needsResult = isSingle(row.mode) && !isLookUp(row.mode)
    if (!needsResult || this.#leftMs(row) > 0) this.#enqueue(row)
  }

  /**
   * Fails a row. If its error is permanent and others may have failed with it, the error is held
   * back, so that its client cannot make others fail all the time.
   */
  #failRow(row: Row<T, R>) {
    const leftMs = row.deadline - performance.now()
    const ms = Math.min((this.#limits.deadlineMs - leftMs) * errorDelayFactor, leftMs / 2)
    // A row leaves the mode `batch` only if its batch has failed or left it out.
    const mayHaveFailedOthers = row.insertMode !== 'batch'
    const isDelayed = row.permanentError !== undefined && mayHaveFailedOthers && ms > 0
    if (isDelayed) this.#backOff(row, ms, () => row.settle(row.toError()))
    else row.settle(row.toError())
  }

  /** Lets a row wait outside of the lanes, and then calls back, unless the row has expired. */
  #backOff(row: Row<T, R>, ms: number, onEnd: () => void) {
    row.enter('backingOff')
    setTimeout(() => {
      if (row.state !== 'backingOff') return
      onEnd()
      this.#startAttempts()
    }, ms)
  }

  /** Fails a row whose deadline has come. An attempt that still runs may store it. */
  #expire(row: Row<T, R>) {
    if (row.state === 'done') return
    const isInserting = row.state === 'running' && !isLookUp(row.mode)
    const queue = this.#queues[row.mode]
    if (row.state === 'queued') queue.splice(queue.indexOf(row), 1)
    const reason = row.mayBeStored || isInserting ? 'OutcomeUnknown' : 'DeadlineExceeded'
    row.settle(new Failure(reason, { cause: row.cause }))
  }
}
