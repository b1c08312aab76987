/** Group commit: concurrent rows share durable transactions, and each caller gets the outcome of its own row. */
import { type Clock, systemClock } from '../shared/clock.ts'
import { NotCommitted, type WriteFailure } from '../shared/write-failure.ts'
import { createCutOff } from './cut-off.ts'
import { createDeadlines } from './deadlines.ts'
import { createEstimate } from './estimate.ts'
import { createOutage, createPace, pauseMs } from './outage.ts'
import { createQueue } from './queue.ts'
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
 * Makes a group commit over a store. An idle lane takes all rows that have come by the end of the event loop's turn,
 * without a timer. While all lanes are busy, rows gather into the next batch. A lane takes rows, inserts them or looks them
 * up, and settles what that has decided; the table says what becomes of the others.
 */
export function createGroupCommit<T extends Item, R>(
  store: Store<T, R>,
  limits: Limits,
  { onAttempt, onOutage, clock = systemClock }: Options = {}
) {
  const queue = createQueue<T, R>(limits)
  const pace = createPace(clock, start)
  const outage = createOutage(() => store.probe(), clock, onOutageChange)
  const watch = createCutOff(() => store.commit(), clock, onCommit)
  const estimate = createEstimate(limits)
  const deadlines = createDeadlines<T, R>(limits.deadlineMs, clock, giveUp, start)
  const drained = Promise.withResolvers<void>()
  let busyLanes = 0
  /** When the newest attempt has begun. */
  let newestBegan = 0
  /** Rows of this turn that have found a lane idle. */
  let rowsOfTurn = 0
  let closed = false

  /**
   * Stores an item. Calls one of the two once, by the deadline: `resolve` with the store's result once the item is durable,
   * or `reject` with the store's error for it or a NotCommitted, and with the number of rows in its last attempt, if there
   * was one. Neither may call back into group commit, nor throw.
   */
  function submit(item: T, resolve: Row<T, R>['resolve'], reject: Row<T, R>['reject']): void {
    const reason = refusal(item.portion)
    if (reason) {
      reject(new NotCommitted(reason))
      return
    }
    const row = new Row<T, R>(item, clock.now() + limits.deadlineMs, resolve, reject)
    deadlines.add(row)
    queue.add(row)
    if (busyLanes < limits.lanes) gather()
  }

  /**
   * The batch policy: an idle lane takes what has come by the end of this turn, or at once what fills a batch. Many requests
   * arrive in one turn: a lane that took the first alone would be busy when the others come.
   */
  function gather() {
    if (rowsOfTurn++ === 0)
      clock.afterPoll(() => {
        rowsOfTurn = 0
        start()
      })
    if (rowsOfTurn % limits.batchRows === 0) start()
  }

  /**
   * Returns why an item would be refused now, or undefined. The wait is shared like other budgets (shares.ts): a caller alone
   * may fill half of the deadline, and one with a small `portion` of what waits may come after that.
   */
  function refusal(portion = 1) {
    if (closed) return 'closed'
    if (outage.databaseDown) return 'databaseDown'
    const share = Math.min(mostOfDeadline, 1 / (1 + portion))
    return expectedMs() <= limits.deadlineMs * share ? undefined : 'full'
  }

  function expectedMs() {
    const busyMs = busyLanes === limits.lanes ? clock.now() - newestBegan : undefined
    return estimate.expectMs(deadlines.rows, deadlines.bytes, busyMs)
  }

  function start() {
    while (busyLanes < limits.lanes) {
      const kind = queue.choose()
      if (kind === undefined || !pace.admit()) break
      void run(kind, queue.take(kind))
    }
    if (!closed || busyLanes > 0 || deadlines.rows > 0) return
    deadlines.stop()
    outage.stop()
    pace.stop()
    drained.resolve()
  }

  async function run(kind: Kind, rows: Row<T, R>[]) {
    const attempt = new Attempt(kind, rows.length, clock.now())
    const { began, signal, cutOff } = attempt
    busyLanes++
    newestBegan = began
    for (const row of rows) row.begin(attempt)
    const { limitMs, lockMs } = estimate.limitsOf(kind, (rows[0] as Row<T, R>).history.slice)
    const endWatch = watch(limitMs, cutOff)
    const written = await (kind === 'find' ? store.find(rows, signal) : store.insert(rows, lockMs, signal))
    endWatch()
    busyLanes--
    queue.leave(kind, rows.length, written.failure === undefined, clock.now() - began)
    observe(attempt, rows, written.failure)
    apply(rows, written, signal.aborted)
    start()
  }

  /** Learns from an attempt about the database, and nothing about its rows. */
  function observe({ kind, began, signal }: Attempt, rows: Row<T, R>[], failure?: WriteFailure) {
    const ms = clock.now() - began
    onAttempt?.({ rows: rows.length, ms, outcome: failure?.kind ?? (kind === 'find' ? 'found' : 'written') })
    if (failure) {
      pace.failed()
      if (signal.aborted && kind === 'fresh') estimate.doubt()
      // The database has processed the rows, if only to refuse them. What was given up says nothing.
      if (!signal.aborted && !/away|lost/.test(failure.kind)) outage.signOfLife()
      return
    }
    if (kind === 'fresh') estimate.learn(rows.length, countBytes(rows), ms)
    pace.reset()
    outage.signOfLife()
  }

  /** Settles the rows that an attempt has decided, and lets the table decide about the others. */
  function apply(rows: Row<T, R>[], { results, failure }: Written<R>, isCutOff: boolean) {
    const undecided: Row<T, R>[] = []
    for (const [index, row] of rows.entries()) {
      const result = results[index]
      if (row.state === 'done') queue.release(row)
      else if (result === undefined) undecided.push(row)
      else settle(row, result)
    }
    // Cut off before it had a connection: others may have one.
    const kind = failure?.kind === 'away' && isCutOff ? 'busy' : failure?.kind
    // What stays together goes back to the front, one by one.
    if (kind === 'away' || kind === 'chance') undecided.reverse()
    for (const row of undecided) proceed(row, row.meet(kind ?? 'nothing', failure?.error))
  }

  /** Does with a row what comes next. */
  function proceed(row: Row<T, R>, next: Next) {
    if (next === 'fail') failLate(row)
    else if (next.startsWith('rest')) rest(row, pauseMs(row.history.rests, clock), () => queue.enter(row))
    else {
      if (next === 'wait') pace.pause()
      queue.enter(row, next === 'wait' || next === 'repeat' ? 'unshift' : 'push')
    }
  }

  function rest(row: Row<T, R>, ms: number, end: () => void) {
    const cancel = clock.after(ms, () => {
      end()
      start()
    })
    row.rest(cancel)
  }

  function settle(row: Row<T, R>, outcome: R | Error) {
    deadlines.remove(row)
    row.settle(outcome)
    queue.release(row)
  }

  /** Fails a row: late if it is at fault and others failed with it, so that its client cannot fail others all the time. */
  function failLate(row: Row<T, R>) {
    const now = clock.now()
    const arrival = row.deadline - limits.deadlineMs
    const { refusal, hasFailedOthers } = row.history
    const ms = Math.min((now - arrival) * lateness, (row.deadline - now) / 2)
    if (closed || refusal === undefined || !hasFailedOthers || ms <= 0) settle(row, row.error)
    else rest(row, ms, () => settle(row, row.error))
  }

  /** Rejects a row whose deadline has passed. */
  function giveUp(row: Row<T, R>) {
    outage.expired(row.deadline - limits.deadlineMs)
    const { state, attempt, history } = row
    const reason = history.mayBeStored || state === 'tried' ? 'unknown' : 'expired'
    deadlines.remove(row)
    row.settle(new NotCommitted(reason, history.cause))
    // The attempt may still write the row, which therefore holds its id until the attempt has ended.
    if (state === 'tried') return attempt?.expire()
    history.endRest()
    queue.withdraw(row)
  }

  /** A probe has committed something. */
  function onCommit() {
    pace.reset()
    outage.signOfLife()
    start()
  }

  function onOutageChange(databaseDown: boolean, cause: unknown) {
    if (!closed) onOutage?.(databaseDown, cause)
    if (databaseDown) return
    pace.reset()
    start()
  }

  return {
    submit,
    refusal,
    /** Refuses new rows; resolves when every row has its outcome and no attempt runs. */
    close() {
      closed = true
      start()
      return drained.promise
    },
    /** Call it when a probe has not found the database since a time, in ms of the clock. */
    noteAway(since: number) {
      if (clock.now() - since >= limits.deadlineMs) outage.expired(since)
    },
    /** Rows that wait for their outcome, their bytes, and what keeps them waiting. */
    get load() {
      const { rows, bytes } = deadlines
      return { rows, bytes, expectedMs: expectedMs(), busyLanes, databaseDown: outage.databaseDown }
    }
  }
}

const countBytes = (rows: readonly Row<Item, never>[]) => rows.reduce((sum, { item }) => sum + item.bytes, 0)

export type GroupCommit<T extends Item, R> = ReturnType<typeof createGroupCommit<T, R>>
