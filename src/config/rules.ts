/** The rules that bind one setting to another. */
import { noticeMs } from '../connections/shutdown.ts'
import { cancelGraceMs, statementLimitMs, statementsPerDeadline } from '../database/statement.ts'
import { rowBytes } from '../plants/columns.ts'
import type { Settings } from './settings.ts'

/** What `longestShutdownMs` computes, for people. */
const shutdownRule = `SHUTDOWN_DELAY_MS + ${noticeMs} + HEADERS_TIMEOUT_MS + WRITE_DEADLINE_MS + max(WRITE_DEADLINE_MS / ${statementsPerDeadline}, ${cancelGraceMs})`

/**
 * Returns the time in ms, from the signal on, in which every create has its response and every statement has ended. After
 * the delay and the notice the server closes: a request that has begun may take HEADERS_TIMEOUT_MS to arrive, and its
 * create WRITE_DEADLINE_MS. Its last statement may still wait for a connection then, or be cancelled.
 */
function longestShutdownMs({ SHUTDOWN_DELAY_MS, HEADERS_TIMEOUT_MS, WRITE_DEADLINE_MS }: Settings): number {
  const statementMs = Math.max(statementLimitMs(WRITE_DEADLINE_MS), cancelGraceMs)
  return SHUTDOWN_DELAY_MS + noticeMs + HEADERS_TIMEOUT_MS + WRITE_DEADLINE_MS + statementMs
}

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

/** The rules; of WRITE_QUEUE_BYTES, since a plant's texts take less than its body. */
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
  {
    name: 'SHUTDOWN_TIMEOUT_MS',
    rule: `more than ${shutdownRule}`,
    limit: longestShutdownMs,
    isKept: moreThan
  }
]

/** Adds a line to `faults` for each rule that the settings break. */
export function checkCrossRules(settings: Settings, faults: string[]): void {
  for (const { name, rule, limit, isKept } of crossRules) {
    const value = limit(settings)
    if (!isKept(settings[name], value)) faults.push(`${name} must be ${rule} (${value})`)
  }
}
