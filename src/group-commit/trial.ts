/** Rows whose attempt has failed: they are tried in parts, until it is known whose doing the failure is. */

import type { Place } from './list.ts'
import { isPending, type PendingRow } from './pending-row.ts'
import type { Item, WriteFailure } from './types.ts'

/** An innocent part costs next to nothing: many parts leave few rows to the ones at fault. */
const manyParts = 16
/** So many parts cut off, and nothing written meanwhile, show that the database is slow. */
export const slowParts = 3
/** The innocent parts of a batch that was cut off may take one of so many parts of the deadline together. */
const partsOfDeadline = 12
/** How many times longer than the attempts before a part may take. */
const patience = 4

interface Plan {
  parts: number
  /** How long an attempt with a part may take, in ms. */
  limitMs?: number | undefined
  /** The failure that may be one row's doing or everyone's. */
  doubt?: WriteFailure
}

/**
 * Says how rows are tried that have failed together. Where the database writes quickly, the parts of a batch that was
 * cut off are many and their time is short: whoever is slow is then found while the deadline lasts. Where attempts take
 * long anyway, short ones would only add to its work.
 */
export function plan(failure: WriteFailure, attemptMs: number, deadlineMs: number): Plan {
  const innocentMs = deadlineMs / partsOfDeadline
  switch (failure) {
    case 'refused':
      return { parts: 2 }
    case 'locked':
      return { parts: manyParts }
    case 'slow':
      return {
        parts: Math.max(2, Math.min(manyParts, Math.floor(innocentMs / attemptMs))),
        limitMs: Math.max(innocentMs / 2, attemptMs * patience),
        doubt: failure
      }
    default:
      return { parts: manyParts, doubt: failure }
  }
}

interface Options extends Plan {
  /** How many batches had been written when it began. */
  since: number
  /** How often these rows have failed as they are. */
  tries?: number
}

/** Rows that are still to be tried, and what is known of their failure. */
export class Trial<T extends Item, R> {
  readonly limitMs: number | undefined
  readonly doubt: WriteFailure | undefined
  readonly since: number
  readonly tries: number
  /** Its place among the trials, while it has rows. */
  place: Place<Trial<T, R>> | undefined = undefined
  #partRows: number
  /** How many more parts may fail in the same way, while nothing is written, before it is everyone's doing. */
  #chances: number
  #rows: PendingRow<T, R>[]

  constructor(rows: PendingRow<T, R>[], { parts, limitMs, doubt, since, tries = 0 }: Options) {
    this.#rows = rows
    this.limitMs = limitMs
    this.since = since
    this.tries = tries
    this.doubt = doubt
    this.#partRows = Math.ceil(rows.length / parts)
    const all = Math.ceil(rows.length / this.#partRows)
    // To wait for all of them would take the time of the rows that can be stored.
    this.#chances = doubt === 'slow' ? Math.min(all, slowParts) : all
  }

  get isEmpty(): boolean {
    return this.#rows.length === 0
  }

  /** Takes note that a part was written: there are larger ones then, unless they have little time. */
  grow() {
    if (this.limitMs === undefined) this.#partRows *= 2
  }

  /** Puts rows behind the others. */
  add(rows: readonly PendingRow<T, R>[]) {
    this.#rows.push(...rows)
  }

  /** Takes the next part out; it has no rows when the last ones have expired. */
  take(): PendingRow<T, R>[] {
    this.#rows = this.#rows.filter(isPending)
    return this.#rows.splice(0, this.#partRows)
  }

  /** Takes all rows out. */
  takeAll(): PendingRow<T, R>[] {
    return this.#rows.splice(0).filter(isPending)
  }

  /** Tells whether such a failure of a part is in doubt, after so many batches that were written. */
  doubts(failure: WriteFailure, writes: number): boolean {
    return this.doubt === failure && this.since === writes
  }

  /** Counts a part whose failure is in doubt; tells whether it is everyone's now. */
  fail(): boolean {
    // Parts that were in other lanes meanwhile come later.
    if (--this.#chances > 0) return false
    if (this.doubt === 'slow' || this.#partRows === 1) return true
    // There may be a row at fault in each part.
    this.#partRows = 1
    this.#chances = manyParts
    return false
  }
}
