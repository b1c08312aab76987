/** What becomes of a row that an attempt has not decided. */
import type { FailureKind } from '../shared/write-failure.ts'

/** What an attempt has shown of such a row: the failure of all its rows, or that nothing was written, or found. */
export type Result = FailureKind | 'nothing'

export type Next =
  /** All rows wait together, then the same attempt again. */
  | 'wait'
  /** The same attempt again, before all others. */
  | 'repeat'
  /** The same in parts. */
  | 'part'
  /** The same alone, after a rest; with more time. */
  | 'rest'
  | 'find'
  | 'rest, find'
  /** In its part; alone if inserts have left it out. */
  | 'insert'
  /** Its client gets the error that was held, or this one; or that it may be stored. */
  | 'fail'

type Table = Record<Result, [ofSeveral: Next, ofOneAlone: Next]>

// biome-ignore format: a table
const afterInsert: Table = {
  nothing: ['find', 'find'],
  away:    ['wait', 'wait'],
  gone:    ['fail', 'fail'],
  chance:  ['part', 'rest'],
  busy:    ['part', 'rest'],
  lost:    ['find', 'rest, find'],
  broken:  ['part', 'find'],
  refused: ['part', 'find']
}

// biome-ignore format: a table
const afterFind: Table = {
  nothing: ['insert', 'insert'],
  away:    ['wait', 'wait'],
  gone:    ['fail', 'fail'],
  chance:  ['part', 'rest'],
  busy:    ['part', 'rest'],
  lost:    ['part', 'rest'],
  broken:  ['part', 'fail'],
  refused: ['part', 'fail']
}

/** What is known of a row besides. */
export interface Facts {
  /** The attempt was a look-up. */
  readonly looksUp: boolean
  /** No other row was in the attempt. */
  readonly isAlone: boolean
  /** An attempt without a verdict may have stored it. */
  readonly mayBeStored: boolean
  /** It was refused when it was alone: its client gets that error unless the look-up finds its id. */
  readonly refusal: Error | undefined
  /** How often it has been repeated at once, and how often an insert has left it out. */
  readonly repeats: number
  readonly misses: number
}

/** How often a row is repeated at once, and how often a row is tried again that was left out. */
const mostRepeats = 3

/** Returns what comes next. */
export function next(
  { looksUp, isAlone, mayBeStored, refusal, repeats, misses }: Facts,
  result: Result
): Next {
  if (result === 'chance' && !looksUp && repeats < mostRepeats) return 'repeat'
  if (result === 'nothing' && looksUp && (refusal || misses > mostRepeats)) return 'fail'
  const [ofSeveral, ofOneAlone] = (looksUp ? afterFind : afterInsert)[result]
  const usual = isAlone ? ofOneAlone : ofSeveral
  // What may be stored has not failed.
  return usual === 'fail' && mayBeStored ? 'rest, find' : usual
}
