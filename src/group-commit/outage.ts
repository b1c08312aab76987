/** Detects an outage: a database that stays silent for a whole write deadline, and then fails a probe. */
import type { Clock } from './clock.ts'

/** While an outage lasts, a probe begins this long after the last one has failed. */
const probePauseMs = 500
/** An outage is reported again: whoever comes later must find its cause in the log, without its beginning. */
const reminderMs = 60_000

/** Whether an outage is on, and the events that begin and end one. */
export interface Outage {
  /** An outage has begun and not ended. */
  readonly databaseDown: boolean
  /** A row that arrived at this time, in ms of the clock, has expired. Suspects an outage if the database was silent since. */
  expired(arrival: number): void
  /** The database has responded, if only with an error: ends an outage, or the suspicion of one. */
  signOfLife(): void
  /** Stops probing, without a sign of life. */
  stop(): void
}

/**
 * Takes the probe, which rejects while the database is down, and a callback: called with true and the probe's error when an
 * outage begins and each minute while it lasts, and with false when it ends. Silence alone is only a suspicion: the row that
 * expired may itself have broken the sessions that tried it. A probe that fails confirms it. Probes then go on until one succeeds or there is another sign of life.
 */
export function createOutage(
  probe: () => Promise<unknown>,
  clock: Clock,
  onChange: (databaseDown: boolean, cause?: unknown) => void
): Outage {
  let state: 'none' | 'suspected' | 'on' = 'none'
  let isProbing = false
  let lastSignOfLife = Number.NEGATIVE_INFINITY
  let reportedAt = 0
  let cancelProbe = () => {}

  async function look() {
    isProbing = true
    await probe().then(signOfLife, (cause: unknown) => {
      if (state === 'none') return
      cancelProbe = clock.after(probePauseMs, look)
      if (state === 'suspected' || clock.now() - reportedAt >= reminderMs) {
        reportedAt = clock.now()
        onChange(true, cause)
      }
      state = 'on'
    })
    isProbing = false
  }

  function signOfLife() {
    lastSignOfLife = clock.now()
    stop()
  }

  function stop() {
    cancelProbe()
    const wasOn = state === 'on'
    state = 'none'
    if (wasOn) onChange(false)
  }

  return {
    get databaseDown() {
      return state === 'on'
    },
    expired(arrival) {
      if (state !== 'none' || lastSignOfLife >= arrival) return
      state = 'suspected'
      // A probe that still runs serves the new suspicion as well.
      if (!isProbing) void look()
    },
    signOfLife,
    stop
  }
}
