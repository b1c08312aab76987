/** What becomes of rows whose attempt has failed: a table, and the evidence that it is the database's failure. */
import type { WriteFailure } from './types.ts'

/** So often in a row chance may fail the same rows. */
const chances = 3
/**
 * So many failures in a row are everybody's: rows alone; batches that are cut off by their limit; and such batches where
 * others were written after the rows had failed, so that these are more likely to be slow by themselves.
 */
const rowsAlone = 16
const cutOffs = 3
const cutOffsAfterWrites = 8

/**
 * `fail`: the caller gets the error. `wait`: the rows stay together, and nothing is tried for a while. `repeat`: they
 * stay together, and go first. `split`: they become suspects in smaller batches. `rest`: the row waits by itself.
 */
export type Verdict = 'fail' | 'wait' | 'repeat' | 'split' | 'rest'

/** What is known beside the failure. */
interface Circumstances {
  /** The row was alone in what has failed. */
  readonly isAlone: boolean
  /** The evidence says so. */
  readonly isEverybodys: boolean
  /** An attempt may have stored the row. */
  readonly mayBeStored: boolean
  /** How often chance has failed the row. */
  readonly repeats: number
}

/**
 * Judges the failure of a row's attempt. One that may be the row's or everybody's is taken for the row's until the
 * evidence says otherwise: its neighbours are told apart from it by smaller batches.
 */
export function judge(
  { whose, again }: Pick<WriteFailure, 'whose' | 'again'>,
  { isAlone, isEverybodys, mayBeStored, repeats }: Circumstances
): Verdict {
  const isDatabases = whose === 'database' || (whose === 'unclear' && isEverybodys)
  // What may be stored is asked for until the deadline, unless its data is at fault: what is broken can be repaired.
  const isFinal = again === 'never' && (whose === 'row' || !mayBeStored)
  if (isFinal) return isDatabases || isAlone ? 'fail' : 'split'
  if (isDatabases) return 'wait'
  if (again === 'now' && repeats < chances) return 'repeat'
  return isAlone ? 'rest' : 'split'
}

/** Collects what has failed since the last success, as far as it could be one row's failure. */
export function createEvidence() {
  let weight = 0
  let writes = 0
  return {
    /** How often something was written. */
    get writes() {
      return writes
    },
    get isEverybodys() {
      return weight >= 1
    },
    /** Takes in a failure of rows that had failed first after so many writes. */
    add(
      { whose }: WriteFailure,
      { isAlone, isCutOff, since }: { isAlone: boolean; isCutOff: boolean; since: number }
    ) {
      if (whose !== 'unclear') return
      if (isCutOff) weight += 1 / (writes > since ? cutOffsAfterWrites : cutOffs)
      else if (isAlone) weight += 1 / rowsAlone
    },
    /** Something was written. */
    clear() {
      weight = 0
      writes++
    }
  }
}
