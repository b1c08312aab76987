/** The ways in which a row is tried, and what comes next for a row that an attempt has not decided. */
import type { Row } from './row.ts'
import type { Item, Verdict } from './types.ts'

/** How many attempts of each way run at a time: each has lanes of its own, so that no kind of row waits for another kind. */
export const lanes = {
  /** With all that wait, in one statement. The settings say how many. */
  together: 0,
  /** One by one in one transaction, so that each row has a verdict. Two lanes: good rows can be behind slow ones. */
  carefully: 2,
  /** A careful call of rows that were busy, as when they were locked. */
  again: 1,
  /** A careful call of one row: one with it and others has failed as a whole, or it was slow, perhaps by a stall. */
  alone: 1,
  /** A careful call of one row that was slow alone, with twice the time after each rest. */
  patiently: 1,
  /** A look-up of what was left out or lost: it may be stored. */
  lookUp: 1,
  /** A look-up of one row: one with it and others has failed. */
  lookUpAlone: 1
}
export type Way = keyof typeof lanes
export const ways = Object.keys(lanes) as Way[]
/** The ways with one row at a time. */
export const isOfOne = (way: Way) => way === 'alone' || way === 'patiently' || way === 'lookUpAlone'
export const isLookUp = (way: Way) => way === 'lookUp' || way === 'lookUpAlone'

/** How an attempt ended for a row: by a verdict, left out or not found (`absent`), or failed with others (`failed`). */
export type Ending = Verdict['kind'] | 'absent' | 'failed'

/**
 * Returns the ending for each row of an attempt that has failed as a whole. The failure of a single row is its verdict, unless
 * it was cut off because it took too long.
 */
export function endingOf({ kind }: Verdict, rows: number, isCutOff: boolean): Ending {
  if (kind === 'gone' || kind === 'lost' || (kind === 'away' && !isCutOff)) return kind
  return rows > 1 || (isCutOff && (kind === 'away' || kind === 'busy')) ? 'failed' : kind
}

/** The next attempt, at the front or the back of its way's rows, or at the back once the row has rested. */
export type Next = readonly [way: Way, when: 'first' | 'last' | 'after its rest']

const lookUp: Next = ['lookUp', 'last']

/**
 * What follows an attempt with others that has failed, a row that was slow, or an insert that a look-up has not found: each
 * endangers fewer rows.
 */
const stepsDown: Record<Way, Next> = {
  together: ['carefully', 'last'],
  carefully: ['alone', 'last'],
  again: ['alone', 'last'],
  alone: ['patiently', 'after its rest'],
  patiently: ['patiently', 'after its rest'],
  lookUp: ['lookUpAlone', 'after its rest'],
  lookUpAlone: ['lookUpAlone', 'after its rest']
}

type Facts = Pick<Row<Item, unknown>, 'way' | 'insertWay' | 'mayBeStored' | 'refusal'>

/** Returns what comes next; undefined if the row has failed. */
export function next(row: Facts, ending: Ending): Next | undefined {
  const { way, insertWay, mayBeStored, refusal } = row
  const lookUpLater: Next = [isLookUp(way) ? way : 'lookUp', 'after its rest']
  // No failure is told of a row that may be stored: it is looked up first.
  const failOrLookUp = mayBeStored ? lookUpLater : undefined
  if (ending === 'away') return [way, 'first']
  if (ending === 'failed' || ending === 'slow') return stepsDown[way]
  if (ending === 'gone') return failOrLookUp
  if (isLookUp(way)) {
    // Left out even alone, although its id is free.
    const isLeftOut = isOfOne(insertWay) && !mayBeStored
    if (ending === 'absent') return refusal || isLeftOut ? undefined : stepsDown[insertWay]
    return ending === 'refused' || ending === 'broken' ? failOrLookUp : lookUpLater
  }
  if (ending === 'untried') return [way, 'first']
  if (ending === 'busy') return ['again', 'after its rest']
  return lookUp
}
