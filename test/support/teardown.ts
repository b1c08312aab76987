/** What a test, or a run outside of tests, releases at its end. */
import type { Test } from 'tap'

/** What runs at the end of a test. */
export type Teardown = Pick<Test, 'teardown'>

/** Calls back outside a test with a teardown, which runs afterwards. */
export async function withTeardown<Result>(use: (t: Teardown) => Promise<Result>): Promise<Result> {
  const callbacks: (() => unknown)[] = []
  try {
    return await use({ teardown: (callback) => void callbacks.unshift(callback) })
  } finally {
    for (const callback of callbacks) await callback()
  }
}
