/** Group commit: concurrent rows share durable transactions, and each caller gets the outcome of its own row. */
import { createBackOff, createOutage, pauseMs } from './outage.ts'
import { createQueue } from './queue.ts'
import { type Attempt, createPendingRows, createWaitEstimate, Row } from './rows.ts'
import {
  type AttemptReport,
  type Clock,
  type Item,
  type Limits,
  NotCommitted,
  type Store,
  systemClock,
  type WriteFailure,
  type Written
} from './types.ts'
import { createEvidence, judge } from './verdict.ts'

/** How often a row is tried again that was neither written nor conflicts with another. */
const repeatsOfMissing = 3
/** New rows are refused while the waiting ones would take more than this share of the deadline: they would come too late. */
const mostOfDeadline = 0.8
/** Into how many parts rows that have failed together are split at most; fewer if attempts take long. */
const mostParts = 4
/** The attempts with these parts may together take the deadline divided by this. */
const partsOfDeadline = 8
/** An attempt with suspects may take this many times as long as recent ones, or this share of the deadline. */
const patience = 2
const shareOfSuspects = 1 / 24
/** A row that others failed with gets its error after this many times as long as it took to find: it costs them a tenth of the time. */
const delayOfFault = 9

interface Options {
  onAttempt?: (report: AttemptReport) => void
  /** Called when the database has been down for longer than the deadline, and when it is back. */
  onOutage?: (databaseDown: boolean, cause?: unknown) => void
  clock?: Clock
}

/**
 * Makes a group commit over a store. An idle lane takes all rows that have come by the end of the event loop's turn,
 * without a timer. While all lanes are busy, rows gather into the next batch. A lane takes rows, writes them and applies the
 * verdict. Rows that have failed wait in the queue, by themselves or all together.
 */
export function createGroupCommit<T extends Item, R>(
  store: Store<T, R>,
  limits: Limits,
  { onAttempt, onOutage, clock = systemClock }: Options = {}
) {
  const queue = createQueue<T, R>(limits, companyOf)
  const backOff = createBackOff(clock, start)
  const evidence = createEvidence()
  const outage = createOutage(() => store.probe(), clock, onOutageChange)
  const waitEstimate = createWaitEstimate(limits)
  const pendingRows = createPendingRows<T, R>(limits.deadlineMs, clock, giveUp, start)
  const drained = Promise.withResolvers<void>()
  let busyLanes = 0
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
    pendingRows.add(row)
    queue.add(row)
    if (busyLanes === limits.lanes) return
    // Many requests arrive in one turn: a lane that took the first alone would be busy when the others come.
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

  const expectedMs = () => waitEstimate.expectMs(pendingRows.rows, pendingRows.bytes)

  function start() {
    while (busyLanes < limits.lanes) {
      const batch = queue.take(backOff.held)
      if (!batch) break
      busyLanes++
      void run(batch.rows, batch.isSuspect)
    }
    if (!closed || busyLanes > 0 || pendingRows.rows > 0) return
    pendingRows.stop()
    outage.stop()
    backOff.end()
    drained.resolve()
  }

  async function run(rows: Row<T, R>[], isSuspect: boolean) {
    const controller = new AbortController()
    const giveUp = () => controller.abort()
    // New rows may take as long as the store lets them.
    const cancelLimit = isSuspect ? clock.after(limitMs(rows), giveUp) : undefined
    const { length } = rows
    const began = clock.now()
    const attempt: Attempt = { rows: length, waiting: length, giveUp, began, since: evidence.now }
    for (const row of rows) {
      row.state = 'trying'
      row.attempt = attempt
    }
    const written = await store.write(rows, controller.signal)
    cancelLimit?.()
    busyLanes--
    apply(rows, written, attempt, isSuspect)
    start()
  }

  const slowMs = () => Math.max(limits.deadlineMs * shareOfSuspects, waitEstimate.attemptMs * patience)

  /**
   * How many suspects may go with this one. Until something is written, or it is clear that nothing can be,
   * one goes alone: it shows whether the database serves, and how long it takes now.
   */
  function companyOf({ failed, company }: Row<T, R>) {
    const isKnown = evidence.wasWritten(failed?.since) || evidence.isEverybodys(failed?.since)
    const partsInTime = Math.floor(limits.deadlineMs / partsOfDeadline / waitEstimate.attemptMs)
    return isKnown ? Math.ceil(company / Math.max(1, Math.min(mostParts, partsInTime))) : 1
  }

  /** How long suspects may take, so that the rows after them have their turn. */
  function limitMs([any]: Row<T, R>[]) {
    const { rests, failed, deadline } = any as Row<T, R>
    if (rests > 0) return slowMs()
    if (!evidence.wasWritten(failed?.since)) return (deadline - clock.now()) / 2
    return Math.max((limits.deadlineMs * shareOfSuspects) / 10, waitEstimate.attemptMs * patience)
  }

  /** Settles the rows that an attempt has decided, and judges the others. */
  function apply(rows: Row<T, R>[], { results, failure }: Written<R>, attempt: Attempt, isSuspect: boolean) {
    const ms = clock.now() - attempt.began
    queue.leave(isSuspect, ms, isSuspect || (failure !== undefined && rows.length === 1))
    onAttempt?.({ rows: rows.length, ms, outcome: outcomeOf(failure) })
    if (failure === undefined) {
      // Suspects that were cut off before had too little time: not one row is slow, but all.
      if (ms > slowMs()) queue.regroup()
      const bytes = rows.reduce((sum, { item }) => sum + item.bytes, 0)
      waitEstimate.learn(rows.length, bytes, ms)
    }
    let decided = 0
    const undecided: Row<T, R>[] = []
    for (const [index, row] of rows.entries()) {
      const result = results[index]
      if (result !== undefined) decided++
      if (row.state === 'done') queue.release(row)
      else if (result === undefined) undecided.push(row)
      else if (result instanceof Error) fail(row, result)
      else {
        pendingRows.settle(row)
        row.resolve(result, rows.length)
        queue.release(row)
      }
    }
    if (failure === undefined || decided > 0) {
      evidence.clear()
      backOff.clear()
      outage.signOfLife()
    } else if (attempt.waiting > 0 && isAlive(failure)) outage.signOfLife()
    for (const row of undecided) row.failed ??= attempt
    if (failure) blame(undecided, failure, rows.length - decided, isSuspect)
    else
      for (const row of undecided)
        if (row.misses++ < repeatsOfMissing) tryLater(row)
        else fail(row, new NotCommitted(row.mayBeStored ? 'unknown' : 'missing', row.cause))
  }

  /** Judges the remaining rows that have failed together. */
  function blame(rows: Row<T, R>[], failure: WriteFailure, failed: number, isSuspect: boolean) {
    // Sorted by id, the rows at fault may be next to each other: spread them over the parts.
    shuffle(rows, clock)
    const [any] = rows
    // No caller waits any more, so the attempt was given up. That says nothing about the database.
    if (any === undefined) return
    const isAlone = failed === 1
    const { since } = any.failed as Attempt
    evidence.add(failure, isAlone)
    const isEverybodys = evidence.isEverybodys(since)
    const first: Row<T, R>[] = []
    // If others fail, too, hold new rows back: otherwise all of them would become suspects.
    if (!isSuspect && failure.whose === 'unclear' && failure.again !== 'never' && evidence.isEverybodys())
      backOff.begin('everything')
    for (const row of rows) {
      row.cause = failure.error
      row.mayBeStored ||= failure.written === 'maybe'
      switch (judge(failure, row, isAlone, isEverybodys)) {
        case 'fail': {
          const error = row.mayBeStored ? new NotCommitted('unknown', failure.error) : failure.error
          if (isEverybodys || failure.whose === 'database') fail(row, error)
          else failLate(row, error)
          break
        }
        case 'wait': {
          // Only rows that may be stored wait for the repair of what is broken. New rows get the error.
          const isBroken = failure.again === 'never'
          if (isBroken) row.company = Math.min(row.company, limits.batchRows)
          backOff.begin(isSuspect || isBroken ? 'suspects' : 'everything')
          // One of them may be at fault after all: one goes ahead alone.
          if (failure.whose !== 'database' && row === any) row.company = 1
          first.push(row)
          break
        }
        case 'repeat':
          row.repeats++
          first.push(row)
          break
        case 'split':
          row.repeats = 0
          row.company = Math.min(failed, Math.ceil(row.company / 2))
          queue.enter(row)
          break
        case 'rest':
          if (isEverybodys) backOff.begin('suspects')
          tryLater(row)
      }
    }
    for (const row of first.reverse()) queue.enter(row, 'unshift')
  }

  /** Lets a row wait outside of the queue; afterwards it is tried alone. */
  function tryLater(row: Row<T, R>) {
    row.company = 1
    rest(row, pauseMs(row.rests++, clock), () => queue.enter(row))
  }

  function rest(row: Row<T, R>, ms: number, end: () => void) {
    row.state = 'resting'
    row.endRest = clock.after(ms, () => {
      end()
      start()
    })
  }

  function onOutageChange(databaseDown: boolean, cause: unknown) {
    if (!closed) onOutage?.(databaseDown, cause)
    if (!databaseDown) backOff.end()
  }

  function fail(row: Row<T, R>, error: unknown) {
    pendingRows.settle(row)
    row.reject(error, row.attempt?.rows)
    queue.release(row)
  }

  /** Fails a row at fault: later if others failed with it, so that its client cannot fail others all the time. */
  function failLate(row: Row<T, R>, error: unknown) {
    const { rows, began } = row.failed as Attempt
    const now = clock.now()
    const ms = Math.min((now - began) * delayOfFault, (row.deadline - now) / 2)
    if (closed || rows === 1 || ms <= 0) fail(row, error)
    else rest(row, ms, () => fail(row, error))
  }

  /** Rejects a row whose deadline has passed. */
  function giveUp(row: Row<T, R>) {
    outage.expired(row.deadline - limits.deadlineMs)
    const isTried = row.state === 'trying'
    const reason = row.mayBeStored || isTried ? 'unknown' : 'expired'
    pendingRows.settle(row)
    row.reject(new NotCommitted(reason, row.cause), row.attempt?.rows)
    if (isTried) {
      // The attempt may still write the row, which therefore holds its id until the attempt has ended.
      if (row.attempt && --row.attempt.waiting === 0) row.attempt.giveUp()
      return
    }
    row.endRest()
    queue.withdraw(row)
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
      const { rows, bytes } = pendingRows
      return { rows, bytes, expectedMs: expectedMs(), busyLanes, databaseDown: outage.databaseDown }
    }
  }
}

function shuffle<E>(elements: E[], clock: Clock) {
  for (const [at, element] of elements.entries()) {
    const other = at + Math.floor(clock.random() * (elements.length - at))
    elements[at] = elements[other] as E
    elements[other] = element
  }
}

/** Whether the database has processed the rows, if only to refuse them. */
const isAlive = ({ written, whose, again }: WriteFailure) =>
  written === 'no' && (whose !== 'database' || again === 'never')

const outcomeOf = (failure: WriteFailure | undefined) =>
  failure === undefined ? 'written' : failure.written === 'maybe' ? 'unknown' : failure.whose

export type GroupCommit<T extends Item, R> = ReturnType<typeof createGroupCommit<T, R>>
