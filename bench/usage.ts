/** What processes have used, read from Linux's /proc; NaN where there is none. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** Microseconds in one of the kernel's clock ticks, which are 1/100 s for every program. */
const tickUs = 10_000

/** Returns the CPU time that a process has used, in µs. */
export const cpuUs = (pid: number): number => readStat(pid)?.own ?? Number.NaN

/** Returns the CPU time that a process and its children have used, those that have ended too, in µs. */
export function familyCpuUs(parent: number): number {
  const stat = readStat(parent)
  if (stat === undefined) return Number.NaN
  const processes = readdirSync('/proc').map((name) => readStat(Number(name)))
  const children = processes.filter((other) => other?.parent === parent)
  return children.reduce((sum, child) => sum + (child?.own ?? 0), stat.own + stat.ended)
}

/** Returns the most memory that a process had resident since the last reset, in MiB. */
export const peakMiB = (pid: number): number =>
  Number(/^VmHWM:\s+(\d+) kB/m.exec(tryRead(`/proc/${pid}/status`) ?? '')?.[1]) / 1024

/** Makes a process's peak start again from what it has resident now (proc_pid_clear_refs(5)). */
export function resetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    // Without it the peak is that of the whole run.
  }
}

/** Reads proc_pid_stat(5): the parent, and the CPU times in µs of the process and of its children that have ended. */
function readStat(pid: number) {
  const text = tryRead(`/proc/${pid}/stat`)
  // The second field, the program's name, can hold blanks and parentheses.
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ')
  if (fields === undefined) return undefined
  const [parent = 0, utime = 0, stime = 0, cutime = 0, cstime = 0] = [1, 11, 12, 13, 14].map((at) =>
    Number(fields[at])
  )
  return { parent, own: (utime + stime) * tickUs, ended: (cutime + cstime) * tickUs }
}

function tryRead(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined // there is no /proc, or the process has ended
  }
}
