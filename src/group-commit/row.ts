/**
 * A row of group commit: its state, the modes in which it can be tried, and the table that says in
 * which mode it is tried next. The table is the pure function `nextTry`; a test has it as a matrix.
 */
import assert from 'node:assert'
import { Failure } from '../failures.ts'
import type { AttemptFailure, Item, RowFailure } from './types.ts'

/**
 * The modes of an attempt, and how many attempts of each mode may run at a time. Each mode has
 * lanes of its own, so that rows of one mode never wait for rows of another.
 */
export const lanes = {
  /** All rows that wait, in one statement. GroupCommit has as many lanes as the settings say. */
  batch: 0,
  /**
   * Each row behind a savepoint, so that each has a result of its own. There are two lanes: while
   * an attempt with a slow row runs in one, good rows that are queued behind it use the other.
   */
  savepoints: 2,
  /** The same for rows whose last failure was retryable, such as those that met a lock. */
  retry: 1,
  /** The same for a single row: an attempt with it and others has failed, or the row was slow. */
  single: 1,
  /** The same for a single row that was slow as one, too. Its time limit doubles each time. */
  singleSlow: 1,
  /**
   * A look-up of rows by their ids, to see whose rows are there: an insert left them out, refused
   * them or had no result.
   */
  lookUp: 1,
  /** A look-up of a single row, because a look-up of it and others has failed. */
  lookUpSingle: 1
}
export type Mode = keyof typeof lanes
export const modes = Object.keys(lanes) as Mode[]
/** Returns whether an attempt of this mode has one row. */
export const isSingle = (mode: Mode) =>
  mode === 'single' || mode === 'singleSlow' || mode === 'lookUpSingle'
export const isLookUp = (mode: Mode) => mode === 'lookUp' || mode === 'lookUpSingle'

/**
 * The result of an attempt for one of its rows that has no outcome yet. The row failed; or it is
 * `absent`, which means that an insert left it out or a look-up did not find it; or the attempt was
 * `inconclusive`, which means that it was cut off or failed without saying which row was at fault.
 */
export type ResultKind = RowFailure['kind'] | 'absent' | 'inconclusive'

/**
 * Returns the result for each row of an attempt that has failed as a whole. Three kinds hold for
 * every row. Any other kind was caused by a single row, so with several rows it is inconclusive. A
 * cut-off is inconclusive, too: `unavailable` then means only that it had no connection yet.
 */
export function resultKindOf(
  { kind }: AttemptFailure,
  rows: number,
  isCutOff: boolean
): ResultKind {
  if (kind === 'schemaMismatch' || kind === 'unknown') return kind
  if (kind === 'unavailable' && !isCutOff) return kind
  return rows > 1 || isCutOff ? 'inconclusive' : kind
}

/** The mode of a row's next attempt. It begins at once, or when the row has backed off. */
type NextTry = readonly [mode: Mode, when?: 'afterBackoff']

/**
 * The next attempt of a row that was slow or shared a failure. Each mode can fail fewer other rows.
 */
const fallback: Record<Mode, NextTry> = {
  batch: ['savepoints'],
  savepoints: ['single'],
  retry: ['single'],
  single: ['singleSlow', 'afterBackoff'],
  singleSlow: ['singleSlow', 'afterBackoff'],
  lookUp: ['lookUpSingle', 'afterBackoff'],
  lookUpSingle: ['lookUpSingle', 'afterBackoff']
}

type Facts = Pick<Row<Item, unknown>, 'mode' | 'insertMode' | 'mayBeStored' | 'permanentError'>

/**
 * Returns the next attempt of a row after this result, or undefined if the row has failed. A row
 * that may be stored is tried until something is known or its time is up, with one exception: its
 * error is permanent, and a look-up has not found it. Another insert would meet the same error, and
 * tell no more. The row then fails with OutcomeUnknown, which is held back as its error would be.
 */
export function nextTry(row: Facts, result: ResultKind): NextTry | undefined {
  const { mode, mayBeStored } = row
  if (result === 'unavailable' || result === 'untried') return [mode]
  if (result === 'inconclusive' || result === 'slow') return fallback[mode]
  if (isLookUp(mode)) return afterLookUp(row, result)
  if (result === 'retryable') return ['retry', 'afterBackoff']
  if (result === 'schemaMismatch') return mayBeStored ? ['lookUp', 'afterBackoff'] : undefined
  // The row is absent, unknown, refused or met a server fault. A row with its id may be there: its
  // own, if this attempt or an earlier request has stored it, or another one.
  return ['lookUp']
}

function afterLookUp(
  { mode, insertMode, mayBeStored, permanentError }: Facts,
  result: ResultKind
): NextTry | undefined {
  const isLeftOut = isSingle(insertMode) && !mayBeStored
  if (result === 'absent') return permanentError || isLeftOut ? undefined : fallback[insertMode]
  const isOpen = result === 'retryable' || result === 'unknown' || mayBeStored
  return isOpen ? [mode, 'afterBackoff'] : undefined
}

const missing =
  'neither written nor found: a trigger returns null, row security hides the row, ' +
  'or the look-up has failed'

/**
 * A submitted item, and what has happened to it. Only the methods of this class assign its fields.
 * `enter` moves it between the first three states; `settle` makes it done, once.
 */
export class Row<T extends Item, R> {
  readonly item: T
  /** When the row expires, in ms of `performance.now()`. */
  readonly deadline: number
  readonly #onOutcome: (outcome: R | Error) => void
  /**
   * A queued row waits for a lane, and a running one is in an attempt. One that is backing off
   * waits for a timer: until it is tried again, or until its client is told of an error that is
   * held back. A row is done when its client has the outcome, even if an attempt with it still
   * runs.
   */
  state: 'queued' | 'running' | 'backingOff' | 'done' = 'queued'
  /** The mode of the attempt that runs, or else of the next one. */
  mode: Mode = 'batch'
  /** The mode of the last insert. */
  insertMode: Mode = 'batch'
  /** Whether an attempt without a result may have stored the row, or may still do so. */
  mayBeStored = false
  /**
   * The error that the row would meet again: its data breaks a rule, or the server has a fault. The
   * client gets it unless the look-up finds the row's id.
   */
  permanentError: Error | undefined = undefined
  /** How often the row has backed off. */
  backoffs = 0
  /** The error of the last attempt that failed. */
  cause: Error | undefined = undefined

  constructor(item: T, deadline: number, onOutcome: (outcome: R | Error) => void) {
    this.item = item
    this.deadline = deadline
    this.#onOutcome = onOutcome
  }

  /** Changes the state. Throws if the row is done. */
  enter(state: 'queued' | 'running' | 'backingOff') {
    assert(this.state !== 'done', 'a row that is done is not tried again')
    this.state = state
    if (state === 'backingOff') this.backoffs++
  }

  /** Makes the row done, and tells its client the outcome. Throws if the row is done. */
  settle(outcome: R | Error) {
    assert(this.state !== 'done', 'a row has one outcome')
    this.state = 'done'
    this.#onOutcome(outcome)
  }

  /**
   * Records the result of an attempt that has not decided the row. Returns the next attempt, or
   * undefined if the row has failed.
   */
  recordResult(result: ResultKind, error?: Error): NextTry | undefined {
    if (error) this.cause = error
    const isPermanent = result === 'refused' || result === 'serverFault'
    if (!isLookUp(this.mode)) {
      this.insertMode = this.mode
      if (result === 'unknown') this.mayBeStored = true
      if (isPermanent) this.permanentError = error
    } else if (result === 'schemaMismatch' || isPermanent) {
      // The look-up has failed, so nobody knows whether an earlier request has stored the row. Its
      // client gets 500 instead of 422, which would say that the row cannot be there.
      this.permanentError = undefined
    }
    const next = nextTry(this, result)
    if (next) this.mode = next[0]
    return next
  }

  /** Returns the error that the client gets if the row is tried no more. */
  toError(): Error {
    const { mayBeStored, permanentError, mode, cause } = this
    if (mayBeStored) return new Failure('OutcomeUnknown', { cause })
    // The error of a look-up says nothing about the row's data.
    if (permanentError) return permanentError
    return isLookUp(mode) ? new Error(missing, { cause }) : (cause as Error)
  }
}
