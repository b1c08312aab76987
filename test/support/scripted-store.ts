/** A group commit over a store whose attempts the test ends by hand. */
import { createGroupCommit } from '../../src/group-commit/group-commit.ts'
import {
  type AttemptReport,
  type AttemptRow,
  type Limits,
  NotCommitted,
  type WriteFailure,
  type Written
} from '../../src/group-commit/types.ts'
import { createVirtualClock } from './virtual-clock.ts'

type Meaning = Omit<WriteFailure, 'error'>

/** Failures of an attempt, by what causes them. */
export const failures = {
  /** No connection is available. */
  away: { written: 'no', whose: 'database', again: 'later' },
  /** The connection is lost. */
  lost: { written: 'maybe', whose: 'unclear', again: 'later' },
  /** A lock, a time-out, a disk that is full. */
  busy: { written: 'no', whose: 'unclear', again: 'later' },
  /** A deadlock. */
  chance: { written: 'no', whose: 'unclear', again: 'now' },
  /** A damaged page. */
  broken: { written: 'no', whose: 'unclear', again: 'never' },
  /** A table that is not there. */
  gone: { written: 'no', whose: 'database', again: 'never' },
  /** A check constraint. */
  refused: { written: 'no', whose: 'row', again: 'never' }
} as const satisfies Record<string, Meaning>

export type Trouble = keyof typeof failures

/** The failure by its name, which is its error's message. */
export const failureOf = (trouble: Trouble): WriteFailure => ({
  error: new Error(trouble),
  ...failures[trouble]
})

export interface Plant {
  id: bigint
  bytes: number
  label: string
}

/** The result of a row that was neither written nor conflicts with another. */
export const undecided = Symbol('undecided')

interface Attempt {
  rows: readonly AttemptRow<Plant>[]
  /** The labels, in order. */
  labels: string
  mayBeStored: boolean[]
  signal: AbortSignal
  at: number
  /** Ends it with these results; rows without one are stored. */
  succeed(...results: (string | Error | typeof undecided)[]): Promise<void>
  /** Ends it with a failure for those rows that these results leave undecided. */
  fail(trouble: Trouble, ...results: (string | Error | undefined)[]): Promise<void>
}

export const roomy: Limits = {
  lanes: 1,
  batchRows: 100,
  batchBytes: 1000,
  deadlineMs: 10_000
}

/** Makes it; `random` is what the clock returns for chance. */
export function setUp(limits: Partial<Limits> = {}, onAttempt?: (report: AttemptReport) => void, random = 0) {
  const clock = createVirtualClock(() => random)
  const attempts: Attempt[] = []
  const outcomes: Record<string, unknown> = {}
  const causes: Record<string, unknown> = {}
  const probes: { at: number; succeed(): Promise<void>; fail(): Promise<void> }[] = []
  const outages: boolean[] = []
  const onOutage = (databaseDown: boolean) => void outages.push(databaseDown)
  const group = createGroupCommit<Plant, string>(
    {
      write(rows, signal) {
        const { promise, resolve } = Promise.withResolvers<Written<string>>()
        const end = (written: Written<string>) => {
          resolve(written)
          return clock.settle()
        }
        attempts.push({
          rows: [...rows],
          labels: rows.map(({ item }) => item.label).join(' '),
          mayBeStored: rows.map(({ mayBeStored }) => mayBeStored),
          signal,
          at: clock.now(),
          succeed: (...given) => {
            const results = rows.map(({ item }, index) => given[index] ?? `stored ${item.label}`)
            return end({ results: results.map((result) => (result === undecided ? undefined : result)) })
          },
          fail: (trouble, ...results) => end({ results, failure: failureOf(trouble) })
        })
        return promise
      },
      probe() {
        const { promise, resolve, reject } = Promise.withResolvers<void>()
        probes.push({
          at: clock.now(),
          succeed() {
            resolve()
            return clock.settle()
          },
          fail() {
            reject(new Error('databaseDown'))
            return clock.settle()
          }
        })
        return promise
      }
    },
    { ...roomy, ...limits },
    onAttempt ? { clock, onAttempt, onOutage } : { clock, onOutage }
  )
  /** Plants that arrive in one turn of the event loop. Labels such as `7a`: the digits are the id. */
  function submitTogether(...labels: string[]) {
    for (const label of labels) {
      const item = { id: BigInt(Number.parseInt(label, 10)), bytes: 10, label }
      group.submit(
        item,
        (result) => (outcomes[label] = result),
        (thrown) => {
          const error = thrown as Error
          outcomes[label] = error instanceof NotCommitted ? error.reason : error.message
          causes[label] = error.cause
        }
      )
    }
    clock.endTurn()
  }
  /** Plants that arrive in a turn each. */
  function submit(...labels: string[]) {
    for (const label of labels) submitTogether(label)
  }
  const last = () => attempts.at(-1) as Attempt
  const log = () => attempts.map(({ labels }) => labels)
  return { clock, group, attempts, outcomes, causes, outages, probes, submit, submitTogether, last, log }
}
