/** A database that does not serve: pauses that grow, a pace, and after a whole deadline the probe that detects its return. */
import type { Clock } from './types.ts'

const shortestPauseMs = 20
const longestPauseMs = 1000
const probeEveryMs = 500

/** Returns the pause after this many failures, 0 or more: exponential, from 10 ms to 1 s, with jitter so that lanes and replicas spread. */
export function pauseMs(failures: number, clock: Clock): number {
  return Math.min(longestPauseMs, shortestPauseMs * 2 ** failures) * (0.5 + clock.random() / 2)
}

/** Makes the common pauses of all lanes, which grow until something is written. Calls back when one ends. */
export function createBackOff(clock: Clock, onEnd: () => void) {
  let failures = 0
  let cancel: (() => void) | undefined

  function end() {
    if (!cancel) return
    cancel()
    cancel = undefined
    onEnd()
  }

  return {
    get isOn() {
      return cancel !== undefined
    },
    /** Begins a pause, if none is on. */
    begin() {
      cancel ??= clock.after(pauseMs(failures++, clock), end)
    },
    end,
    /** Something was written: the next pause is a short one. */
    clear() {
      failures = 0
      end()
    }
  }
}

/** After attempts have failed for so long and nothing was stored, the others come at a constant rate, in ms. */
const fruitlessMs = 1000
const paceMs = 5

/** Makes the pace of attempts while all of them fail: it bounds what that costs, whatever the errors say. */
export function createPace(clock: Clock, onDue: () => void) {
  let failingSince: number | undefined
  let nextAt = 0
  let cancel: (() => void) | undefined

  const pace = {
    get isFruitless() {
      return failingSince !== undefined && clock.now() - failingSince >= fruitlessMs
    },
    /** Returns whether an attempt may begin now; if not, calls back when one may. */
    admit(): boolean {
      if (!pace.isFruitless) return true
      const now = clock.now()
      if (now >= nextAt) {
        nextAt = now + paceMs
        return true
      }
      cancel ??= clock.after(nextAt - now, () => {
        cancel = undefined
        onDue()
      })
      return false
    },
    failed() {
      failingSince ??= clock.now()
    },
    stored() {
      failingSince = undefined
    },
    stop() {
      cancel?.()
    }
  }
  return pace
}

/**
 * Takes the probe, which rejects while the database is down, and a callback for changes, which gets the probe's error. If
 * the database gave no sign of life during the whole time of a row that has expired, it is probed, since perhaps only that
 * row lost its sessions. An outage begins when the probe fails. Then a probe is made every 500 ms, until one succeeds or
 * there is another sign of life.
 */
export function createOutage(
  probe: () => Promise<unknown>,
  clock: Clock,
  onChange: (databaseDown: boolean, cause?: unknown) => void
) {
  let databaseDown = false
  let isSuspected = false
  let probing = false
  let lastSignOfLife = Number.NEGATIVE_INFINITY
  let cancelProbe = () => {}

  async function look() {
    probing = true
    await probe().then(signOfLife, (cause: unknown) => {
      if (!isSuspected) return
      cancelProbe = clock.after(probeEveryMs, look)
      change(true, cause)
    })
    probing = false
  }

  function change(isDown: boolean, cause?: unknown) {
    if (databaseDown === isDown) return
    databaseDown = isDown
    onChange(isDown, cause)
  }

  /** The database has responded, if only with an error. */
  function signOfLife() {
    lastSignOfLife = clock.now()
    stop()
  }

  function stop() {
    isSuspected = false
    cancelProbe()
    change(false)
  }

  return {
    get databaseDown() {
      return databaseDown
    },
    /** A row that arrived at this time, in ms of the clock, has expired. */
    expired(arrival: number) {
      if (isSuspected || lastSignOfLife >= arrival) return
      isSuspected = true
      // A probe that is under way already serves this suspicion, too.
      if (!probing) void look()
    },
    signOfLife,
    /** Stops probing, without a sign of life. */
    stop
  }
}
