/** How long a service may take to leave. */
import type { Config } from '../../src/config/config.ts'

/** What SHUTDOWN_TIMEOUT_MS must exceed, or creates that wait are cut off: the delay, the notice, and a late create's end. */
export const longestLeaveMs = ({ shutdownDelayMs, write }: Config) =>
  shutdownDelayMs + 1_000 + (write.deadlineMs * 4) / 3
