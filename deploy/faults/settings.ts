/** The settings of a stack whose faults are short. */

/** WRITE_DEADLINE_MS: longer than any fault with these settings lasts, also on a slow machine. */
export const deadlineMs = 20_000

/** What the service is told. */
export const settings = {
  WRITE_DEADLINE_MS: String(deadlineMs),
  /** More than SHUTDOWN_DELAY_MS, a second and four thirds of the deadline: creates that wait are not cut off. */
  SHUTDOWN_TIMEOUT_MS: '35000'
}
