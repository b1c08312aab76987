/** A group commit over a store whose attempts the test ends by hand. */
import type { BatchPolicy } from '../../src/group-commit/batch-policy.ts'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import type { AttemptEnd, AttemptReport, AttemptRow, Limits } from '../../src/group-commit/types.ts'
import { type FailureKind, NotCommitted, type WriteFailure } from '../../src/shared/write-failure.ts'
import { createVirtualClock } from './virtual-clock.ts'

/** The failure by its name, which is its error's message. */
export const failureOf = (kind: FailureKind): WriteFailure => ({ error: new Error(kind), kind })

export interface Plant {
  id: bigint
  bytes: number
  label: string
}

/** The result of a row that an insert has left out, or a look-up has not found. */
export const nothing = Symbol('nothing')

interface Attempt {
  rows: readonly AttemptRow<Plant>[]
  /** The labels, in order; `find` before those of a look-up. */
  labels: string
  mayBeStored: boolean[]
  /** How long it waits for a lock; undefined for a look-up. */
  lockMs: number | undefined
  signal: AbortSignal
  at: number
  /** Ends it with these results; rows without one are stored. */
  succeed(...results: (string | Error | typeof nothing)[]): Promise<void>
  fail(kind: FailureKind): Promise<void>
}

/** Something that ends when the test ends it. */
interface Pending {
  at: number
  succeed(): Promise<void>
  fail(): Promise<void>
}

/** The batch policy of tests that are about something else: an idle lane takes what comes in one turn. */
export const takeTurns: BatchPolicy = (_, clock, start) => () => clock.afterPoll(start)

export const roomy: Limits = { lanes: 1, batchRows: 100, batchBytes: 1000, deadlineMs: 10_000 }

/** Makes it; `random` is what the clock returns for chance. */
export function setUp(limits: Partial<Limits> = {}, onAttempt?: (report: AttemptReport) => void, random = 0) {
  const clock = createVirtualClock(() => random)
  const attempts: Attempt[] = []
  const outcomes: Record<string, unknown> = {}
  const causes: Record<string, unknown> = {}
  const probes: Pending[] = []
  const commits: Pending[] = []
  const outages: boolean[] = []
  const onOutage = (databaseDown: boolean) => void outages.push(databaseDown)

  function begin(rows: readonly AttemptRow<Plant>[], lockMs: number | undefined, signal: AbortSignal) {
    const { promise, resolve } = Promise.withResolvers<AttemptEnd<string>>()
    const end = (written: AttemptEnd<string>) => {
      resolve(written)
      return clock.settle()
    }
    const labels = rows.map(({ item }) => item.label).join(' ')
    attempts.push({
      rows: [...rows],
      labels: lockMs === undefined ? `find ${labels}` : labels,
      mayBeStored: rows.map(({ mayBeStored }) => mayBeStored),
      lockMs,
      signal,
      at: clock.now(),
      succeed: (...given) => {
        const results = rows.map(({ item }, index) => given[index] ?? `stored ${item.label}`)
        return end({ results: results.map((result) => (result === nothing ? undefined : result)) })
      },
      fail: (kind) => end({ failure: failureOf(kind) })
    })
    return promise
  }

  function add(list: Pending[], message: string) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const end = (how: () => void) => {
      how()
      return clock.settle()
    }
    list.push({
      at: clock.now(),
      succeed: () => end(resolve),
      fail: () => end(() => reject(new Error(message)))
    })
    return promise
  }

  const group = new GroupCommit<Plant, string>(
    {
      insert: begin,
      find: (rows, signal) => begin(rows, undefined, signal),
      commitNothing: () => add(commits, 'no commit'),
      probe: () => add(probes, 'databaseDown')
    },
    { ...roomy, ...limits },
    { clock, policy: takeTurns, onOutage, ...(onAttempt && { onAttempt }) }
  )
  /** Plants that arrive in one turn of the event loop. Labels such as `7a@b`: the digits are the id, b the caller. */
  function submitTogether(...labels: string[]) {
    for (const label of labels) {
      const [, caller = ''] = label.split('@')
      const item = { id: BigInt(Number.parseInt(label, 10)), bytes: 10, label, caller }
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
  return {
    clock,
    group,
    attempts,
    outcomes,
    causes,
    outages,
    probes,
    commits,
    submit,
    submitTogether,
    last,
    log
  }
}
