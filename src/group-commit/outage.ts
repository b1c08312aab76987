/** Whether the database has been away for too long to wait for it, and the probe that finds it back. */
import type { Clock } from './types.ts'

const probeEveryMs = 500

/**
 * Takes the probe, which rejects while the database is away, and what to do when that changes. An outage begins by
 * `begin`, with a probe at once and one every 500 ms, and ends by `end` or by a probe that succeeds.
 */
export function createOutage(probe: () => Promise<unknown>, clock: Clock, onChange: (away: boolean) => void) {
  let away = false
  let probing = false
  let cancelProbe = () => {}

  async function look() {
    probing = true
    const back = await probe().then(
      () => true,
      () => false
    )
    probing = false
    if (back) end()
    else if (away) cancelProbe = clock.after(probeEveryMs, look)
  }

  function end() {
    if (!away) return
    away = false
    cancelProbe()
    onChange(false)
  }

  return {
    get away() {
      return away
    },
    begin() {
      if (away) return
      away = true
      onChange(true)
      // A probe of the outage before may still be under way: it serves this one.
      if (!probing) void look()
    },
    end
  }
}
