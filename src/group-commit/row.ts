/** A row on its way to its outcome: its state and what has happened to it, which only this file assigns. */
import { Failure } from '../failures.ts'
import { type Ending, isLookUp, type Next, next, type Way } from './table.ts'
import type { AttemptRow, Item } from './types.ts'

/** The states of a row, and from which states each may be entered. */
const enteredFrom = {
  /** It waits for a lane of its way. */
  waiting: ['new', 'tried', 'resting'],
  /** It is in an attempt. */
  tried: ['waiting'],
  /** Its attempt has failed, and nothing is tried with it for a while. */
  resting: ['tried'],
  /** Its outcome is told, perhaps while an attempt with it still runs. */
  done: ['waiting', 'tried', 'resting']
} as const
type State = keyof typeof enteredFrom

const missing =
  'neither written nor found: a trigger returns null, array_nulls is off, or the look-up has failed'

/** A submitted item. */
export type Row<T extends Item, R> = Readonly<OwnRow<T, R>>

/** Makes a row. `deadline` is when it expires, in ms of the clock. */
export const createRow = <T extends Item, R>(
  ...args: ConstructorParameters<typeof OwnRow<T, R>>
): Row<T, R> => new OwnRow(...args)

class OwnRow<T extends Item, R> implements AttemptRow<T> {
  readonly item: T
  readonly deadline: number
  readonly #onOutcome: (outcome: R | Error) => void
  state: State | 'new' = 'new'
  /** The way of its next attempt, or of the one that runs; and of its last insert. */
  way: Way = 'together'
  insertWay: Way = 'together'
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

  /** Changes its state; throws if that cannot follow. `done` has a method of its own. */
  enter(state: State) {
    const from: readonly string[] = enteredFrom[state]
    if (!from.includes(this.state)) throw new Error(`a row that is ${this.state} cannot be ${state}`)
    this.state = state
    if (state === 'resting') this.rests++
  }

  /** Tells its outcome. */
  settle(outcome: R | Error) {
    this.enter('done')
    this.#onOutcome(outcome)
  }

  /** Records how its attempt ended, if that was not an outcome; returns what comes next, or undefined: it has failed. */
  record(ending: Ending, error?: Error): Next | undefined {
    if (error) this.cause = error
    const isVerdict = ending === 'refused' || ending === 'broken'
    if (!isLookUp(this.way)) {
      this.insertWay = this.way
      if (ending === 'lost') this.mayBeStored = true
      if (isVerdict) this.refusal = error
    } else if (ending === 'gone' || isVerdict) {
      // Its client gets 500, not 422: an earlier request may have stored the row, and nobody can say.
      this.refusal = undefined
    }
    const step = next(this, ending)
    if (step) this.way = step[0]
    return step
  }

  /** Returns the error that its client gets if nothing more is tried. */
  toError(): Error {
    const { mayBeStored, refusal, way, cause } = this
    if (mayBeStored) return new Failure('OutcomeUnknown', { cause })
    // After a look-up, the cause says nothing about the data.
    return refusal ?? (isLookUp(way) ? new Error(missing, { cause }) : (cause as Error))
  }
}
