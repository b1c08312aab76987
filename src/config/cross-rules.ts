/** The rules that bind one setting to another. */
import { leavingRule, longestLeaveMs } from './leaving.ts'
import type { Settings } from './settings.ts'

interface CrossRule {
  readonly name: 'BODY_MEMORY_BYTES' | 'WRITE_QUEUE_BYTES' | 'SHUTDOWN_TIMEOUT_MS'
  /** Completes the sentence "NAME must be …". */
  readonly rule: string
  /** What the rule compares the setting with. */
  limit(settings: Settings): number
  isKept(value: number, limit: number): boolean
}

const atLeast = (value: number, limit: number) => value >= limit
const moreThan = (value: number, limit: number) => value > limit

/** Per-row overhead in bytes. A plant's texts take less than its body. */
const rowBytes = 64

export const crossRules: readonly CrossRule[] = [
  {
    name: 'BODY_MEMORY_BYTES',
    rule: 'at least BODY_LIMIT_BYTES',
    limit: ({ BODY_LIMIT_BYTES }) => BODY_LIMIT_BYTES,
    isKept: atLeast
  },
  {
    name: 'WRITE_QUEUE_BYTES',
    rule: `at least BODY_LIMIT_BYTES + ${rowBytes}`,
    limit: ({ BODY_LIMIT_BYTES }) => BODY_LIMIT_BYTES + rowBytes,
    isKept: atLeast
  },
  { name: 'SHUTDOWN_TIMEOUT_MS', rule: `more than ${leavingRule}`, limit: longestLeaveMs, isKept: moreThan }
]

/** Adds a line to `faults` for each rule that the settings break. */
export function checkCrossRules(settings: Settings, faults: string[]): void {
  for (const { name, rule, limit, isKept } of crossRules) {
    const value = limit(settings)
    if (!isKept(settings[name], value)) faults.push(`${name} must be ${rule} (${value})`)
  }
}
