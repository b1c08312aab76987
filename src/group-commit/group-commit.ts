/** Group commit: concurrent rows share durable transactions, and each caller gets the outcome of its own row. */
import { type Clock, systemClock } from '../shared/clock.ts'
import { NotCommitted } from '../shared/write-failure.ts'
import { type BatchPolicy, waitForTurn } from './batch-policy.ts'
import { type CutOff, createCutOff } from './cut-off.ts'
import { createDeadlines, type Deadlines } from './deadlines.ts'
import { createEstimate, type Estimate } from './estimate.ts'
import { backoffMs, createOutage, createPace, type Outage, type Pace } from './outage.ts'
import { Queue } from './queue.ts'
import { Attempt, type Kind, Row } from './row.ts'
import type { Next } from './table.ts'
import type { AttemptReport, Item, Limits, Store, Written } from './types.ts'

/** New rows are refused while the waiting ones would take more than this share of the deadline: they would come too late. */
const mostOfDeadline = 0.8
/** A bad row's error is held back nine times as long as finding it took: a client that repeats it slows others by a tenth at most. */
const lateness = 9

interface Options {
  onAttempt?: (report: AttemptReport) => void
  /** Called when the database has been down for longer than the deadline, and when it is back. */
  onOutage?: (databaseDown: boolean, cause?: unknown) => void
  clock?: Clock
  policy?: BatchPolicy
}

/**
 * A group commit over a store. The batch policy says when an idle lane takes rows. While all lanes are busy, rows gather into
 * the next batch. A lane takes rows, inserts them or looks them up, and settles what that has decided; the table says what
 * becomes of the others.
 */
export class GroupCommit<T extends Item, R> {
  readonly #store: Store<T, R>
  readonly #limits: Limits
  readonly #options: Options
  readonly #clock: Clock
  readonly #queue: Queue<T, R>
  readonly #pace: Pace
  readonly #outage: Outage
  readonly #watch: CutOff
  readonly #estimate: Estimate
  readonly #deadlines: Deadlines<T, R>
  /** Tells the batch policy of a row that has found a lane idle. */
  readonly #gather: () => void
  readonly #drained = Promise.withResolvers<void>()
  #busyLanes = 0
  /** When the newest attempt has begun. */
  #newestBegan = 0
  #closed = false

  constructor(store: Store<T, R>, limits: Limits, options: Options = {}) {
    const clock = options.clock ?? systemClock
    const start = () => this.#start()
    this.#store = store
    this.#limits = limits
    this.#options = options
    this.#clock = clock
    this.#queue = new Queue(limits)
    this.#pace = createPace(clock, start)
    this.#outage = createOutage(
      () => store.probe(),
      clock,
      (...change) => this.#onOutageChange(...change)
    )
    this.#watch = createCutOff(
      () => store.commit(),
      clock,
      () => this.#onCommit()
    )
    this.#estimate = createEstimate(limits)
    this.#deadlines = createDeadlines(limits.deadlineMs, clock, (row) => this.#expire(row), start)
    const { policy = waitForTurn } = options
    this.#gather = policy(limits.batchRows, clock, start)
  }

  /**
   * Stores an item. Calls one of the two once, by the deadline: `resolve` with the store's result once the item is durable,
   * or `reject` with the store's error for it or a NotCommitted, and with the number of rows in its last attempt, if there
   * was one. Neither may call back into group commit, nor throw.
   */
  submit(item: T, resolve: Row<T, R>['resolve'], reject: Row<T, R>['reject']): void {
    const reason = this.refusal(item.portion)
    if (reason) {
      reject(new NotCommitted(reason))
      return
    }
    const row = new Row<T, R>(item, this.#clock.now() + this.#limits.deadlineMs, resolve, reject)
    this.#deadlines.add(row)
    this.#queue.add(row)
    if (this.#busyLanes < this.#limits.lanes) this.#gather()
  }

  /**
   * Returns why an item would be refused now, or undefined. The wait is shared like other budgets (shares.ts): a caller alone
   * may fill half of the deadline, and one with a small `portion` of what waits may come after that.
   */
  refusal(portion = 1) {
    if (this.#closed) return 'closed'
    if (this.#outage.databaseDown) return 'databaseDown'
    const share = Math.min(mostOfDeadline, 1 / (1 + portion))
    return this.#expectedMs() <= this.#limits.deadlineMs * share ? undefined : 'full'
  }

  #expectedMs() {
    const busyMs = this.#busyLanes === this.#limits.lanes ? this.#clock.now() - this.#newestBegan : undefined
    return this.#estimate.expectMs(this.#deadlines.rows, this.#deadlines.bytes, busyMs)
  }

  #start() {
    while (this.#busyLanes < this.#limits.lanes) {
      const kind = this.#queue.choose()
      if (kind === undefined || !this.#pace.admit()) break
      void this.#run(kind, this.#queue.take(kind))
    }
    if (!this.#closed || this.#busyLanes > 0 || this.#deadlines.rows > 0) return
    this.#deadlines.stop()
    this.#outage.stop()
    this.#pace.stop()
    this.#drained.resolve()
  }

  async #run(kind: Kind, rows: Row<T, R>[]) {
    const attempt = new Attempt(kind, rows.length, this.#clock.now())
    const { began, signal, cutOff } = attempt
    this.#busyLanes++
    this.#newestBegan = began
    for (const row of rows) row.begin(attempt)
    // Suspects that go together have the same slice, and new rows the first.
    const { slice } = (rows[0] as Row<T, R>).history
    const doublings = kind === 'find' ? Math.max(...rows.map(({ history }) => history.rests)) : slice
    const { limitMs, lockMs } = this.#estimate.limitsOf(kind, doublings)
    const endWatch = this.#watch(limitMs, cutOff)
    const store = this.#store
    const written = await (kind === 'find' ? store.find(rows, signal) : store.insert(rows, lockMs, signal))
    endWatch()
    this.#busyLanes--
    this.#queue.leave(kind, rows.length, written.failure === undefined, this.#clock.now() - began)
    this.#observe(attempt, rows, written)
    this.#apply(rows, written, signal.aborted)
    this.#start()
  }

  /** Learns from an attempt about the database, and nothing about its rows. */
  #observe({ kind, began, signal }: Attempt, rows: Row<T, R>[], { results, failure }: Written<R>) {
    const ms = this.#clock.now() - began
    this.#options.onAttempt?.({
      rows: rows.length,
      ms,
      outcome: failure?.kind ?? (kind === 'find' ? 'found' : 'written')
    })
    if (failure) {
      this.#pace.failed()
      if (signal.aborted && kind === 'fresh') this.#estimate.doubt()
      // The database has processed the rows, if only to refuse them. What was given up says nothing.
      if (!signal.aborted && !/away|lost/.test(failure.kind)) this.#outage.signOfLife()
      return
    }
    // An insert that has left out all rows has committed nothing.
    if (kind === 'fresh' && results.some((result) => result !== undefined)) {
      const bytes = rows.reduce((sum, { item }) => sum + item.bytes, 0)
      this.#estimate.learn(rows.length, bytes, ms)
    }
    this.#pace.reset()
    this.#outage.signOfLife()
  }

  /** Settles the rows that an attempt has decided, and lets the table decide about the others. */
  #apply(rows: Row<T, R>[], { results, failure }: Written<R>, isCutOff: boolean) {
    const undecided: Row<T, R>[] = []
    for (const [index, row] of rows.entries()) {
      const result = results[index]
      if (row.state === 'done') this.#queue.releaseId(row)
      else if (result === undefined) undecided.push(row)
      else this.#settle(row, result)
    }
    // Cut off before it had a connection: others may have one.
    const kind = failure?.kind === 'away' && isCutOff ? 'busy' : failure?.kind
    // What stays together goes back to the front, one by one.
    if (kind === 'away' || kind === 'chance') undecided.reverse()
    for (const row of undecided) this.#proceed(row, row.meet(kind ?? 'nothing', failure?.error))
  }

  /** Does with a row what comes next. */
  #proceed(row: Row<T, R>, next: Next) {
    if (next === 'fail') this.#failLate(row)
    else if (next.startsWith('rest'))
      this.#rest(row, backoffMs(row.history.rests, this.#clock), () => this.#queue.enter(row))
    else {
      if (next === 'wait') this.#pace.pause()
      this.#queue.enter(row, next === 'wait' || next === 'repeat' ? 'unshift' : 'push')
    }
  }

  #rest(row: Row<T, R>, ms: number, end: () => void) {
    const cancel = this.#clock.after(ms, () => {
      end()
      this.#start()
    })
    row.rest(cancel)
  }

  #settle(row: Row<T, R>, outcome: R | Error) {
    this.#deadlines.remove(row)
    row.settle(outcome)
    this.#queue.releaseId(row)
  }

  /** Fails a row: late if it is at fault and others failed with it, so that its client cannot fail others all the time. */
  #failLate(row: Row<T, R>) {
    const now = this.#clock.now()
    const arrival = row.deadline - this.#limits.deadlineMs
    const { refusal, hasFailedOthers } = row.history
    const ms = Math.min((now - arrival) * lateness, (row.deadline - now) / 2)
    if (this.#closed || refusal === undefined || !hasFailedOthers || ms <= 0) this.#settle(row, row.error)
    else this.#rest(row, ms, () => this.#settle(row, row.error))
  }

  /** Rejects a row whose deadline has passed. */
  #expire(row: Row<T, R>) {
    this.#outage.expired(row.deadline - this.#limits.deadlineMs)
    const { state, attempt, history } = row
    const reason = history.mayBeStored || state === 'tried' ? 'unknown' : 'expired'
    this.#deadlines.remove(row)
    row.settle(new NotCommitted(reason, history.cause))
    // The attempt may still write the row, which therefore holds its id until the attempt has ended.
    if (state === 'tried') return attempt?.expire()
    history.endRest()
    this.#queue.withdraw(row)
  }

  /** A probe has committed something. */
  #onCommit() {
    this.#pace.reset()
    this.#outage.signOfLife()
    this.#start()
  }

  #onOutageChange(databaseDown: boolean, cause: unknown) {
    if (!this.#closed) this.#options.onOutage?.(databaseDown, cause)
    if (databaseDown) return
    this.#pace.reset()
    this.#start()
  }

  /** Refuses new rows; resolves when every row has its outcome and no attempt runs. */
  close() {
    this.#closed = true
    this.#start()
    return this.#drained.promise
  }

  /** Call it when a probe has not found the database since a time, in ms of the clock. */
  noteAway(since: number) {
    if (this.#clock.now() - since >= this.#limits.deadlineMs) this.#outage.expired(since)
  }

  /** Rows that wait for their outcome, their bytes, and what keeps them waiting. */
  get load() {
    const { rows, bytes } = this.#deadlines
    return {
      rows,
      bytes,
      expectedMs: this.#expectedMs(),
      busyLanes: this.#busyLanes,
      databaseDown: this.#outage.databaseDown
    }
  }
}
