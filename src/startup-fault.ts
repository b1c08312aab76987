/** The faults that keep a process from starting. Each of them is a readable line. */

/**
 * Thrown before the service listens. `faults` has a line for each fault; no line holds a secret.
 */
export class StartupFault extends Error {
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/**
 * Writes what was thrown during the start to standard error, as plain text. The process then exits
 * with code 1.
 */
export function reportStartupFault(thrown: unknown): void {
  // Write only the first line, because a library's message can contain a stack.
  const faults = thrown instanceof StartupFault ? thrown.faults : [String(thrown).split('\n', 1)[0]]
  for (const fault of faults) process.stderr.write(`plant-store: ${fault}\n`)
  process.exitCode = 1
}
