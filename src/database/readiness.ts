/** Whether the database can take plants now: the service waits for that at start-up, and probes it in an outage and while idle. */
import { diagnose } from './errors.ts'
import { isReadOnly } from './hosts.ts'
import type { Database } from './pool.ts'
import type { Check } from './wait-for-database.ts'

/** Of both statements together; a cancelled one ends within two seconds more. */
const limitMs = 2_000
const idleProbeEveryMs = 5_000

/** The database must accept writes. */
export const checkWritable: Check = async (client) =>
  (await isReadOnly((text) => client.query(text))) ? 'the database is read-only' : undefined

/**
 * Resolves when the database can be reached, has what `selectRequired` (a query without rows) names, and accepts writes;
 * rejects otherwise. Takes 4 s at most.
 */
export async function checkReadiness(database: Database, selectRequired: string): Promise<void> {
  const signal = AbortSignal.timeout(limitMs)
  const query = (text: string) => database.query({ text }, signal)
  await query(selectRequired)
  if (!(await isReadOnly(query))) return
  const error = new Error('the database is read-only')
  // The address may lead to the primary by now, but a connection that every probe uses would never be closed.
  database.reset(error)
  throw error
}

interface IdleProbe {
  /** Rejects while the database does not serve. */
  probe(): Promise<void>
  isIdle(): boolean
  /** Called with the time, by `performance.now()`, since when no probe has found the database. */
  onAway(since: number): void
}

/** Probes the database while no create would notice its loss. Returns a function that stops it. */
export function probeWhileIdle({ probe, isIdle, onAway }: IdleProbe): () => void {
  let awaySince: number | undefined
  let timer = setTimeout(look, idleProbeEveryMs).unref()
  let isClosed = false

  async function look() {
    const began = performance.now()
    // A create that waits does not end what the probe has begun to see; one that succeeds is a sign of life.
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
  const { written, whose, again } = diagnose(error)
  return written === 'maybe' || (whose === 'database' && again !== 'never')
}
