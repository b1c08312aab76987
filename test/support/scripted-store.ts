/** A group commit over a store whose attempts the test ends by hand. */
import { createGroupCommit } from '../../src/group-commit/group-commit.ts'
import {
  type AttemptRow,
  type Batch,
  type Limits,
  type missing,
  NotCommitted,
  type WriteFailure
} from '../../src/group-commit/types.ts'
import { createVirtualClock } from './virtual-clock.ts'

export interface Plant {
  id: bigint
  bytes: number
  label: string
}

class StoreError extends Error {
  readonly trouble: WriteFailure
  readonly mayBeOneRows: boolean
  constructor(trouble: WriteFailure, mayBeOneRows: boolean) {
    super(trouble)
    this.trouble = trouble
    this.mayBeOneRows = mayBeOneRows
  }
}

interface Attempt {
  rows: readonly AttemptRow<Plant>[]
  /** The labels, in order. */
  labels: string
  repeated: boolean[]
  signal: AbortSignal
  at: number
  succeed(...results: (string | Error | typeof missing)[]): Promise<void>
  /** One row may be what makes it fail so, if that is said. */
  fail(trouble: WriteFailure, mayBeOneRows?: 'oneRows'): Promise<void>
}

export const roomy: Limits = {
  lanes: 1,
  batchRows: 100,
  batchBytes: 1000,
  deadlineMs: 10_000
}

/** Makes it; `random` is what the clock gives for chance. */
export function setUp(limits: Partial<Limits> = {}, onBatch?: (batch: Batch) => void, random = 0) {
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
        const { promise, resolve, reject } = Promise.withResolvers<(string | Error | typeof missing)[]>()
        attempts.push({
          rows: [...rows],
          labels: rows.map(({ item }) => item.label).join(' '),
          repeated: rows.map(({ repeated }) => repeated),
          signal,
          at: clock.now(),
          succeed(...results) {
            resolve(rows.map(({ item }, index) => results[index] ?? `stored ${item.label}`))
            return clock.settle()
          },
          fail(trouble, mayBeOneRows) {
            reject(new StoreError(trouble, mayBeOneRows !== undefined))
            return clock.settle()
          }
        })
        return promise
      },
      classify: (error) => (error as StoreError).trouble,
      mayBeOneRows: (error) => (error as StoreError).mayBeOneRows,
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
    onBatch ? { clock, onBatch, onOutage } : { clock, onOutage }
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
