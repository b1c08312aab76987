/** Group commit: concurrent rows share durable transactions, and each caller gets the outcome of its own row. */
import { type Clock, systemClock } from '../shared/clock.ts'
import { NotCommitted } from '../shared/write-failure.ts'
import { type CutOff, createCutOff } from './cut-off.ts'
import { createDeadlines, type Deadlines } from './deadlines.ts'
import { createEstimate, type Estimate } from './estimate.ts'
import { LanePolicy } from './lane-policy.ts'
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
}

/**
 * A group commit over a store. An idle lane takes all rows that have come by the end of the event loop's turn,
 * without a timer. While all lanes are busy, rows gather into the next batch. A lane takes rows, inserts them or looks them
 * up, and settles what that has decided; the table says what becomes of the others.
 */
export class GroupCommit<T extends Item, R> {
  readonly #store: Store<T, R>
  readonly #limits: Limits
  readonly #options: Options
  readonly #clock: Clock
  readonly #policy: LanePolicy
  readonly #queue: Queue<T, R>
  readonly #pace: Pace
  readonly #outage: Outage
  readonly #watch: CutOff
  readonly #estimate: Estimate
  readonly #deadlines: Deadlines<T, R>
  readonly #drained = Promise.withResolvers<void>()
  #busyLanes = 0
  /** When the newest attempt has begun. */
  #newestBegan = 0
  /** Rows of this turn that have found a lane idle. */
  #rowsOfTurn = 0
  #closed = false

  constructor(store: Store<T, R>, limits: Limits, options: Options = {}) {
    const clock = options.clock ?? systemClock
    const start = () => this.#start()
    this.#store = store
    this.#limits = limits
    this.#options = options
    this.#clock = clock
    this.#policy = new LanePolicy(limits)
    this.#queue = new Queue(limits, this.#policy)
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
   * The batch policy: an idle lane takes what has come by the end of this turn, or at once what fills a batch. Many requests
   * arrive in one turn: a lane that took the first alone would be busy when the others come.
   */
  #gather() {
    if (this.#rowsOfTurn++ === 0)
      this.#clock.afterPoll(() => {
        this.#rowsOfTurn = 0
        this.#start()
      })
    if (this.#rowsOfTurn % this.#limits.batchRows === 0) this.#start()
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
      const kind = this.#policy.choose(this.#queue.isWaiting)
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
    this.#policy.begin(kind)
    this.#busyLanes++
    this.#newestBegan = began
    for (const row of rows) row.begin(attempt)
    // Suspects that go together have the same slice, and new rows the first.
    const { slice } = (rows[0] as Row<T, R>).history
    const doublings =
      kind === 'lookUp' ? rows.reduce((most, { history }) => Math.max(most, history.rests), 0) : slice
    const { limitMs, lockMs } = this.#estimate.limitsOf(kind, doublings)
    const endWatch = this.#watch(limitMs, cutOff)
    const store = this.#store
    const written = await (kind === 'lookUp' ? store.find(rows, signal) : store.insert(rows, lockMs, signal))
    endWatch()
    this.#busyLanes--
    this.#policy.end(kind, rows.length, written.failure === undefined, this.#clock.now() - began)
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
      outcome: failure?.kind ?? (kind === 'lookUp' ? 'found' : 'written')
    })
    if (failure) {
      this.#pace.failed()
      if (signal.aborted && kind === 'newRows') this.#estimate.doubt()
      // The database has processed the rows, if only to refuse them. What was given up says nothing.
      if (!signal.aborted && !/away|lost/.test(failure.kind)) this.#outage.signOfLife()
      return
    }
    // An insert that has left out all rows has committed nothing.
    if (kind === 'newRows' && results.some((result) => result !== undefined)) {
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
    if (next.attempt === 'none') return this.#failLate(row)
    const { when } = next
    if (when === 'after its rest')
      return this.#rest(row, backoffMs(row.history.rests, this.#clock), () => this.#queue.enter(row))
    if (when === 'after the pause') this.#pace.pause()
    this.#queue.enter(row, when === 'last' ? 'back' : 'front')
  }

  /** Lets a row rest outside the lanes, and then calls `proceed`. */
  #rest(row: Row<T, R>, ms: number, proceed: () => void) {
    const cancel = this.#clock.after(ms, () => {
      proceed()
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
    history.cancelRest()
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
