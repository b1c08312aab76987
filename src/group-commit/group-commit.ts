/** Group commit: concurrent rows share durable transactions, and each row gets its own outcome. */
import assert from 'node:assert'
import { Failure } from '../failures.ts'
import { Estimate } from './estimate.ts'
import { backoffMs, Health } from './health.ts'
import { Queue } from './queue.ts'
import { createRow, type OnOutcome, type Row } from './row.ts'
import { type Ending, endingOf, isLookUp, lanes, type Way, ways } from './table.ts'
import type { Clock, FailureKind, Item, Limits, Results, Store, Verdict } from './types.ts'

/** The share of the deadline that rows may be expected to wait; a new row that waits longer would probably expire. */
const mostOfDeadline = 0.8
/** A bad row's error is held back nine times as long as finding it took: a client that repeats it slows others by a tenth at most. */
const errorDelayFactor = 9
/** The part of its limit that a slow batch gets after the database has shown that it serves: both may have ended together. */
const partAfterProbe = 1 / 4
/** Rows expire this much early, so that those of one moment do together: looking for them takes time. */
const earlyMs = 10

/** How an attempt ended: an insert or a look-up that succeeded, or why it has failed. */
export type AttemptOutcome = 'written' | 'found' | FailureKind

interface Options {
  /** Called when an attempt has ended, with its number of rows and its time in ms. */
  onAttempt?: (rows: number, ms: number, outcome: AttemptOutcome) => void
  /** Called when the database has been down for longer than the deadline, and when it is back. */
  onOutage?: (databaseDown: boolean, cause?: unknown) => void
  clock?: Clock
}

const systemClock: Clock = {
  now: () => performance.now(),
  random: Math.random,
  afterPoll: setImmediate,
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    return () => clearTimeout(timer)
  }
}

/**
 * A group commit over a store. While all lanes are busy, rows gather into the next batch. A lane takes rows of its way, tries
 * them, and settles what that has decided; the table says what becomes of the others.
 */
export class GroupCommit<T extends Item, R extends string> {
  readonly #store: Store<T, R>
  readonly #limits: Limits
  readonly #onAttempt: Options['onAttempt']
  readonly #clock: Clock
  readonly #queue: Queue<T, R>
  readonly #estimate: Estimate
  readonly #health: Health
  /** How many more attempts of each way may begin, and how many run. */
  readonly #freeLanes: Record<Way, number>
  #attempts = 0
  /** How many rows wait for their outcome, and their bytes. */
  #rows = 0
  #bytes = 0
  #cancelExpiry: (() => void) | undefined
  /** Rows gather until the end of this turn of the event loop. */
  #isGathering = false
  #isClosed = false
  readonly #drained = Promise.withResolvers<void>()

  constructor(
    store: Store<T, R>,
    limits: Limits,
    { clock = systemClock, onAttempt, onOutage }: Options = {}
  ) {
    this.#store = store
    this.#limits = limits
    this.#onAttempt = onAttempt
    this.#clock = clock
    this.#queue = new Queue(limits)
    this.#estimate = new Estimate(limits)
    this.#freeLanes = { ...lanes, together: limits.lanes }
    this.#health = new Health({
      clock,
      probe: () => store.probe(),
      onOutage: (isDown, cause) => this.#isClosed || onOutage?.(isDown, cause),
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
   * Stores an item, unless it would be refused. Calls back once, by the deadline: with the store's result once the item is
   * durable, with the store's error for it, or with the Failure DeadlineExceeded or OutcomeUnknown. The callback may neither
   * call group commit, nor throw.
   */
  submit(item: T, onOutcome: OnOutcome<R>): void {
    assert(!this.#isClosed, 'nothing is submitted after the close')
    this.#rows++
    this.#bytes += item.bytes
    const now = this.#clock.now()
    this.#queue.add(createRow(item, now, now + this.#limits.deadlineMs, onOutcome))
    this.#cancelExpiry ??= this.#clock.after(this.#limits.deadlineMs, this.#expireSoon)
    if (this.#freeLanes.together === 0 || this.#isGathering) return
    // Many requests arrive in one turn: a lane that took the first of them alone would be busy when the others come.
    this.#isGathering = true
    this.#clock.afterPoll(() => {
      this.#isGathering = false
      this.#start()
    })
  }

  /** Refuses new rows; resolves when every row has its outcome and no attempt runs. */
  close() {
    this.#isClosed = true
    this.#advance()
    return this.#drained.promise
  }

  /** Begins the attempts that may begin now. */
  #start() {
    for (const way of ways)
      while (!this.#health.isPaused && this.#freeLanes[way] > 0) {
        const rows = this.#queue.take(way)
        if (rows.length === 0) break
        void this.#run(way, rows)
      }
  }

  /** Call it when an attempt has ended or rows were settled: begins others, or ends a close that waits for nothing more. */
  #advance() {
    this.#start()
    if (!this.#isClosed || this.#rows > 0 || this.#attempts > 0) return
    this.#cancelExpiry?.()
    this.#health.stop()
    this.#drained.resolve()
  }

  async #run(way: Way, rows: Row<T, R>[]) {
    const began = this.#clock.now()
    const controller = new AbortController()
    const cutOff = () => controller.abort()
    this.#freeLanes[way]--
    this.#attempts++
    for (const row of rows) row.enter('tried')
    // Nobody waits for it any more when its last row has expired.
    const lastDeadline = rows.reduce((last, { deadline }) => Math.max(last, deadline), 0)
    const cancels = [this.#clock.after(lastDeadline - began, cutOff)]
    if (way === 'together') cancels.push(this.#watchSlow(cutOff))
    const end = await this.#try(way, rows, controller.signal)
    for (const cancel of cancels) cancel()
    this.#freeLanes[way]++
    this.#attempts--
    const isCutOff = controller.signal.aborted
    this.#learn(way, rows, end, this.#clock.now() - began, isCutOff)
    this.#apply(rows, end, isCutOff)
    this.#advance()
  }

  #try(way: Way, rows: Row<T, R>[], signal: AbortSignal): Promise<Results<R> | Verdict> {
    if (way === 'together') return this.#store.insert(rows, this.#estimate.lockMs, signal)
    if (isLookUp(way)) return this.#store.find(rows, signal)
    const limitMs = this.#estimate.carefulMs(way, rows.length, rows[0]?.timesSlow ?? 0)
    return this.#store.insertEach(rows, limitMs, signal)
  }

  /**
   * Cuts off a batch that takes too long, once a probe has succeeded: then the batch is slow, and not the database. A stall of
   * the database is no reason for cancel requests. Returns a function that ends the watch.
   */
  #watchSlow(cutOff: () => void) {
    const limitMs = this.#estimate.togetherMs
    let hasEnded = false
    let cancel = this.#clock.after(limitMs, async () => {
      const error = await this.#health.probe()
      if (error || hasEnded) return
      cancel = this.#clock.after(limitMs * partAfterProbe, () => {
        this.#estimate.noteCutOff()
        cutOff()
      })
    })
    return () => {
      hasEnded = true
      cancel()
    }
  }

  /** Learns from an attempt about the database, and nothing about its rows. */
  #learn(way: Way, rows: Row<T, R>[], end: Results<R> | Verdict, ms: number, isCutOff: boolean) {
    const kind = 'kind' in end ? (end.kind as FailureKind) : undefined
    this.#onAttempt?.(rows.length, ms, kind ?? (isLookUp(way) ? 'found' : 'written'))
    // A database that refuses rows has processed them. What was cut off proves nothing.
    if (!kind || (kind !== 'away' && kind !== 'lost' && !isCutOff)) this.#health.signOfLife(!kind)
    // An insert that has left out all rows has committed nothing.
    if (way !== 'together' || 'kind' in end || end.every((result) => result === undefined)) return
    const bytes = rows.reduce((sum, { item }) => sum + item.bytes, 0)
    this.#estimate.learn(rows.length, bytes, ms)
  }

  /** Settles the rows that an attempt has decided, and lets the table decide about the others. */
  #apply(rows: Row<T, R>[], end: Results<R> | Verdict, isCutOff: boolean) {
    const [failure, results] = 'kind' in end ? [end, []] : [undefined, end]
    assert(failure || results.length === rows.length, 'each row has a result')
    const ending = failure && endingOf(failure, rows.length, isCutOff)
    // From the last one: those that enter the queue at its front keep their order.
    for (let index = rows.length - 1; index >= 0; index--) {
      const row = rows[index] as Row<T, R>
      const result = results[index]
      if (row.state === 'done') this.#queue.release(row)
      else if (ending) this.#proceed(row, ending, failure.error)
      else if (result === undefined) this.#proceed(row, 'absent')
      else if (typeof result === 'string' || result instanceof Error) this.#settle(row, result)
      else this.#proceed(row, result.kind, result.error)
    }
  }

  /** Does with a row what comes next. */
  #proceed(row: Row<T, R>, ending: Ending, error?: Error) {
    const next = row.record(ending, error)
    if (!next) return this.#failLate(row)
    const [, when] = next
    // A row that was slow once may have met a stall. It does not wait for those that are slow each time.
    const isFirst = when === 'first' || when === 'after the pause' || row.timesSlow === 1
    if (when === 'after the pause') this.#health.pause()
    if (when !== 'after its rest') return this.#queue.enter(row, isFirst)
    this.#rest(row, backoffMs(row.rests, this.#clock), () => this.#queue.enter(row, isFirst))
  }

  /** Fails a row; with a delay if its data is at fault and others failed with it, so that its client cannot fail others all the time. */
  #failLate(row: Row<T, R>) {
    const fail = () => this.#settle(row, row.toError())
    if (this.#isClosed || row.refusal === undefined || !row.failedWithOthers) return fail()
    const now = this.#clock.now()
    const ms = Math.min((now - row.arrival) * errorDelayFactor, (row.deadline - now) / 2)
    if (ms <= 0) return fail()
    this.#rest(row, ms, fail)
    // Its outcome is known: another row of its id need not wait.
    this.#queue.release(row)
  }

  /** Lets a row rest outside the lanes, and then calls back, unless it has expired. */
  #rest(row: Row<T, R>, ms: number, onEnd: () => void) {
    row.enter('resting')
    this.#clock.after(ms, () => {
      if (row.state !== 'resting') return
      onEnd()
      this.#advance()
    })
  }

  /** Tells an outcome. An attempt that still runs may write the row, which then holds its id until that has ended. */
  #settle(row: Row<T, R>, outcome: R | Error, isUnderWay = false) {
    this.#rows--
    this.#bytes -= row.item.bytes
    row.settle(outcome)
    if (!isUnderWay) this.#queue.release(row)
  }

  /** After a standstill, Node rings the timers before it reads results that have arrived in time. Those are read first. */
  readonly #expireSoon = () => this.#clock.afterPoll(() => this.#expire())

  /** Fails the rows whose deadline has come. A row that rests with its outcome is told that before its deadline. */
  #expire() {
    const now = this.#clock.now()
    let next = Number.POSITIVE_INFINITY
    for (const row of this.#queue.all()) {
      if (row.deadline > now + earlyMs) next = Math.min(next, row.deadline)
      else if (row.state !== 'done') {
        const isUnderWay = row.state === 'tried'
        const isOpen = row.mayBeStored || (isUnderWay && !isLookUp(row.way))
        const name = isOpen ? 'OutcomeUnknown' : 'DeadlineExceeded'
        void this.#health.expired(row.arrival)
        this.#settle(row, new Failure(name, { cause: row.cause }), isUnderWay)
      }
    }
    const isNext = next < Number.POSITIVE_INFINITY
    this.#cancelExpiry = isNext ? this.#clock.after(next - now, this.#expireSoon) : undefined
    this.#advance()
  }
}
