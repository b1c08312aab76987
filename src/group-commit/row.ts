/** A row on its way to its outcome, whose fields only this file assigns; and an attempt with rows. */
import assert from 'node:assert'
import { Link, List } from './list.ts'
import { type Next, next, type Result, steps } from './table.ts'
import type { AttemptRow, Item } from './types.ts'
import { NotCommitted } from './write-failure.ts'

/** The states of a row, and from which states each may be entered. */
const enteredFrom = {
  /** An older row holds its id. */
  behind: ['new'],
  /** It holds its id, and waits for a lane. */
  waiting: ['new', 'behind', 'tried', 'resting'],
  /** It is in an attempt. */
  tried: ['waiting'],
  /** Its attempt has failed, and nothing is tried with it for a while. */
  resting: ['tried'],
  /** Its outcome is told. If an attempt with it still runs, it holds its id until that has ended. */
  done: ['behind', 'waiting', 'tried', 'resting']
} as const

type State = keyof typeof enteredFrom | 'new'

/**
 * What a row waits for: an insert with new rows, a look-up, a trial with the shortest time limit (with its part, or alone for
 * the first time), or a trial with a longer limit.
 */
export type Kind = 'newRows' | 'lookUp' | 'firstTrial' | 'longTrial'

/** Into how many parts rows are split that have failed together. */
const partsOfAFailure = 4

/** What has happened to a row. Most rows are written at once: they share an empty one. */
class History {
  /** An insert without a verdict may have stored it. */
  mayBeStored = false
  /** Its next attempt is a look-up. */
  looksUp = false
  /** Its inserts are trials: one has failed or has left it out, or the row that had its id before was tried alone. */
  isSuspect = false
  /** How many rows the next insert of a suspect may have. */
  partRows = 0
  /** How often the shortest time limit is doubled for its next trial. */
  doublings = 0
  /** How often it was repeated at once, because an insert had failed by chance. */
  repeats = 0
  /** How often an insert has left it out. */
  misses = 0
  /** How often it has rested. */
  rests = 0
  /** An insert with it and others has failed. */
  hasFailedOthers = false
  /** The error of its data, which its client gets unless the look-up finds its id. */
  refusal: Error | undefined = undefined
  /** The error of its last attempt that has failed. */
  cause: Error | undefined = undefined
  /** Ends its rest before its time. */
  cancelRest: () => void = () => {}
}
const noHistory: Readonly<History> = Object.freeze(new History())

/** Links a row among all rows that wait for their outcome; the row itself is a link of its queue. */
export class DeadlineLink<T extends Item, R> extends Link {
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
  get kind(): Kind {
    const { looksUp, isSuspect, doublings } = this.#history
    if (looksUp) return 'lookUp'
    if (!isSuspect) return 'newRows'
    return doublings === 0 ? 'firstTrial' : 'longTrial'
  }

  #enter(state: keyof typeof enteredFrom) {
    const from: readonly State[] = enteredFrom[state]
    if (!from.includes(this.#state)) throw new Error(`a row that is ${this.#state} cannot be ${state}`)
    this.#state = state
  }

  #ownHistory(): History {
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
    const history = this.#ownHistory()
    history.rests++
    history.cancelRest = cancel
  }

  /** Tells its outcome. */
  settle(outcome: R | Error) {
    this.#enter('done')
    const size = this.#attempt?.size
    if (outcome instanceof Error) this.reject(outcome, size)
    else this.resolve(outcome, size as number)
  }

  /** Records how its attempt ended, if that was not an outcome; returns what comes next. */
  record(result: Result, error?: Error): Next {
    const { size } = this.#attempt as Attempt
    const history = this.#ownHistory()
    const { looksUp, misses } = history
    if (result !== 'nothing') history.cause = error
    // A look-up writes nothing, however it ends.
    if (result === 'lost' && !looksUp) history.mayBeStored = true
    const step = next({ ...history, isAlone: size === 1 }, result)
    if (!looksUp) this.#countInsert(result, step, size)
    // An insert has left it out, though its id is free: it must not hold up others.
    else if (step.attempt === 'insert' && misses > 0) this.#suspect(1)
    if (step.attempt === 'find') history.looksUp = true
    else if (step.attempt === 'insert') history.looksUp = false
    return step
  }

  /** Counts an insert with it, of so many rows, that has not decided it. */
  #countInsert(result: Result, step: Next, size: number) {
    const history = this.#ownHistory()
    if (result === 'nothing') history.misses++
    else if (step === steps.repeat) history.repeats++
    else if (step !== steps.wait) this.#countFailure(result, size)
  }

  /** Rows that have failed together go on in parts. One that has failed alone gets more time, or keeps the error of its data. */
  #countFailure(result: Result, size: number) {
    const history = this.#ownHistory()
    this.#suspect(Math.max(1, Math.floor(size / partsOfAFailure)))
    if (size > 1) history.hasFailedOthers = true
    else {
      history.doublings++
      history.refusal = result === 'broken' || result === 'refused' ? history.cause : undefined
    }
  }

  /** From now on its inserts have so many rows at most, and take turns with those of other suspects. */
  #suspect(partRows: number) {
    const history = this.#ownHistory()
    history.isSuspect = true
    history.partRows = partRows
  }

  /** Returns the error that its client gets if nothing more is tried. */
  toError(): Error {
    const { mayBeStored, refusal, looksUp, cause } = this.#history
    if (mayBeStored) return new NotCommitted('unknown', cause)
    // After a look-up, the cause is the look-up's own error, which says nothing about the data.
    return refusal ?? (looksUp ? new NotCommitted('missing', cause) : (cause as Error))
  }

  /** Lets a newer row with the same id wait behind this one, and behind those that wait already. */
  letWaitBehind(row: Row<T, R>) {
    row.#enter('behind')
    this.#behind ??= new List()
    this.#behind.push(row)
  }

  /** Hands its id on to the next row, and returns that. After a row that was tried alone, the next one is tried alone, too. */
  handOn(): Row<T, R> | undefined {
    const next = this.#behind?.first
    if (next === undefined) return undefined
    next.unlink()
    next.#behind = this.#behind
    if (this.#history.partRows === 1) next.#suspect(1)
    return next
  }
}

/** An attempt, which is cut off when nobody waits for any of its rows. */
export class Attempt {
  readonly kind: Kind
  /** How many rows it has. */
  readonly size: number
  /** When it began, in ms of the clock. */
  readonly began: number
  readonly #controller = new AbortController()
  /** How many of its rows have not expired. */
  #waiting: number

  constructor(kind: Kind, size: number, began: number) {
    this.kind = kind
    this.size = this.#waiting = size
    this.began = began
  }

  get signal() {
    return this.#controller.signal
  }

  cutOff = () => this.#controller.abort()

  /** One of its rows has expired. */
  expire() {
    this.#waiting--
    assert(this.#waiting >= 0, 'each row expires once')
    if (this.#waiting === 0) this.cutOff()
  }
}
