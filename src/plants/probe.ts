/** The probe of the database: in an outage, and while no create would notice its loss. */
import { readOnly } from '../database/checks.ts'
import { diagnose } from '../database/errors.ts'
import { isReadOnly } from '../database/hosts.ts'
import type { Database } from '../database/pool.ts'

/**
 * Resolves when the database can be reached, has what `selectRequired` (a query without rows) names, and accepts writes;
 * rejects otherwise. Takes 4 s at most.
 */
export async function checkReadiness(
  database: Pick<Database, 'query' | 'reset'>,
  selectRequired: string
): Promise<void> {
  // For both statements together; a cancelled one ends within two seconds more.
  const signal = AbortSignal.timeout(2_000)
  const query = (text: string) => database.query({ text }, signal)
  await query(selectRequired)
  if (!(await isReadOnly(query))) return
  const error = new Error(readOnly)
  // The address may lead to the primary by now, but a connection that every probe uses would never be closed.
  database.reset(error)
  throw error
}

const idleProbeEveryMs = 5_000

/**
 * Probes the database while no create would notice its loss. Calls `onAway` with the time, by
 * `performance.now()`, since when no probe has found it. Returns a function that stops it.
 */
export function probeWhileIdle(
  probe: () => Promise<void>,
  isIdle: () => boolean,
  onAway: (since: number) => void
): () => void {
  let awaySince: number | undefined
  let timer = setTimeout(look, idleProbeEveryMs).unref()
  let isClosed = false

  async function look() {
    const began = performance.now()
    // While a create waits, the last probe's finding stands: only a create that succeeds is a sign of life.
    if (isIdle()) {
      const isAway = await probe().then(() => false, isLost)
      awaySince = isAway ? (awaySince ?? began) : undefined
    }
    if (isClosed) return
    if (awaySince !== undefined) onAway(awaySince)
    timer = setTimeout(look, idleProbeEveryMs).unref()
  }

  return () => {
    isClosed = true
    clearTimeout(timer)
  }
}

/** A database that responds is not away, even if a table is missing, or locked until the probe was cancelled. */
function isLost(error: unknown): boolean {
  const { kind } = diagnose(error)
  return kind === 'lost' || kind === 'away'
}
