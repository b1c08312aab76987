/** Group commit: concurrent rows share durable transactions, and each caller gets its own row's answer. */
import { pauseMs, systemClock } from './clock.ts'
import { createOutage } from './outage.ts'
import { type Assignment, isPending, PendingRow } from './pending-row.ts'
import { createPendingRows } from './pending-rows.ts'
import { createQueue, type Part } from './queue.ts'
import { plan, slowParts, Trial } from './trial.ts'
import {
  type Batch,
  type Clock,
  type Item,
  type Limits,
  missing,
  NotCommitted,
  type Store,
  type WriteFailure
} from './types.ts'
import { createWaitEstimate } from './wait-estimate.ts'

const repeatsOfMissing = 3
/** After so many transient failures in a row that one row can cause, that row is looked for. */
const alikeBeforeTrial = 3
/** New rows are refused while the others would take more of the deadline: they could not be stored in time either. */
const shareOfDeadline = 0.5

interface Options {
  onBatch?: (batch: Batch) => void
  /** Called when the database has been down for longer than the deadline, and when it is back. */
  onOutage?: (databaseDown: boolean) => void
  clock?: Clock
}

/**
 * Makes a group commit over a store. An idle lane takes what has come by the end of the event loop's turn, without a
 * timer; while all lanes are busy rows gather into the next batch. A batch that meets a transient failure keeps its
 * lane and pauses there: an outage then costs one attempt a lane and pause, and the rows that arrive meanwhile gather.
 */
export function createGroupCommit<T extends Item, R>(
  store: Store<T, R>,
  limits: Limits,
  { onBatch, onOutage, clock = systemClock }: Options = {}
) {
  const queue = createQueue<T, R>(limits)
  const outage = createOutage(() => store.probe(), clock, onOutageChange)
  const waitEstimate = createWaitEstimate(limits)
  const pendingRows = createPendingRows<T, R>(limits.deadlineMs, clock, giveUp, start)
  const pauses = new Set<() => void>()
  const drained = Promise.withResolvers<void>()
  let busyLanes = 0
  /** Batches that were written. */
  let writes = 0
  /** Parts that were cut off since the last of them. */
  let cutOffs = 0
  /** Pauses since then, of all lanes. */
  let pausesInARow = 0
  /** Rows of this turn that have found a lane idle. */
  let rowsOfTurn = 0
  let closed = false

  /**
   * Stores an item. Calls `resolve` with the store's result for it once it is durable, or else `reject` with the store's
   * error for it or with a NotCommitted, one of them once, by the deadline. Neither may call back into group commit, nor throw.
   */
  function submit(item: T, resolve: (result: R) => void, reject: (error: unknown) => void): void {
    const reason = refusal()
    if (reason) {
      reject(new NotCommitted(reason))
      return
    }
    const entry = new PendingRow<T, R>(item, clock.now() + limits.deadlineMs, resolve, reject)
    pendingRows.add(entry)
    queue.add(entry)
    startSoon()
  }

  /** Says why an item would be refused now, or returns undefined where it would not. */
  function refusal() {
    if (closed) return 'closed'
    if (outage.databaseDown) return 'databaseDown'
    return expectedMs() <= limits.deadlineMs * shareOfDeadline ? undefined : 'full'
  }

  const expectedMs = () => waitEstimate.expectMs(pendingRows.rows, pendingRows.bytes)

  /**
   * Many requests come in one turn: a lane that took the first of them alone would be busy when the others are read. A
   * batch that is full gains nothing by waiting.
   */
  function startSoon() {
    if (busyLanes === limits.lanes) return
    if (rowsOfTurn++ === 0) clock.afterPoll(endTurn)
    if (rowsOfTurn % limits.batchRows === 0) start()
  }

  function endTurn() {
    rowsOfTurn = 0
    start()
  }

  function start() {
    while (busyLanes < limits.lanes) {
      const part = queue.take()
      if (!part) break
      busyLanes++
      void run(part)
    }
    if (closed && busyLanes === 0 && pendingRows.rows === 0) finish()
  }

  /** Tries rows in this lane, again and again while the database cannot serve. */
  async function run({ rows, trial }: Part<T, R>) {
    const isOfLine = !(trial || rows[0]?.suspect)
    const since = trial?.since ?? writes
    let alike = 0
    let wasUncertain = false
    for (let left = rows; left.length > 0; ) {
      // A limit tells who is slow; what an open attempt has left behind, such as a lock, is waited for.
      const attempt = await write(left, wasUncertain ? undefined : trial?.limitMs)
      if (isOfLine) queue.repay(attempt.ms)
      if (attempt.outcome === 'written') {
        trial?.grow()
        conclude(left, attempt.results)
        break
      }
      start()
      const { outcome, error } = attempt
      const isAlone = left.length === 1
      // The rows that have expired meanwhile may be the ones at fault.
      left = left.filter(isPending)
      if (left.length === 0) break
      for (const entry of left) entry.cause = error
      wasUncertain ||= outcome === 'uncertain'
      const isDown = outcome === 'uncertain' || (outcome === 'transient' && !store.mayBeOneRows(error))
      if (!isDown) outage.signOfLife()
      if (isDown || outcome === 'transient') {
        for (const entry of left) entry.repeated ||= outcome === 'uncertain'
        // What fails alone while others are written goes behind them instead.
        if (isDown || isOfLine || since === writes) await pauseRows(left)
        left = left.filter(isPending)
        alike = isDown ? 0 : alike + 1
        if (isDown || (isOfLine && alike < alikeBeforeTrial) || left.length === 0) continue
      }
      judge(left, attempt, { trial, isAlone })
      break
    }
    busyLanes--
    queue.leave(rows)
    start()
  }

  /** Decides on rows whose failure is not mended by repeating them as they are. */
  function judge(
    rows: PendingRow<T, R>[],
    { outcome, error, ms }: { outcome: WriteFailure; error: unknown; ms: number },
    { trial, isAlone }: { trial: Trial<T, R> | undefined; isAlone: boolean }
  ) {
    // The database may have become slow since the trial began: no part of it is found guilty then.
    if (outcome === 'slow') cutOffs = trial?.limitMs === undefined ? 0 : cutOffs + 1
    const allAreSlow = outcome === 'slow' && cutOffs >= slowParts
    if (trial && (allAreSlow || trial.doubts(outcome, writes))) {
      trial.add(rows)
      queue.enterTrial(trial)
      if (!(trial.fail() || allAreSlow)) return
      queue.leaveTrials(trial)
      blameAll(trial.takeAll(), outcome, error)
    } else if (outcome === 'fatal' && !store.mayBeOneRows(error)) blameAll(rows, outcome, error)
    else if (outcome === 'transient' && trial && trial.tries + 1 < alikeBeforeTrial) {
      const again = { parts: 1, limitMs: trial.limitMs, since: trial.since, tries: trial.tries + 1 }
      queue.enterTrial(new Trial(rows, again))
    } else if (isAlone) {
      if (outcome === 'slow') queue.owe(ms)
      blame(rows[0] as PendingRow<T, R>, outcome, error)
    } else {
      const parts = plan(outcome, waitEstimate.attemptMs, limits.deadlineMs)
      const since = outcome === 'slow' && trial ? trial.since : writes
      queue.enterTrial(new Trial(rows, { limitMs: trial?.limitMs, since, ...parts }))
    }
  }

  /** A row is at fault by itself. */
  function blame(entry: PendingRow<T, R>, outcome: WriteFailure, error: unknown) {
    // What an earlier attempt may have written is asked for again, whatever is broken: it can be a crash that is mended.
    if (outcome === 'refused' || (outcome === 'fatal' && !entry.repeated))
      fail(entry, entry.repeated ? new NotCommitted('unknown', error) : error)
    else pause(entry, error)
  }

  /** The failure is not one row's: they stay together. */
  function blameAll(rows: PendingRow<T, R>[], outcome: WriteFailure, error: unknown) {
    // What is slow as a whole may be in time by halves.
    if (outcome !== 'fatal') return repeat(rows, outcome === 'slow' ? 2 : 1)
    for (const entry of rows) if (!entry.repeated) fail(entry, error)
    void repeatLater(rows.filter(isPending))
  }

  /** Repeats rows after a pause outside the lanes: others are not kept from their answers. */
  async function repeatLater(rows: PendingRow<T, R>[]) {
    if (rows.length === 0) return
    await pauseRows(rows)
    repeat(rows.filter(isPending), 1)
    start()
  }

  function repeat(rows: PendingRow<T, R>[], parts: number) {
    queue.enterTrial(new Trial(rows, { parts, since: writes }))
  }

  /** One attempt; never rejects. */
  async function write(batch: PendingRow<T, R>[], limitMs?: number) {
    const controller = new AbortController()
    const cancelLimit = limitMs === undefined ? undefined : clock.after(limitMs, () => controller.abort())
    assign(batch, { waiting: batch.length, isAttempt: true, giveUp: () => controller.abort() })
    const began = clock.now()
    const attempt = await store.write(batch, controller.signal).then(
      (results) => ({ outcome: 'written', results }) as const,
      (error) => ({ outcome: store.classify(error), error })
    )
    assign(batch, undefined)
    cancelLimit?.()
    for (const entry of batch) if (entry.isSettled) queue.release(entry)
    const ms = clock.now() - began
    if (attempt.outcome === 'written') waitEstimate.learn(batch.length, bytesOf(batch), ms)
    onBatch?.({ rows: batch.length, ms, outcome: attempt.outcome })
    return { ...attempt, ms }
  }

  /** Lets some time pass for rows, unless the database is back or nobody waits for them any more. */
  async function pauseRows(batch: PendingRow<T, R>[]) {
    const { promise, resolve } = Promise.withResolvers<void>()
    const ms = pauseMs(Math.floor(pausesInARow++ / busyLanes), clock)
    const cancel = clock.after(ms, resolve)
    pauses.add(resolve)
    assign(batch, { waiting: batch.length, isAttempt: false, giveUp: resolve })
    await promise
    assign(batch, undefined)
    pauses.delete(resolve)
    cancel()
  }

  function onOutageChange(databaseDown: boolean) {
    if (!closed) onOutage?.(databaseDown)
    if (databaseDown) return
    for (const wake of pauses) wake()
  }

  function assign(batch: PendingRow<T, R>[], assignment: Assignment | undefined) {
    for (const entry of batch) entry.assignment = assignment
  }

  function conclude(batch: PendingRow<T, R>[], results: readonly (R | Error | typeof missing)[]) {
    outage.signOfLife()
    writes++
    cutOffs = pausesInARow = 0
    for (const [index, entry] of batch.entries()) {
      const result = results[index] as R | Error | typeof missing
      if (entry.isSettled) continue
      if (result === missing) {
        if (entry.misses++ < repeatsOfMissing) pause(entry)
        else fail(entry, new NotCommitted('missing'))
      } else if (result instanceof Error) fail(entry, result)
      else {
        pendingRows.settle(entry)
        entry.resolve(result)
        queue.release(entry)
      }
    }
    start()
  }

  function fail(entry: PendingRow<T, R>, error: unknown) {
    pendingRows.settle(entry)
    entry.reject(error)
    queue.release(entry)
  }

  /** Puts a row aside, outside the lanes; afterwards it goes alone. */
  function pause(entry: PendingRow<T, R>, cause?: unknown) {
    entry.cause = cause
    entry.suspect = true
    entry.endPause = clock.after(pauseMs(entry.pauses++, clock), () => {
      queue.enter(entry)
      start()
    })
  }

  /** Answers a row whose deadline has passed. */
  function giveUp(entry: PendingRow<T, R>) {
    outage.expired(entry.deadline - limits.deadlineMs)
    pendingRows.settle(entry)
    const isOpen = entry.repeated || entry.assignment?.isAttempt
    entry.reject(new NotCommitted(isOpen ? 'unknown' : 'expired', entry.cause))
    if (entry.assignment && --entry.assignment.waiting === 0) entry.assignment.giveUp()
    // What an attempt may still write keeps its id until the attempt has ended.
    if (entry.assignment?.isAttempt) return
    entry.endPause?.()
    queue.withdraw(entry)
  }

  /** Refuses new rows; resolves when every row has its answer and no attempt runs. */
  function close(): Promise<void> {
    closed = true
    start()
    return drained.promise
  }

  function finish() {
    pendingRows.stop()
    outage.stop()
    drained.resolve()
  }

  return {
    submit,
    refusal,
    close,
    /** Rows that wait for their answer. */
    get rows() {
      return pendingRows.rows
    },
    /** Their bytes. */
    get bytes() {
      return pendingRows.bytes
    },
    /** How long they are expected to take, in ms. */
    get expectedMs() {
      return expectedMs()
    },
    get busyLanes() {
      return busyLanes
    },
    /** The database has been down for longer than the deadline; new rows are refused. */
    get databaseDown() {
      return outage.databaseDown
    }
  }
}

const bytesOf = (batch: readonly { item: Item }[]) => batch.reduce((sum, { item }) => sum + item.bytes, 0)

/** What callers use. */
export type GroupCommit<T extends Item, R> = ReturnType<typeof createGroupCommit<T, R>>
