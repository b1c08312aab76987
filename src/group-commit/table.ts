/** The ways in which a row is tried, and what becomes of a row that an attempt has not decided. */
import type { FailureKind } from '../shared/write-failure.ts'
import type { Verdict } from './types.ts'

/**
 * The ways, and how many attempts of each run at a time: each has lanes of its own, so that no kind of row waits for
 * another kind. `together` has those of the settings.
 */
export const lanes = {
  /** With all that wait, in one statement. */
  together: 0,
  /** One by one in one transaction, so that each row has its own verdict. Two: rows that come next wait for slow ones. */
  carefully: 2,
  /** The same, with others that were locked or failed by chance. */
  again: 1,
  /** The same with one row: a careful call with it has failed as a whole. */
  alone: 1,
  /** The same with one row that was slow, and twice the time for each try. */
  patiently: 1,
  /** A look-up of the ids: what was lost or left out may be stored. */
  lookUp: 1
}
export type Way = keyof typeof lanes

/** How an attempt ended for a row: with a verdict of its own, left out or not found (`absent`), or with all others. */
export type Ending = Verdict['verdict'] | 'absent' | 'away' | 'gone' | 'lost' | 'failed'

/** What comes next: another attempt, at the front or the back of its way's rows, after a rest or a pause; or no more. */
export interface Next {
  readonly way: Way
  readonly when: 'first' | 'last' | 'after its rest' | 'after the pause'
}

/** Returns the ending for each row of an attempt that has failed as a whole. The failure of a single row is its own. */
export function endingOf(kind: FailureKind, rows: number, isCutOff: boolean): Ending {
  if (isCutOff && (kind === 'away' || kind === 'busy')) return rows === 1 ? 'slow' : 'failed'
  if (kind === 'away' || kind === 'gone' || kind === 'lost') return kind
  if (rows > 1) return 'failed'
  return kind === 'chance' ? 'busy' : kind
}

/** What a row does after an insert of its way, so that it endangers fewer others. */
const stepsDown: Record<Way, Next> = {
  together: { way: 'carefully', when: 'last' },
  carefully: { way: 'alone', when: 'last' },
  again: { way: 'alone', when: 'last' },
  alone: { way: 'patiently', when: 'after its rest' },
  patiently: { way: 'patiently', when: 'after its rest' },
  lookUp: { way: 'lookUp', when: 'last' }
}

const lookUp: Next = { way: 'lookUp', when: 'last' }
const lookUpLater: Next = { way: 'lookUp', when: 'after its rest' }

/** What is known of the row. */
export interface Facts {
  /** The way of the attempt that has ended. */
  readonly way: Way
  /** The way of its last insert. */
  readonly insertWay: Way
  /** An attempt without a verdict may have stored it. */
  readonly mayBeStored: boolean
  /** The error of its data, which its client gets unless the look-up finds its id. */
  readonly refusal: Error | undefined
  /** How often an insert has left it out. */
  readonly misses: number
}

/** A row is inserted again this often after an insert has left it out and its id was not found. */
const mostMisses = 3

/** Returns what comes next; undefined if the row has failed. */
export function next(facts: Facts, ending: Ending): Next | undefined {
  const { way, insertWay, refusal, misses, mayBeStored } = facts
  const isLookUp = way === 'lookUp'
  switch (ending) {
    case 'away':
      return { way, when: 'after the pause' }
    case 'untried':
      return { way, when: 'first' }
    case 'failed':
      return stepsDown[way]
    case 'absent':
      if (!isLookUp) return lookUp
      return refusal || misses > mostMisses ? undefined : stepsDown[insertWay]
    case 'lost':
      return isLookUp ? lookUpLater : lookUp
    case 'busy':
      return isLookUp ? lookUpLater : { way: 'again', when: 'after its rest' }
    case 'slow':
      return isLookUp ? lookUpLater : { way: 'patiently', when: 'after its rest' }
    case 'refused':
    case 'broken':
      if (!isLookUp) return lookUp
      break
    case 'gone':
  }
  // No other failure is told of a row that may be stored: it is looked up first.
  return mayBeStored ? lookUpLater : undefined
}
