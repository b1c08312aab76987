/** A row on its way to its outcome: its state and what has happened to it, which only this file assigns. */
import { Failure } from '../failures.ts'
import { type Ending, type Next, next, type Way } from './table.ts'
import type { AttemptRow, Item } from './types.ts'

/** The states of a row, and from which states each may be entered. */
const enteredFrom = {
  /** An older row holds its id. */
  behind: ['new'],
  /** It holds its id, and waits for a lane of its way. */
  waiting: ['new', 'behind', 'tried', 'resting'],
  /** It is in an attempt. */
  tried: ['waiting'],
  /** Its attempt has failed, and nothing is tried with it for a while. */
  resting: ['tried'],
  /** Its outcome is told. If an attempt with it still runs, it holds its id until that has ended. */
  done: ['behind', 'waiting', 'tried', 'resting']
} as const
type State = keyof typeof enteredFrom

const missing =
  'neither written nor found: a trigger returns null, array_nulls is off, or the look-up has failed'

/** What has happened to a row. */
export class History {
  state: State | 'new' = 'new'
  /** The way of its next attempt, or of the one that runs; and of its last insert. */
  way: Way = 'together'
  insertWay: Way = 'together'
  /** An attempt without a verdict may have stored it. */
  mayBeStored = false
  /** The error of its data, which its client gets unless the look-up finds its id. */
  refusal: Error | undefined = undefined
  /** How often an insert has left it out. */
  misses = 0
  /** How often it was slow: its next limit is doubled this often. */
  doublings = 0
  /** How often it has rested. */
  rests = 0
  /** How many rows its last attempt had; undefined before the first. */
  rows: number | undefined = undefined
  /** A whole attempt with it and others has failed. */
  failedWithOthers = false
  /** The error of its last attempt that has failed. */
  cause: Error | undefined = undefined
}

/** Takes a row's result or error, and the number of rows in its last attempt, if there was one. */
export type OnOutcome<R> = (outcome: R | Error, rows?: number) => void

/** A submitted item, and its deadline. */
export class Row<T extends Item, R> implements AttemptRow<T> {
  readonly item: T
  /** When it was submitted, and when it expires, in ms of the clock. */
  readonly arrival: number
  readonly deadline: number
  readonly #onOutcome: OnOutcome<R>
  readonly #history = new History()

  constructor(item: T, arrival: number, deadline: number, onOutcome: OnOutcome<R>) {
    this.item = item
    this.arrival = arrival
    this.deadline = deadline
    this.#onOutcome = onOutcome
  }

  get history(): Readonly<History> {
    return this.#history
  }
  get mayBeStored() {
    return this.#history.mayBeStored
  }

  /** Changes its state; throws if that cannot follow. `tried` and `done` have methods of their own. */
  enter(state: State) {
    const history = this.#history
    const from: readonly History['state'][] = enteredFrom[state]
    if (!from.includes(history.state)) throw new Error(`a row that is ${history.state} cannot be ${state}`)
    history.state = state
    if (state === 'resting') history.rests++
  }

  /** An attempt begins with it, of so many rows. */
  begin(rows: number) {
    this.enter('tried')
    this.#history.rows = rows
  }

  /** Tells its outcome. */
  settle(outcome: R | Error) {
    this.enter('done')
    this.#onOutcome(outcome, this.#history.rows)
  }

  /** Takes the id over from this row. If that was not written together, the id may be trouble, of which this row spares others. */
  follow(holder: Row<T, R>) {
    if (holder.history.insertWay !== 'together') this.#history.way = 'carefully'
  }

  /** Records how its attempt ended, if that was not an outcome; returns what comes next, or undefined: it has failed. */
  record(ending: Ending, error?: Error): Next | undefined {
    const history = this.#history
    if (error) history.cause = error
    if (history.way !== 'lookUp') {
      history.insertWay = history.way
      if (ending === 'lost') history.mayBeStored = true
      if (ending === 'absent') history.misses++
      if (ending === 'failed') history.failedWithOthers = true
      if (ending === 'slow') history.doublings++
      if (ending === 'refused' || ending === 'broken') history.refusal = error
    } else if (ending === 'gone' || ending === 'refused' || ending === 'broken') {
      // It could not be found out whether an earlier request has stored the row, which must not be told that it is refused.
      history.refusal = undefined
    }
    const step = next(history, ending)
    if (step) history.way = step[0]
    return step
  }

  /** Returns the error that its client gets if nothing more is tried. */
  toError(): Error {
    const { mayBeStored, refusal, way, cause } = this.#history
    if (mayBeStored) return new Failure('OutcomeUnknown', { cause })
    // After a look-up, the cause is the look-up's own error, which says nothing about the data.
    return refusal ?? (way === 'lookUp' ? new Error(missing, { cause }) : (cause as Error))
  }
}
