/** Group commit: concurrent rows share durable transactions, and each row gets its own outcome. */
import assert from 'node:assert'
import { type BatchPolicy, waitForTurn } from './batch-policy.ts'
import { type Clock, systemClock } from './clock.ts'
import { createCutOff, type Watch } from './cut-off.ts'
import { createDeadlines, type Deadlines } from './deadlines.ts'
import { createEstimate, type Estimate } from './estimate.ts'
import { LanePolicy } from './lane-policy.ts'
import { createOutage, type Outage } from './outage.ts'
import { backoffMs, createPace, type Pace } from './pace.ts'
import { Queue } from './queue.ts'
import { Attempt, type Kind, Row } from './row.ts'
import type { Next } from './table.ts'
import type { AttemptEnd, AttemptReport, Item, Limits, Store } from './types.ts'
import { NotCommitted } from './write-failure.ts'

/** The share of the deadline that rows may be expected to wait; a new row that waits longer would probably expire. */
const mostOfDeadline = 0.8
/** A bad row's error is held back nine times as long as finding it took: a client that repeats it slows others by a tenth at most. */
const errorDelayFactor = 9

interface Options {
  /** Called when an attempt has ended. */
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
  readonly #lanePolicy: LanePolicy
  readonly #queue: Queue<T, R>
  readonly #pace: Pace
  readonly #outage: Outage
  readonly #watch: Watch
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
    this.#lanePolicy = new LanePolicy(limits)
    this.#queue = new Queue(limits, this.#lanePolicy)
    this.#pace = createPace(clock, start)
    this.#outage = createOutage(
      () => store.probe(),
      clock,
      (databaseDown, cause) => this.#onOutageChange(databaseDown, cause)
    )
    this.#watch = createCutOff(
      () => store.commitNothing(),
      clock,
      () => this.#onCommit()
    )
    this.#estimate = createEstimate(limits)
    this.#deadlines = createDeadlines(
      limits.deadlineMs,
      clock,
      (row) => this.#expire(row),
      () => this.#advance()
    )
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
   * Returns why an item would be refused now, or undefined. Callers share the expected wait: one that has all of what waits
   * (`portion` 1) may fill half of the deadline, and one that has nothing in it (0) may come until four fifths are filled.
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

  /** Begins the attempts that may begin now. */
  #start() {
    while (this.#busyLanes < this.#limits.lanes) {
      const kind = this.#lanePolicy.choose(this.#queue.isWaiting)
      if (kind === undefined || !this.#pace.tryToBegin()) break
      void this.#run(kind, this.#queue.take(kind))
    }
  }

  /** Call it when an attempt has ended or rows were settled: begins others, or ends a close that waits for nothing more. */
  #advance() {
    this.#start()
    if (!this.#closed || this.#busyLanes > 0 || this.#deadlines.rows > 0) return
    this.#deadlines.stop()
    this.#outage.stop()
    this.#pace.stop()
    this.#drained.resolve()
  }

  async #run(kind: Kind, rows: Row<T, R>[]) {
    const attempt = new Attempt(kind, rows.length, this.#clock.now())
    const { began, signal, cutOff } = attempt
    this.#lanePolicy.begin(kind)
    this.#busyLanes++
    this.#newestBegan = began
    for (const row of rows) row.begin(attempt)
    const { limitMs, lockMs } = this.#estimate.limitsOf(kind, doublingsOf(kind, rows))
    const endWatch = this.#watch(limitMs, cutOff)
    const store = this.#store
    const end = await (kind === 'lookUp' ? store.find(rows, signal) : store.insert(rows, lockMs, signal))
    endWatch()
    this.#busyLanes--
    assert(this.#busyLanes >= 0, 'a lane ends its attempt once')
    this.#lanePolicy.end(kind, rows.length, end.failure === undefined, this.#clock.now() - began)
    this.#observe(attempt, rows, end)
    this.#apply(rows, end, signal.aborted)
    this.#advance()
  }

  /** Learns from an attempt about the database, and nothing about its rows. */
  #observe({ kind, began, signal }: Attempt, rows: Row<T, R>[], { results, failure }: AttemptEnd<R>) {
    const ms = this.#clock.now() - began
    this.#options.onAttempt?.({
      rows: rows.length,
      ms,
      outcome: failure?.kind ?? (kind === 'lookUp' ? 'found' : 'written')
    })
    if (failure) {
      this.#pace.failed()
      if (signal.aborted && kind === 'newRows') this.#estimate.noteCutOff()
      const hasResponded = failure.kind !== 'away' && failure.kind !== 'lost'
      // A database that refuses rows has processed them. What was cut off proves nothing.
      if (hasResponded && !signal.aborted) this.#outage.signOfLife()
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
  #apply(rows: Row<T, R>[], { results, failure }: AttemptEnd<R>, isCutOff: boolean) {
    assert(failure || results.length === rows.length, 'each row has a result')
    const undecided: Row<T, R>[] = []
    for (const [index, row] of rows.entries()) {
      const result = results?.[index]
      if (row.state === 'done') this.#queue.releaseId(row)
      else if (result === undefined) undecided.push(row)
      else this.#settle(row, result)
    }
    // An attempt that was cut off while it waited for a connection says nothing about the database: others may have one.
    const kind = failure?.kind === 'away' && isCutOff ? 'busy' : failure?.kind
    // These rows stay together. They enter the queue at its front one by one, so the last one has to enter first.
    if (kind === 'away' || kind === 'chance') undecided.reverse()
    for (const row of undecided) this.#proceed(row, row.record(kind ?? 'nothing', failure?.error))
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

  /** Lets a row rest outside the lanes, and then calls back. */
  #rest(row: Row<T, R>, ms: number, onEnd: () => void) {
    const cancel = this.#clock.after(ms, () => {
      onEnd()
      this.#advance()
    })
    row.rest(cancel)
  }

  #settle(row: Row<T, R>, outcome: R | Error) {
    this.#deadlines.remove(row)
    row.settle(outcome)
    this.#queue.releaseId(row)
  }

  /** Fails a row; with a delay if its data is at fault and others failed with it, so that its client cannot fail others all the time. */
  #failLate(row: Row<T, R>) {
    const now = this.#clock.now()
    const arrival = row.deadline - this.#limits.deadlineMs
    const { refusal, hasFailedOthers } = row.history
    const ms = Math.min((now - arrival) * errorDelayFactor, (row.deadline - now) / 2)
    if (this.#closed || refusal === undefined || !hasFailedOthers || ms <= 0) this.#settle(row, row.toError())
    else this.#rest(row, ms, () => this.#settle(row, row.toError()))
  }

  /** Rejects a row whose deadline has passed. */
  #expire(row: Row<T, R>) {
    this.#outage.expired(row.deadline - this.#limits.deadlineMs)
    const { state, attempt, history } = row
    const reason = history.mayBeStored || state === 'tried' ? 'unknown' : 'expired'
    this.#deadlines.remove(row)
    row.settle(new NotCommitted(reason, history.cause))
    // The attempt may still write the row, so the row holds its id until the attempt has ended.
    if (state === 'tried') return attempt?.expire()
    history.cancelRest()
    this.#queue.withdraw(row)
  }

  /** The store has committed nothing, which shows that it can commit. */
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
    this.#advance()
    return this.#drained.promise
  }

  /** Call it when no probe has reached the database since a time, in ms of the clock. */
  noteAway(since: number) {
    // To the outage, this is as if a row had arrived then and expired.
    if (this.#clock.now() - since >= this.#limits.deadlineMs) this.#outage.expired(since)
  }

  /** How many rows wait for their outcome, their bytes, and what they wait for. */
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

/** Returns how often the time limit of an attempt with these rows is doubled. */
function doublingsOf<T extends Item, R>(kind: Kind, rows: Row<T, R>[]): number {
  if (kind === 'lookUp') return rows.reduce((most, { history }) => Math.max(most, history.rests), 0)
  // Trials that go together have the same. New rows have 0.
  return (rows[0] as Row<T, R>).history.doublings
}
