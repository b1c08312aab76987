/** A row on its way to its outcome: its state and what has happened to it, which only this file assigns. */
import { Link, List } from './list.ts'
import { type Ending, type Facts, type Next, next, type Way } from './table.ts'
import type { AttemptRow, Item } from './types.ts'
import { NotCommitted } from './write-failure.ts'

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

/** What has happened to a row. */
class History implements Facts {
  state: keyof typeof enteredFrom | 'new' = 'new'
  way: Way = 'together'
  insertWay: Way = 'together'
  mayBeStored = false
  refusal: Error | undefined = undefined
  misses = 0
  /** How often it was slow: its next limit is doubled this often. */
  doublings = 0
  /** How often it has rested. */
  rests = 0
  /** How many rows its last attempt had; undefined before the first. */
  rows: number | undefined = undefined
  /** An insert with it and others has failed. */
  hasFailedOthers = false
  /** The error of its last attempt that has failed. */
  cause: Error | undefined = undefined
  /** Ends its rest before its time. */
  cancelRest = () => {}
}

/** Links a row among all rows that wait for their outcome; the row itself is a link of its way's list. */
class DeadlineLink<T extends Item, R> extends Link {
  readonly row: Row<T, R>

  constructor(row: Row<T, R>) {
    super()
    this.row = row
  }
}

/** A submitted item, its callbacks and its deadline. */
export class Row<T extends Item, R> extends Link implements AttemptRow<T> {
  readonly item: T
  /** When it expires, in ms of the clock. */
  readonly deadline: number
  /** Both get the number of rows in its last attempt. */
  readonly resolve: (result: R, rows: number) => void
  readonly reject: (error: unknown, rows?: number) => void
  readonly deadlineLink: DeadlineLink<T, R> = new DeadlineLink(this)
  readonly #history = new History()
  /** The rows that wait for its id. */
  #behind: List<Row<T, R>> | undefined = undefined

  constructor(item: T, deadline: number, resolve: Row<T, R>['resolve'], reject: Row<T, R>['reject']) {
    super()
    this.item = item
    this.deadline = deadline
    this.resolve = resolve
    this.reject = reject
  }

  get history(): Readonly<History> {
    return this.#history
  }
  get mayBeStored() {
    return this.#history.mayBeStored
  }

  #enter(state: keyof typeof enteredFrom) {
    const from: readonly History['state'][] = enteredFrom[state]
    if (!from.includes(this.#history.state))
      throw new Error(`a row that is ${this.#history.state} cannot be ${state}`)
    this.#history.state = state
  }

  /** It enters the queue. */
  wait() {
    this.#enter('waiting')
  }

  /** An attempt with it and others begins, of so many rows. */
  begin(rows: number) {
    this.#enter('tried')
    this.#history.rows = rows
  }

  /** Its rest begins; `cancel` ends it before its time. */
  rest(cancel: () => void) {
    this.#enter('resting')
    this.#history.rests++
    this.#history.cancelRest = cancel
  }

  /** Tells its outcome. */
  settle(outcome: R | Error) {
    this.#enter('done')
    if (outcome instanceof Error) this.reject(outcome, this.#history.rows)
    else this.resolve(outcome, this.#history.rows as number)
  }

  /** Records how its attempt ended, if that was not an outcome; returns what comes next, or undefined: it has failed. */
  record(ending: Ending, error?: Error): Next | undefined {
    const history = this.#history
    if (error) history.cause = error
    if (history.way !== 'lookUp') {
      history.insertWay = history.way
      if (ending === 'lost') history.mayBeStored = true
      if (ending === 'absent') history.misses++
      if (ending === 'failed') history.hasFailedOthers = true
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
    if (mayBeStored) return new NotCommitted('unknown', cause)
    // After a look-up, the cause is the look-up's own error, which says nothing about the data.
    return refusal ?? (way === 'lookUp' ? new NotCommitted('missing', cause) : (cause as Error))
  }

  /** Lets a newer row with the same id wait behind this one, and behind those that wait already. */
  letWaitBehind(row: Row<T, R>) {
    row.#enter('behind')
    this.#behind ??= new List()
    this.#behind.push(row)
  }

  /** Hands its id on to the next row, and returns that. If the id was trouble, the next row spares others that. */
  handOn(): Row<T, R> | undefined {
    const next = this.#behind?.first
    if (next === undefined) return undefined
    next.unlink()
    next.#behind = this.#behind
    if (this.#history.insertWay !== 'together') next.#history.way = 'carefully'
    return next
  }
}
