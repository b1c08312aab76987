/**
 * Promise 9: of a row that never ends it is known that nothing was stored, as each attempt at it
 * was cut off in time.
 */
import t from 'tap'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import type { Store } from '../../src/group-commit/types.ts'
import { installVirtualTime } from '../support/virtual-time.ts'

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const cancelled = { kind: 'retryable', error: new Error('canceling statement') } as const

/**
 * A table whose trigger never ends. What is cut off, or has reached its limit, ends within 3 ms.
 */
const store: Store<{ id: bigint; bytes: number }, string> = {
  async insert(_, __, signal) {
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    await wait(3)
    return cancelled
  },
  async insertEach(rows, limitMs) {
    await wait(limitMs + 3)
    return rows.map(() => ({ kind: 'slow' }) as const)
  },
  find: async (rows) => rows.map(() => undefined),
  probe: async () => undefined
}

t.test(
  'a row that never ends: DeadlineExceeded at the deadline, from half a second on',
  async (t) => {
    for (let deadlineMs = 500; deadlineMs <= 10_000; deadlineMs += 330) {
      const { moveTo, restore } = installVirtualTime(() => 0.5)
      t.teardown(restore)
      const limits = { lanes: 3, batchRows: 256, batchBytes: 2 ** 21, deadlineMs }
      const group = new GroupCommit(store, limits, { onAttempt() {}, onOutage() {} })
      let outcome: unknown
      group.submit({ id: 1n, bytes: 1 }).catch((error) => {
        outcome = error
      })
      await moveTo(deadlineMs - 1)
      t.equal(outcome, undefined, `nothing is told within ${deadlineMs} ms`)
      await moveTo(deadlineMs)
      t.match(outcome, { name: 'DeadlineExceeded', outcome: 'none' })
      restore()
    }
  }
)
