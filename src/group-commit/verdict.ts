/** What becomes of rows whose attempt has failed: a table, and the evidence that it is the database's failure. */
import type { Row } from './rows.ts'
import type { WriteFailure } from './types.ts'

/** How often in succession the same rows may fail by chance. */
const chances = 3
/** How many rows in succession have to fail alone to make it everybody's failure. */
const enough = 16

/**
 * `fail`: the caller gets the error. `wait`: the rows stay together, and nothing is tried for a while. `repeat`: they
 * stay together, and go first. `split`: they become suspects in smaller batches. `rest`: the row waits by itself.
 */
export type Verdict = 'fail' | 'wait' | 'repeat' | 'split' | 'rest'

/**
 * Judges the failure of a row's attempt, in which it may have been alone. A failure that may be the row's or
 * everybody's counts as the row's until the evidence says otherwise: smaller batches tell them apart.
 */
export function judge(
  { whose, again }: Pick<WriteFailure, 'whose' | 'again'>,
  { mayBeStored, repeats }: Pick<Row<never, never>, 'mayBeStored' | 'repeats'>,
  isAlone: boolean,
  isEverybodys: boolean
): Verdict {
  const isDatabases = whose === 'database' || (whose === 'unclear' && isEverybodys && !isAlone)
  // Unless its data is at fault, a row that may be stored is looked up until its deadline: what is broken can be repaired.
  const isFinal = again === 'never' && (whose === 'row' || !mayBeStored)
  if (isFinal) return isDatabases || isAlone ? 'fail' : 'split'
  if (isDatabases) return 'wait'
  if (again === 'now' && repeats < chances && !isEverybodys) return 'repeat'
  return isAlone ? 'rest' : 'split'
}

/**
 * Collects what has failed since the last success, as far as it could be one row's failure. What was collected before
 * a row first failed says nothing about it: other rows may have been at fault.
 */
export function createEvidence() {
  let total = 0
  let clearedAt = 0
  return {
    get now() {
      return total
    },
    /** Whether something was written since a moment. */
    wasWritten: (since = 0) => clearedAt > since,
    /** Whether what has failed since a moment is everybody's failure. */
    isEverybodys: (since = 0) => total - Math.max(since, clearedAt) >= enough,
    add({ whose }: WriteFailure, isAlone: boolean) {
      if (whose === 'unclear' && isAlone) total++
    },
    /** Something was written. */
    clear() {
      clearedAt = ++total
    }
  }
}
