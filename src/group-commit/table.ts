/** What becomes of a row that an attempt has not decided. */
import type { FailureKind } from './write-failure.ts'

/** How the attempt ended for such a row: the failure of all its rows, or that the row was not written, or not found. */
export type Result = FailureKind | 'nothing'

/** What comes next: no further attempt, or which statement, and when. */
export type Next =
  | { readonly attempt: 'none' }
  | { readonly attempt: 'same' | 'insert' | 'find'; readonly when: When }

/** At the front or the back of its queue; once it has rested on its own, or once all lanes have paused. */
export type When = 'first' | 'last' | 'after its rest' | 'after the pause'

/** All that may come next, by its name in the tables. */
export const steps = {
  /** All rows wait for the database together, then the same attempt again. */
  wait: { attempt: 'same', when: 'after the pause' },
  /** The same attempt again, before all others. */
  repeat: { attempt: 'same', when: 'first' },
  /** The same statement with a part of the rows. */
  part: { attempt: 'same', when: 'last' },
  /** The same statement alone, with more time. */
  rest: { attempt: 'same', when: 'after its rest' },
  /** A look-up, with all that wait for one. */
  find: { attempt: 'find', when: 'last' },
  restFind: { attempt: 'find', when: 'after its rest' },
  /** With its part; alone if an insert has left it out. */
  insert: { attempt: 'insert', when: 'last' },
  /** Its client gets the error of its data, or this failure's, or that the row may be stored. */
  fail: { attempt: 'none' }
} as const satisfies Record<string, Next>

const { wait, repeat, part, rest, find, restFind, insert, fail } = steps

type Table = Record<Result, [ofSeveral: Next, ofOneAlone: Next]>

// biome-ignore format: a table
const afterInsert: Table = {
  nothing: [find, find],
  away:    [wait, wait],
  gone:    [fail, fail],
  chance:  [part, rest],
  busy:    [part, rest],
  lost:    [find, restFind],
  broken:  [part, find],
  refused: [part, find]
}

// biome-ignore format: a table
const afterFind: Table = {
  nothing: [insert, insert],
  away:    [wait, wait],
  gone:    [fail, fail],
  chance:  [part, rest],
  busy:    [part, rest],
  lost:    [part, rest],
  broken:  [part, fail],
  refused: [part, fail]
}

/** What else is known about the row. */
export interface Facts {
  /** The attempt was a look-up. */
  readonly looksUp: boolean
  /** No other row was in the attempt. */
  readonly isAlone: boolean
  /** An attempt without a verdict may have stored it. */
  readonly mayBeStored: boolean
  /** It was refused when it was alone: its client gets this error unless the look-up finds its id. */
  readonly refusal: Error | undefined
  /** How often it was repeated at once. */
  readonly repeats: number
  /** How often an insert has left it out. */
  readonly misses: number
}

/** A row is repeated at once this often, and inserted again this often after an insert has left it out. */
const mostRepeats = 3

/** Returns what comes next. */
export function next(
  { looksUp, isAlone, mayBeStored, refusal, repeats, misses }: Facts,
  result: Result
): Next {
  if (result === 'chance' && !looksUp && repeats < mostRepeats) return repeat
  // Nothing more is tried. If the row may be stored, its client is told that (Row.toError).
  if (result === 'nothing' && looksUp && (refusal || misses > mostRepeats)) return fail
  const [ofSeveral, ofOneAlone] = (looksUp ? afterFind : afterInsert)[result]
  const usual = isAlone ? ofOneAlone : ofSeveral
  // No other failure is told of a row that may be stored: it is looked up first.
  return usual === fail && mayBeStored ? restFind : usual
}
