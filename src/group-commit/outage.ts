/** Whether the database has been down for too long to wait for it, and the probe that finds it back. */
import type { Clock } from './types.ts'

const probeEveryMs = 500

/**
 * Takes the probe, which rejects while the database is down, and what to do when that changes. An outage begins when
 * nothing was heard of the database in the whole time of a row that has expired; it has a probe at once and one every
 * 500 ms, and ends by a probe that succeeds or by any other sign of life.
 */
export function createOutage(
  probe: () => Promise<unknown>,
  clock: Clock,
  onChange: (databaseDown: boolean) => void
) {
  let databaseDown = false
  let probing = false
  let lastSignOfLife = Number.NEGATIVE_INFINITY
  let cancelProbe = () => {}

  async function look() {
    probing = true
    const back = await probe().then(
      () => true,
      () => false
    )
    probing = false
    if (back) signOfLife()
    else if (databaseDown) cancelProbe = clock.after(probeEveryMs, look)
  }

  /** The database has answered, if only with an error. */
  function signOfLife() {
    lastSignOfLife = clock.now()
    stop()
  }

  function stop() {
    if (!databaseDown) return
    databaseDown = false
    cancelProbe()
    onChange(false)
  }

  return {
    get databaseDown() {
      return databaseDown
    },
    /** A row that arrived then, in ms of the clock, has expired. */
    expired(arrival: number) {
      if (databaseDown || lastSignOfLife >= arrival) return
      databaseDown = true
      onChange(true)
      // A probe of the outage before may still be under way: it serves this one.
      if (!probing) void look()
    },
    signOfLife,
    /** Ends it without a sign of life. */
    stop
  }
}
