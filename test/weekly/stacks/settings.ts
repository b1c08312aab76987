/** The settings of a stack whose faults are short. */

/** WRITE_DEADLINE_MS: longer than any fault with these settings lasts, also on a slow machine. */
export const deadlineMs = 20_000

/** The service's settings. */
export const settings = {
  WRITE_DEADLINE_MS: String(deadlineMs),
  /** Longer than the slowest create with this deadline takes (src/config/config.ts). */
  SHUTDOWN_TIMEOUT_MS: '45000'
}
