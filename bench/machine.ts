/** The facts that figures depend on; nothing of them names the machine or its paths. */
import { availableParallelism, cpus, totalmem } from 'node:os'

/** Returns today's date, the machine and the versions in one line; `programs` are names with versions. */
export function describeMachine(programs: string[]): string {
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  const hardware = `${availableParallelism()} cores of ${cpus()[0]?.model.trim() ?? 'an unknown CPU'}, ${memory}`
  const date = new Date().toISOString().slice(0, 10)
  return `${date}; ${hardware}; ${[`Node ${process.versions.node}`, ...programs].join(', ')}`
}
