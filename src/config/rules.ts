/** The rules that bind one setting to another. */
import { noticeMs } from '../connections/connections.ts'
import { cancelGraceMs, statementLimitMs, statementsPerDeadline } from '../database/statement.ts'
import { rowBytes } from '../plants/columns.ts'
import type { Settings } from './settings.ts'

/** What `longestShutdownMs` computes, for people. */
const shutdownSum = `SHUTDOWN_DELAY_MS + ${noticeMs} + HEADERS_TIMEOUT_MS + WRITE_DEADLINE_MS + max(WRITE_DEADLINE_MS / ${statementsPerDeadline}, ${cancelGraceMs})`

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
  /** Completes the sentence "NAME must be at least …". */
  readonly sum: string
  /** What that is. */
  least(settings: Settings): number
}

/** The rules; of WRITE_QUEUE_BYTES, since a plant's texts take less than its body. */
export const crossRules: readonly CrossRule[] = [
  {
    name: 'BODY_MEMORY_BYTES',
    sum: 'BODY_LIMIT_BYTES',
    least: ({ BODY_LIMIT_BYTES }) => BODY_LIMIT_BYTES
  },
  {
    name: 'WRITE_QUEUE_BYTES',
    sum: `BODY_LIMIT_BYTES + ${rowBytes}`,
    least: ({ BODY_LIMIT_BYTES }) => BODY_LIMIT_BYTES + rowBytes
  },
  { name: 'SHUTDOWN_TIMEOUT_MS', sum: shutdownSum, least: longestShutdownMs }
]

/** Adds a line to `faults` for each rule that the settings break. */
export function checkCrossRules(settings: Settings, faults: string[]): void {
  for (const { name, sum, least } of crossRules) {
    if (settings[name] < least(settings)) faults.push(`${name} must be at least ${sum} (${least(settings)})`)
  }
}
