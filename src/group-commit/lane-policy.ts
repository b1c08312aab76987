/** The lane policy: which kind of rows a free lane takes, and how many of them. */
import assert from 'node:assert'
import type { Kind } from './row.ts'
import type { Limits } from './types.ts'

/** The kinds besides first trials, in the order in which they take turns. */
const otherKinds: readonly Kind[] = ['lookUp', 'newRows', 'longTrial']
/** One more part of rows goes along for every four trials that have succeeded in a row. */
const successesPerPart = 4
/** A look-up that has failed goes on with a quarter of its rows; each success lets four times as many go together. */
const lookUpFactor = 4
/** After a long trial, the rows that it holds up get four times as much time before the next one. */
const timeOfOthersFactor = 4

/** Decides by what waits, what runs, and how earlier attempts have ended. It knows no rows. */
export class LanePolicy {
  readonly #limits: Pick<Limits, 'lanes' | 'batchRows'>
  /** How many lanes have a batch of each kind. */
  readonly #busy: Record<Kind, number> = { lookUp: 0, newRows: 0, firstTrial: 0, longTrial: 0 }
  /** How many trials have succeeded since a trial or an insert of new rows has failed. */
  readonly #successes = { firstTrial: 0, longTrial: 0 }
  /** How many rows the next look-up may have. */
  #lookUpRows: number
  /** How much time the others are to get before the next long trial, in ms. */
  #debtMs = 0
  #lastKind: Kind = 'longTrial'
  #lastOtherKind: Kind = 'longTrial'

  constructor(limits: Pick<Limits, 'lanes' | 'batchRows'>) {
    this.#limits = limits
    this.#lookUpRows = limits.batchRows
  }

  /** Returns what a free lane takes: a first trial every second time, and between them the other kinds in turn. */
  choose(isWaiting: (kind: Kind) => boolean): Kind | undefined {
    const turn = otherKinds.indexOf(this.#lastOtherKind) + 1
    const inTurn = [...otherKinds.slice(turn), ...otherKinds.slice(0, turn)]
    const kinds: Kind[] =
      this.#lastKind === 'firstTrial' ? [...inTurn, 'firstTrial'] : ['firstTrial', ...inTurn]
    return kinds.find((kind) => isWaiting(kind) && this.#mayStart(kind, isWaiting))
  }

  /**
   * One look-up runs at a time. Trials leave a lane to the others. Long ones have one lane at most, and a limited part of
   * the time while first trials wait; in a single lane, while anything else waits.
   */
  #mayStart(kind: Kind, isWaiting: (kind: Kind) => boolean): boolean {
    if (kind === 'newRows') return true
    if (kind === 'lookUp') return this.#busy.lookUp === 0
    const { lanes } = this.#limits
    const hasLane = this.#busy.firstTrial + this.#busy.longTrial < Math.max(1, lanes - 1)
    if (!hasLane || kind === 'firstTrial') return hasLane
    const holdsUpOthers =
      isWaiting('firstTrial') || (lanes === 1 && (isWaiting('newRows') || isWaiting('lookUp')))
    return this.#busy.longTrial === 0 && (this.#debtMs <= 0 || !holdsUpOthers)
  }

  /**
   * Returns how many rows an attempt may have with a row of this kind; `partRows` counts for suspects. The parts of a failed
   * batch are tried one by one at first. The more trials succeed in a row, the more parts go together: if all rows had met
   * the same trouble, it is over, and they are soon written.
   */
  mostRows(kind: Kind, partRows: number): number {
    if (kind === 'newRows') return this.#limits.batchRows
    if (kind === 'lookUp') return this.#lookUpRows
    return partRows * Math.max(1, Math.ceil(this.#successes[kind] / successesPerPart))
  }

  /** Call it when an attempt begins. */
  begin(kind: Kind) {
    this.#busy[kind]++
    this.#lastKind = kind
    if (kind !== 'firstTrial') this.#lastOtherKind = kind
  }

  /** Call it when an attempt has ended, with its number of rows and its time. */
  end(kind: Kind, rows: number, isSuccess: boolean, ms: number) {
    this.#busy[kind]--
    assert(this.#busy[kind] >= 0, 'an attempt ends once')
    this.#debtMs = kind === 'longTrial' ? timeOfOthersFactor * ms : this.#debtMs - ms
    if (kind === 'lookUp')
      this.#lookUpRows = isSuccess
        ? Math.min(this.#limits.batchRows, this.#lookUpRows * lookUpFactor)
        : Math.ceil(rows / lookUpFactor)
    else if (!isSuccess) this.#successes.firstTrial = this.#successes.longTrial = 0
    else if (kind !== 'newRows') this.#successes[kind]++
  }
}
