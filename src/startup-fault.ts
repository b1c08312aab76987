/** Faults that keep a process from starting, each a readable line. */

/** Thrown before the service listens. `faults` holds a line for each fault, without any secret. */
export class StartupFault extends Error {
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/** Writes what was thrown at the start to standard error, as plain text, and makes the process exit with code 1. */
export function reportStartupFault(thrown: unknown): void {
  // A library's message may have a stack.
  const faults = thrown instanceof StartupFault ? thrown.faults : [String(thrown).split('\n', 1)[0]]
  for (const fault of faults) process.stderr.write(`plant-store: ${fault}\n`)
  process.exitCode = 1
}
