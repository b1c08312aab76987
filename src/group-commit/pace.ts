/** The pace of attempts while they fail: it bounds what an unavailable database costs. */
import type { Clock } from './clock.ts'

/** The first pause, of which jitter may take half. */
const firstPauseMs = 20
const longestPauseMs = 1000
/** After this many failures in a row, attempts come at a constant rate. */
const failuresBeforeRate = 50
/** The time between two attempts at that rate. */
const attemptEveryMs = 5

/** Returns the pause after this many earlier ones: doubled each time, up to 1 s, with jitter so that lanes and replicas spread. */
export function backoffMs(earlierPauses: number, clock: Clock): number {
  return Math.min(longestPauseMs, firstPauseMs * 2 ** earlierPauses) * (0.5 + clock.random() / 2)
}

/** When attempts may begin. */
export interface Pace {
  /** Returns whether an attempt may begin now, and counts on the caller to begin it. If not, calls back when one may. */
  tryToBegin(): boolean
  /** An attempt has failed, whatever its error. */
  failed(): void
  /** Nothing can be written for now: all lanes pause, for longer each time. Does nothing during a pause. */
  pause(): void
  /** An attempt has succeeded, or the database is back: attempts may come at any rate. */
  reset(): void
  /** Ends the wait for a call back. */
  stop(): void
}

/** Calls back when an attempt may begin, after `tryToBegin` has returned false. */
export function createPace(clock: Clock, onDue: () => void): Pace {
  /** Failures since the last reset. */
  let failures = 0
  /** When the next attempt may begin at the constant rate. */
  let nextAt = 0
  /** Pauses since the last reset. */
  let pauses = 0
  let pausedUntil = 0
  let cancel: (() => void) | undefined

  function stop() {
    cancel?.()
    cancel = undefined
  }

  return {
    tryToBegin() {
      const waitMs = Math.max(nextAt, pausedUntil) - clock.now()
      if (waitMs > 0) {
        cancel ??= clock.after(waitMs, () => {
          cancel = undefined
          onDue()
        })
        return false
      }
      if (failures >= failuresBeforeRate) nextAt = clock.now() + attemptEveryMs
      return true
    },
    failed() {
      failures++
    },
    pause() {
      if (clock.now() >= pausedUntil) pausedUntil = clock.now() + backoffMs(pauses++, clock)
    },
    reset() {
      failures = nextAt = pauses = pausedUntil = 0
      stop()
    },
    stop
  }
}
