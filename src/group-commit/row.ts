/** A row on its way to its outcome, whose fields only this file assigns; and an attempt with rows. */
import assert from 'node:assert'
import { Link, List } from '../shared/list.ts'
import { NotCommitted } from '../shared/write-failure.ts'
import { type Ending, type Facts, type Next, next, type Way } from './table.ts'
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

type State = keyof typeof enteredFrom | 'new'

/** What has happened to a row. */
class History implements Facts {
  way: Way = 'together'
  insertWay: Way = 'together'
  mayBeStored = false
  refusal: Error | undefined = undefined
  misses = 0
  /** How often it was slow: its next limit is doubled this often. */
  doublings = 0
  /** How often it has rested. */
  rests = 0
  /** An insert with it and others has failed. */
  hasFailedOthers = false
  /** The error of its last attempt that has failed. */
  cause: Error | undefined = undefined
  /** Ends its rest before its time. */
  cancelRest: () => void = () => {}
}
/** Most rows are written at once: they share one. */
const noHistory: Readonly<History> = Object.freeze(new History())

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
  #state: State = 'new'
  #attempt: Attempt | undefined = undefined
  #history: Readonly<History> = noHistory
  /** The rows that wait for its id. */
  #behind: List<Row<T, R>> | undefined = undefined

  constructor(item: T, deadline: number, resolve: Row<T, R>['resolve'], reject: Row<T, R>['reject']) {
    super()
    this.item = item
    this.deadline = deadline
    this.resolve = resolve
    this.reject = reject
  }

  get state() {
    return this.#state
  }
  /** Its last attempt, which may still run. */
  get attempt() {
    return this.#attempt
  }
  get history(): Readonly<History> {
    return this.#history
  }
  get mayBeStored() {
    return this.#history.mayBeStored
  }

  #enter(state: keyof typeof enteredFrom) {
    const from: readonly State[] = enteredFrom[state]
    if (!from.includes(this.#state)) throw new Error(`a row that is ${this.#state} cannot be ${state}`)
    this.#state = state
  }

  #own(): History {
    if (this.#history === noHistory) this.#history = new History()
    return this.#history
  }

  /** It enters the queue. */
  wait() {
    this.#enter('waiting')
  }

  /** An attempt with it begins. */
  begin(attempt: Attempt) {
    this.#enter('tried')
    this.#attempt = attempt
  }

  /** Its rest begins; `cancel` ends it before its time. */
  rest(cancel: () => void) {
    this.#enter('resting')
    this.#own().rests++
    this.#own().cancelRest = cancel
  }

  /** Tells its outcome. */
  settle(outcome: R | Error) {
    this.#enter('done')
    const size = this.#attempt?.size
    if (outcome instanceof Error) this.reject(outcome, size)
    else this.resolve(outcome, size as number)
  }

  /** Records how its attempt ended, if that was not an outcome; returns what comes next, or undefined: it has failed. */
  record(ending: Ending, error?: Error): Next | undefined {
    const { size = 0 } = this.#attempt ?? {}
    const history = this.#own()
    const isLookUp = history.way === 'lookUp'
    if (error) history.cause = error
    if (!isLookUp) {
      history.insertWay = history.way
      if (ending === 'lost') history.mayBeStored = true
      if (ending === 'absent') history.misses++
      if (ending === 'failed' && size > 1) history.hasFailedOthers = true
      if (ending === 'slow') history.doublings++
      if (ending === 'refused' || ending === 'broken') history.refusal = error
    }
    const step = next(history, ending)
    if (step) history.way = step.way
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
    if (this.#history.insertWay !== 'together') next.#own().way = 'carefully'
    return next
  }
}

/** An attempt, which is cut off when nobody waits for any of its rows. */
export class Attempt {
  readonly way: Way
  /** How many rows it has. */
  readonly size: number
  /** When it began, in ms of the clock. */
  readonly began: number
  readonly #controller = new AbortController()
  /** How many of its rows have not expired. */
  #waiting: number

  constructor(way: Way, size: number, began: number) {
    this.way = way
    this.size = this.#waiting = size
    this.began = began
  }

  get signal() {
    return this.#controller.signal
  }

  cutOff() {
    this.#controller.abort()
  }

  /** One of its rows has expired. */
  expire() {
    this.#waiting--
    assert(this.#waiting >= 0, 'each row expires once')
    if (this.#waiting === 0) this.cutOff()
  }
}
