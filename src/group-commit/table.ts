/** What becomes of a row that an attempt has not decided: the table of docs/architecture.md, line by line. */
import type { FailureKind } from '../shared/write-failure.ts'

/** What an attempt has shown of such a row: the failure of all its rows, or that nothing was written, or found. */
export type Result = FailureKind | 'nothing'

/** What is known of a row besides. */
export interface Facts {
  /** The attempt was a look-up. */
  readonly looksUp: boolean
  /** No other row was in the attempt. */
  readonly isAlone: boolean
  /** An attempt without a verdict may have stored it. */
  readonly mayBeStored: boolean
  /** It was refused when it was alone: its client gets that error unless the look-up finds its id. */
  readonly isRefused: boolean
  /** How often it has failed by chance since it has the same company, and how often an insert has left it out. */
  readonly repeats: number
  readonly misses: number
}

export type Next =
  /** All rows wait together, then the same attempt again. */
  | 'wait'
  /** The same attempt again, before all others. */
  | 'repeat'
  /** The same in parts. */
  | 'part'
  /** The same alone, after a rest, with a longer slice. */
  | 'rest'
  | 'find'
  | 'rest, find'
  /** In its part, or alone. */
  | 'insert'
  | 'rest, insert'
  /** Its client gets the error that was held, or this one; or that it may be stored. */
  | 'fail'

/** How often in succession the same rows may fail by chance, and how often a row is tried again that was left out. */
const mostRepeats = 3

/** Returns what comes next. */
export const next = (row: Facts, result: Result): Next =>
  row.looksUp ? afterFind(row, result) : afterInsert(row, result)

function afterInsert({ isAlone, mayBeStored, repeats }: Facts, result: Result): Next {
  switch (result) {
    case 'nothing':
      return 'find'
    case 'away':
      return 'wait'
    case 'gone':
      return mayBeStored ? 'rest, find' : 'fail'
    case 'lost':
      return isAlone ? 'rest, find' : 'find'
    case 'refused':
    case 'broken':
      return isAlone ? 'find' : 'part'
    case 'chance':
      if (repeats < mostRepeats) return 'repeat'
  }
  return isAlone ? 'rest' : 'part'
}

function afterFind({ isAlone, mayBeStored, isRefused, misses }: Facts, result: Result): Next {
  switch (result) {
    case 'nothing':
      if (isRefused || misses > mostRepeats) return 'fail'
      return misses > 0 ? 'rest, insert' : 'insert'
    case 'away':
      return 'wait'
    case 'gone':
      return mayBeStored ? 'rest' : 'fail'
    case 'refused':
    case 'broken':
      if (isAlone && !mayBeStored) return 'fail'
  }
  return isAlone ? 'rest' : 'part'
}
