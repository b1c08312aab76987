/** The batch policy: how long an idle lane waits for company. A lane that has finished takes what has come at once. */
import type { Clock } from './clock.ts'

/** Returns a function to call for each row that finds a lane idle; it calls `start` when idle lanes are to take rows. */
export type BatchPolicy = (batchRows: number, clock: Clock, start: () => void) => () => void

/**
 * An idle lane takes what has come by the end of the event loop's turn, or at once what fills a batch. Many requests arrive
 * in one turn: a lane that took the first alone would be busy when the others come.
 */
export const waitForTurn: BatchPolicy = (batchRows, clock, start) => {
  let rows = 0
  return () => {
    if (rows++ === 0)
      clock.afterPoll(() => {
        rows = 0
        start()
      })
    if (rows % batchRows === 0) start()
  }
}
