/** The ways in which a row is tried, and what comes next for a row that an attempt has not decided. */
import type { Row } from './row.ts'
import type { Item, RowVerdict, Verdict } from './types.ts'

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
export type Ending = RowVerdict['kind'] | 'absent' | 'failed'

/**
 * Returns the ending for each row of an attempt that has failed as a whole. The failure of a single row is its verdict, unless
 * it was cut off: written together, it took too long.
 */
export function endingOf({ kind }: Verdict, rows: number, isCutOff: boolean): Ending {
  if (kind === 'gone' || kind === 'lost' || (kind === 'away' && !isCutOff)) return kind
  return rows > 1 || (isCutOff && (kind === 'away' || kind === 'busy')) ? 'failed' : kind
}

/** The way of the next attempt: at the back of its rows, at the front, or once the row has rested. */
export type Next = readonly [way: Way, when?: 'first' | 'after its rest']

/** What is left to try after a failure that says nothing about this row: each endangers fewer others. */
const stepsDown: Record<Way, Next> = {
  together: ['carefully'],
  carefully: ['alone'],
  again: ['alone'],
  alone: ['patiently', 'after its rest'],
  patiently: ['patiently', 'after its rest'],
  lookUp: ['lookUpAlone', 'after its rest'],
  lookUpAlone: ['lookUpAlone', 'after its rest']
}

type Facts = Pick<Row<Item, unknown>, 'way' | 'insertWay' | 'mayBeStored' | 'refusal'>

/** Returns what comes next; undefined if the row has failed. No failure is told of a row that may be stored: it is looked up. */
export function next(row: Facts, ending: Ending): Next | undefined {
  const { way, mayBeStored } = row
  if (ending === 'away' || ending === 'untried') return [way, 'first']
  if (ending === 'failed' || ending === 'slow') return stepsDown[way]
  if (isLookUp(way)) return afterLookUp(row, ending)
  if (ending === 'busy') return ['again', 'after its rest']
  if (ending === 'gone') return mayBeStored ? ['lookUp', 'after its rest'] : undefined
  // Absent, lost, refused or broken: this row, or the one of an earlier request, may be there.
  return ['lookUp']
}

function afterLookUp({ way, insertWay, mayBeStored, refusal }: Facts, ending: Ending): Next | undefined {
  const isLeftOut = isOfOne(insertWay) && !mayBeStored
  if (ending === 'absent') return refusal || isLeftOut ? undefined : stepsDown[insertWay]
  return ending === 'busy' || ending === 'lost' || mayBeStored ? [way, 'after its rest'] : undefined
}
