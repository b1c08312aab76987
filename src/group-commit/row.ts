/** The modes in which a row is tried, what comes next for one that an attempt has not decided, and what is known of it. */
import assert from 'node:assert'
import { Failure } from '../failures.ts'
import type { Item, RowVerdict, Verdict } from './types.ts'

/** How many attempts of each mode run at a time: each has lanes of its own, so that no kind of row waits for another kind. */
export const lanes = {
  /** With all that wait, in one statement. The settings say how many. */
  batch: 0,
  /** One by one in one transaction, so that each row has a verdict. Two lanes: good rows can be behind slow ones. */
  savepoints: 2,
  /** A careful call of rows that were busy, as when they were locked. */
  retry: 1,
  /** A careful call of one row: one with it and others has failed as a whole, or it was slow, perhaps by a stall. */
  single: 1,
  /** A careful call of one row that was slow alone, with twice the time after each rest. */
  singleSlow: 1,
  /** A look-up of what was left out or lost: it may be stored. */
  lookUp: 1,
  /** A look-up of one row: one with it and others has failed. */
  lookUpSingle: 1
}
export type Mode = keyof typeof lanes
export const modes = Object.keys(lanes) as Mode[]
/** The modes with one row at a time. */
export const isSingle = (mode: Mode) => mode === 'single' || mode === 'singleSlow' || mode === 'lookUpSingle'
export const isLookUp = (mode: Mode) => mode === 'lookUp' || mode === 'lookUpSingle'

/** How an attempt ended for a row: by a verdict, left out or not found (`absent`), or failed with others or cut off (`failed`). */
export type Ending = RowVerdict['kind'] | 'absent' | 'failed'

/**
 * Returns the ending for each row of an attempt that has failed as a whole. These kinds hold for all rows; any other is a
 * verdict about a single row, and says nothing about one of several. A cut-off says nothing: `unavailable` is then one that had no
 * session yet.
 */
export function endingOf({ kind }: Verdict, rows: number, isCutOff: boolean): Ending {
  if (kind === 'schemaMismatch' || kind === 'unknown' || (kind === 'unavailable' && !isCutOff)) return kind
  return rows > 1 || isCutOff ? 'failed' : kind
}

/** The mode of the next attempt: at once, or when the row has rested. */
type Next = readonly [mode: Mode, when?: 'after its rest']

/** What is left to try for a row that failed with others or was slow: each endangers fewer others. */
const stepsDown: Record<Mode, Next> = {
  batch: ['savepoints'],
  savepoints: ['single'],
  retry: ['single'],
  single: ['singleSlow', 'after its rest'],
  singleSlow: ['singleSlow', 'after its rest'],
  lookUp: ['lookUpSingle', 'after its rest'],
  lookUpSingle: ['lookUpSingle', 'after its rest']
}

type Facts = Pick<Row<Item, unknown>, 'mode' | 'insertMode' | 'mayBeStored' | 'refusal'>

/** Returns what comes next; undefined if the row has failed. No failure is told of a row that may be stored: it is looked up. */
export function next(row: Facts, ending: Ending): Next | undefined {
  const { mode, mayBeStored } = row
  if (ending === 'unavailable' || ending === 'untried') return [mode]
  if (ending === 'failed' || ending === 'slow') return stepsDown[mode]
  if (isLookUp(mode)) return afterLookUp(row, ending)
  if (ending === 'retryable') return ['retry', 'after its rest']
  if (ending === 'schemaMismatch') return mayBeStored ? ['lookUp', 'after its rest'] : undefined
  // Absent, lost, refused or broken: this row, or the one of an earlier request, may be there.
  return ['lookUp']
}

function afterLookUp({ mode, insertMode, mayBeStored, refusal }: Facts, ending: Ending): Next | undefined {
  const isLeftOut = isSingle(insertMode) && !mayBeStored
  if (ending === 'absent') return refusal || isLeftOut ? undefined : stepsDown[insertMode]
  return ending === 'retryable' || ending === 'unknown' || mayBeStored ? [mode, 'after its rest'] : undefined
}

const missing =
  'neither written nor found: a trigger returns null, row security hides the row, or the look-up has failed'

/** A submitted item: its state and what has happened to it, which only its methods assign. */
export class Row<T extends Item, R> {
  readonly item: T
  /** When it expires, in ms of the clock. */
  readonly deadline: number
  readonly #onOutcome: (outcome: R | Error) => void
  /** It waits for a lane, is in an attempt, rests, or its outcome is told, perhaps while an attempt with it still runs. */
  state: 'waiting' | 'tried' | 'resting' | 'done' = 'waiting'
  /** The mode of its next attempt, or of the one that runs; and of its last insert. */
  mode: Mode = 'batch'
  insertMode: Mode = 'batch'
  /** An attempt without a verdict may have stored it, or may still do so. */
  mayBeStored = false
  /** The error of its data, which its client gets unless the look-up finds its id. */
  refusal: Error | undefined = undefined
  /** How often it has rested. */
  rests = 0
  /** The error of its last attempt that has failed. */
  cause: Error | undefined = undefined

  constructor(item: T, deadline: number, onOutcome: (outcome: R | Error) => void) {
    this.item = item
    this.deadline = deadline
    this.#onOutcome = onOutcome
  }

  /** Changes its state; throws if it is done. For that there is `settle`. */
  enter(state: 'waiting' | 'tried' | 'resting') {
    assert(this.state !== 'done', 'a row that is done is not tried again')
    this.state = state
    if (state === 'resting') this.rests++
  }

  /** Tells its outcome. */
  settle(outcome: R | Error) {
    assert(this.state !== 'done', 'a row has one outcome')
    this.state = 'done'
    this.#onOutcome(outcome)
  }

  /** Records how its attempt ended, if that was not an outcome; returns what comes next, or undefined: it has failed. */
  record(ending: Ending, error?: Error): Next | undefined {
    if (error) this.cause = error
    const isVerdict = ending === 'refused' || ending === 'serverFault'
    if (!isLookUp(this.mode)) {
      this.insertMode = this.mode
      if (ending === 'unknown') this.mayBeStored = true
      if (isVerdict) this.refusal = error
    } else if (ending === 'schemaMismatch' || isVerdict) {
      // Its client gets 500, not 422: an earlier request may have stored the row, and nobody can say.
      this.refusal = undefined
    }
    const step = next(this, ending)
    if (step) this.mode = step[0]
    return step
  }

  /** Returns the error that its client gets if nothing more is tried. */
  toError(): Error {
    const { mayBeStored, refusal, mode, cause } = this
    if (mayBeStored) return new Failure('OutcomeUnknown', { cause })
    // After a look-up, the cause says nothing about the data.
    return refusal ?? (isLookUp(mode) ? new Error(missing, { cause }) : (cause as Error))
  }
}
