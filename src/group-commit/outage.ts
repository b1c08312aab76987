/** A database that does not serve: attempts at a pace, and after a whole deadline the probe that detects its return. */
import type { Clock } from '../shared/clock.ts'

const shortestPauseMs = 20
const longestPauseMs = 1000
const probeEveryMs = 500
/** An outage is told again: whoever comes later must find its cause in the log, without its beginning. */
const reminderMs = 60_000

/** Returns the pause after this many failures, 0 or more: exponential, from 10 ms to 1 s, with jitter so that lanes and replicas spread. */
export function pauseMs(failures: number, clock: Clock): number {
  return Math.min(longestPauseMs, shortestPauseMs * 2 ** failures) * (0.5 + clock.random() / 2)
}

/** After so many failures in a row, attempts come at a constant rate: each so many ms. */
const mostFailures = 50
const paceMs = 5

/**
 * Makes the pace of attempts while all of them fail, which bounds what that costs, whatever the errors say. Where nothing
 * can be written for now, all lanes pause, for longer each time. Calls back when an attempt may begin that could not.
 */
export function createPace(clock: Clock, onDue: () => void) {
  let failures = 0
  let nextAt = 0
  let pauses = 0
  let pausedUntil = 0
  let cancel: (() => void) | undefined

  function stop() {
    cancel?.()
    cancel = undefined
  }

  return {
    /** Returns whether an attempt may begin now; if not, calls back when one may. */
    admit(): boolean {
      const waitMs = Math.max(nextAt, pausedUntil) - clock.now()
      if (waitMs > 0) {
        cancel ??= clock.after(waitMs, () => {
          cancel = undefined
          onDue()
        })
        return false
      }
      if (failures >= mostFailures) nextAt = clock.now() + paceMs
      return true
    },
    failed() {
      failures++
    },
    /** Begins a pause, if none is on. */
    pause() {
      if (clock.now() >= pausedUntil) pausedUntil = clock.now() + pauseMs(pauses++, clock)
    },
    /** Something was written: attempts may come at any rate. */
    reset() {
      failures = nextAt = pauses = pausedUntil = 0
      stop()
    },
    stop
  }
}

/**
 * Takes the probe, which rejects while the database is down, and a callback for changes and, in an outage, for each minute,
 * which gets the probe's error. If
 * the database gave no sign of life during the whole time of a row that has expired, an outage is suspected: perhaps only
 * that row lost its sessions. It begins when the probe fails. Then a probe is made every 500 ms, until one succeeds or there
 * is another sign of life.
 */
export function createOutage(
  probe: () => Promise<unknown>,
  clock: Clock,
  onChange: (databaseDown: boolean, cause?: unknown) => void
) {
  let state: 'none' | 'suspected' | 'on' = 'none'
  let isProbing = false
  let lastSignOfLife = Number.NEGATIVE_INFINITY
  let toldAt = 0
  let cancelProbe = () => {}

  async function look() {
    isProbing = true
    await probe().then(signOfLife, (cause: unknown) => {
      if (state === 'none') return
      cancelProbe = clock.after(probeEveryMs, look)
      if (state === 'suspected' || clock.now() - toldAt >= reminderMs) {
        toldAt = clock.now()
        onChange(true, cause)
      }
      state = 'on'
    })
    isProbing = false
  }

  /** The database has responded, if only with an error. */
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
    /** A row that arrived at this time, in ms of the clock, has expired. */
    expired(arrival: number) {
      if (state !== 'none' || lastSignOfLife >= arrival) return
      state = 'suspected'
      // A probe that is under way already serves this suspicion, too.
      if (!isProbing) void look()
    },
    signOfLife,
    /** Stops probing, without a sign of life. */
    stop
  }
}

export type Pace = ReturnType<typeof createPace>
export type Outage = ReturnType<typeof createOutage>
