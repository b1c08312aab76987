/** How long the service may take to leave. */

import { noticeMs } from '../connections/shutdown.ts'

/** The settings that decide it, in ms. */
interface Times {
  SHUTDOWN_DELAY_MS: number
  HEADERS_TIMEOUT_MS: number
  WRITE_DEADLINE_MS: number
}

/** In which a server reacts to a cancel request, or is not waited for (database/statement). */
const cancelMs = 1_000

/** What `longestLeaveMs` computes, for people. */
export const leavingRule = `SHUTDOWN_DELAY_MS + ${noticeMs} + HEADERS_TIMEOUT_MS + WRITE_DEADLINE_MS + max(WRITE_DEADLINE_MS / 3, ${cancelMs})`

/**
 * Gives the time in ms, from the signal on, in which every create has its response and every statement has ended. Behind the
 * delay and the notice the server closes: a request that has begun may take HEADERS_TIMEOUT_MS to arrive, and its create
 * WRITE_DEADLINE_MS. An attempt that is given up by then may wait a third of that for its connection (plants/storage),
 * or until it is cancelled.
 */
export function longestLeaveMs({ SHUTDOWN_DELAY_MS, HEADERS_TIMEOUT_MS, WRITE_DEADLINE_MS }: Times): number {
  const attemptMs = Math.max(Math.ceil(WRITE_DEADLINE_MS / 3), cancelMs)
  return SHUTDOWN_DELAY_MS + noticeMs + HEADERS_TIMEOUT_MS + WRITE_DEADLINE_MS + attemptMs
}
