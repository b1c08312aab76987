/** The probe of the database: in an outage, and while no create would notice one. */
import { diagnose } from '../database/errors.ts'
import type { Pool } from '../database/pool.ts'
import { isReadOnly, readOnly } from '../database/read-only.ts'

/** The limit for both statements of a probe together. A cancelled one may take two seconds more. */
const probeLimitMs = 2_000

/**
 * Resolves if the database can be reached, has what `selectRequired` (a query without rows) names, and accepts writes.
 * Rejects otherwise, within 4 s.
 */
export async function probeDatabase(pool: Pool, selectRequired: string): Promise<void> {
  const signal = AbortSignal.timeout(probeLimitMs)
  const query = (text: string) => pool.query({ text }, signal)
  await query(selectRequired)
  if (!(await isReadOnly(query))) return
  const error = new Error(readOnly)
  // The host's name may stand for the primary by now. Replace the session: every probe would use it, so it would never end.
  pool.replaceAll(error)
  throw error
}

const idleProbeEveryMs = 5_000

/**
 * Probes the database every 5 s while `isIdle`, when no create would notice an outage. As long as no probe succeeds, calls
 * `onAway` with the time at which the first of them began, by `performance.now()`. Returns a function that stops it.
 */
export function probeWhileIdle(
  probe: () => Promise<void>,
  isIdle: () => boolean,
  onAway: (since: number) => void
): () => void {
  let awaySince: number | undefined
  let timer = setTimeout(probeIfIdle, idleProbeEveryMs).unref()
  let isClosed = false

  async function probeIfIdle() {
    const began = performance.now()
    // While a create waits, the last probe's result stands. Only a create that succeeds refutes it.
    if (isIdle()) {
      const isAway = await probe().then(() => false, isUnreachable)
      awaySince = isAway ? (awaySince ?? began) : undefined
    }
    if (isClosed) return
    if (awaySince !== undefined) onAway(awaySince)
    timer = setTimeout(probeIfIdle, idleProbeEveryMs).unref()
  }

  return () => {
    isClosed = true
    clearTimeout(timer)
  }
}

/** Returns whether an error means an outage. A database that lacks a table responds, and so does one whose table is locked. */
function isUnreachable(error: unknown): boolean {
  const { kind } = diagnose(error)
  return kind === 'lost' || kind === 'away'
}
