/** Group commit: concurrent rows share durable transactions, and each caller gets its own row's answer. */
import { pauseMs, systemClock } from './clock.ts'
import { Entry, type Hold } from './entry.ts'
import { createOutage } from './outage.ts'
import { createPace } from './pace.ts'
import { createQueue } from './queue.ts'
import { type Batch, type Clock, type Item, type Limits, missing, type Store, Unanswered } from './types.ts'
import { createUnanswered } from './unanswered.ts'

const repeatsOfMissing = 3
/** A locked part costs a lock time-out, an innocent one next to nothing: many parts find the locked rows sooner. */
const partsOfLocked = 16
/** New rows are refused while the others would take more of the deadline: they could not be stored in time either. */
const shareOfDeadline = 0.5

interface Options {
  onBatch?: (batch: Batch) => void
  /** Called when the database has been away for longer than the deadline, and when it is back. */
  onOutage?: (away: boolean) => void
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
  const outage = createOutage(() => store.probe(), clock, onAway)
  const pace = createPace(limits)
  const unanswered = createUnanswered<T, R>(limits.deadlineMs, clock, giveUp, start)
  const pausedLanes = new Set<() => void>()
  const drained = Promise.withResolvers<void>()
  let busyLanes = 0
  /** Rows of this turn that have found a lane idle. */
  let rowsOfTurn = 0
  let closed = false

  /**
   * Stores an item; it is durable when the promise resolves, to the store's result for it. Rejects with the store's
   * error for it, or with an Unanswered, by the deadline.
   */
  function submit(item: T): Promise<R> {
    const reason = refusal(item.bytes)
    if (reason) return Promise.reject(new Unanswered(reason))
    return new Promise((resolve, reject) => {
      const entry = new Entry<T, R>(item, clock.now() + limits.deadlineMs, resolve, reject)
      unanswered.add(entry)
      queue.add(entry)
      startSoon()
    })
  }

  /** Says why an item of so many bytes would be refused now, or gives undefined where it would not. */
  function refusal(itemBytes: number) {
    if (closed) return 'closed'
    if (outage.away) return 'away'
    const { rows, bytes } = unanswered
    const fits = rows < limits.queueRows && bytes + itemBytes <= limits.queueBytes
    return fits && expectedMs() <= limits.deadlineMs * shareOfDeadline ? undefined : 'full'
  }

  const expectedMs = () => pace.expectMs(unanswered.rows, unanswered.bytes)

  /**
   * Many requests come in one turn: a lane that took the first of them alone would be busy when the others are read. A
   * batch that is full gains nothing by waiting.
   */
  function startSoon() {
    if (busyLanes === limits.lanes) return
    if (rowsOfTurn++ === 0) clock.soon(endTurn)
    if (rowsOfTurn % limits.batchRows === 0) start()
  }

  function endTurn() {
    rowsOfTurn = 0
    start()
  }

  function start() {
    while (busyLanes < limits.lanes) {
      const batch = queue.take()
      if (!batch) break
      busyLanes++
      void run(batch)
    }
    if (closed && busyLanes === 0 && unanswered.rows === 0) finish()
  }

  async function run(batch: Entry<T, R>[]) {
    await commit(batch)
    busyLanes--
    start()
  }

  /** Tries rows in this lane until each has its answer or pauses outside the lanes. */
  async function commit(rows: Entry<T, R>[]): Promise<void> {
    let batch = rows.filter(isUnanswered)
    for (let failures = 0; batch.length > 0; failures++) {
      const attempt = await write(batch)
      if (attempt.outcome === 'written') return conclude(batch, attempt.results)
      start()
      const { outcome, error } = attempt
      // The rows that have expired meanwhile may be the ones at fault.
      const isSingle = batch.length === 1
      batch = batch.filter(isUnanswered)
      if (batch.length === 0) return
      if (outcome === 'transient' || outcome === 'uncertain') {
        for (const entry of batch) {
          entry.repeated ||= outcome === 'uncertain'
          entry.cause = error
        }
        await pauseLane(batch, pauseMs(failures, clock))
        batch = batch.filter(isUnanswered)
        continue
      }
      outage.signOfLife()
      if (outcome !== 'fatal' && !isSingle) {
        const size = Math.ceil(batch.length / (outcome === 'locked' ? partsOfLocked : 2))
        for (let from = 0; from < batch.length; from += size) await commit(batch.slice(from, from + size))
        return
      }
      for (const entry of batch) {
        // What an earlier attempt may have written is asked for again, whatever is broken: it can be a crash that is mended.
        const isOpen = outcome === 'fatal' && entry.repeated
        if (outcome === 'locked' || outcome === 'slow' || isOpen) pause(entry, error)
        else fail(entry, entry.repeated ? new Unanswered('unknown', error) : error)
      }
      return start()
    }
  }

  /** One attempt; never rejects. */
  async function write(batch: Entry<T, R>[]) {
    const controller = new AbortController()
    hold(batch, { waiting: batch.length, isAttempt: true, giveUp: () => controller.abort() })
    const began = clock.now()
    const attempt = await store.write(batch, controller.signal).then(
      (results) => ({ outcome: 'written', results }) as const,
      (error) => ({ outcome: store.classify(error), error })
    )
    hold(batch, undefined)
    for (const entry of batch) if (entry.answered) queue.release(entry)
    const ms = clock.now() - began
    if (attempt.outcome === 'written') pace.learn(batch.length, bytesOf(batch), ms)
    onBatch?.({ rows: batch.length, ms, outcome: attempt.outcome })
    return attempt
  }

  /** Leaves a lane idle for a while, or until the database is back or nobody waits for the batch any more. */
  async function pauseLane(batch: Entry<T, R>[], ms: number) {
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = clock.after(ms, resolve)
    pausedLanes.add(resolve)
    hold(batch, { waiting: batch.length, isAttempt: false, giveUp: resolve })
    await promise
    hold(batch, undefined)
    pausedLanes.delete(resolve)
    cancel()
  }

  function onAway(away: boolean) {
    if (!closed) onOutage?.(away)
    if (away) return
    for (const wake of pausedLanes) wake()
  }

  function hold(batch: Entry<T, R>[], held: Hold | undefined) {
    for (const entry of batch) entry.hold = held
  }

  function conclude(batch: Entry<T, R>[], results: readonly (R | Error | typeof missing)[]) {
    outage.signOfLife()
    for (const [index, entry] of batch.entries()) {
      const result = results[index] as R | Error | typeof missing
      if (entry.answered) continue
      if (result === missing) {
        if (entry.misses++ < repeatsOfMissing) pause(entry)
        else fail(entry, new Unanswered('missing'))
      } else if (result instanceof Error) fail(entry, result)
      else {
        unanswered.settle(entry)
        entry.resolve(result)
        queue.release(entry)
      }
    }
    start()
  }

  function fail(entry: Entry<T, R>, error: unknown) {
    unanswered.settle(entry)
    entry.reject(error)
    queue.release(entry)
  }

  /** Puts a row aside, outside the lanes; afterwards it goes alone. */
  function pause(entry: Entry<T, R>, cause?: unknown) {
    entry.cause = cause
    entry.suspect = true
    queue.leave(entry)
    entry.endPause = clock.after(pauseMs(entry.pauses++, clock), () => {
      queue.enter(entry)
      start()
    })
  }

  /** Answers a row whose deadline has passed. */
  function giveUp(entry: Entry<T, R>) {
    outage.expired(entry.deadline - limits.deadlineMs)
    unanswered.settle(entry)
    const isOpen = entry.repeated || entry.hold?.isAttempt
    entry.reject(new Unanswered(isOpen ? 'unknown' : 'expired', entry.cause))
    if (entry.hold && --entry.hold.waiting === 0) entry.hold.giveUp()
    // What an attempt may still write keeps its id until the attempt has ended.
    if (entry.hold?.isAttempt) return
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
    unanswered.stop()
    outage.stop()
    drained.resolve()
  }

  return {
    submit,
    refusal,
    close,
    /** Rows that wait for their answer. */
    get rows() {
      return unanswered.rows
    },
    /** Their bytes. */
    get bytes() {
      return unanswered.bytes
    },
    /** How long they are expected to take, in ms. */
    get expectedMs() {
      return expectedMs()
    },
    get busyLanes() {
      return busyLanes
    },
    /** The database has been away for longer than the deadline; new rows are refused. */
    get away() {
      return outage.away
    }
  }
}

const bytesOf = (batch: readonly { item: Item }[]) => batch.reduce((sum, { item }) => sum + item.bytes, 0)

const isUnanswered = ({ answered }: { answered: boolean }) => !answered

/** What callers use. */
export type GroupCommit<T extends Item, R> = ReturnType<typeof createGroupCommit<T, R>>
