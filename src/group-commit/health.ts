/** Whether the database serves: while it is unavailable, nothing but a probe is tried, and after a whole deadline it is down. */
import type { Verdict } from './types.ts'

/** The first pause or rest, and the longest. */
const backoff = { firstMs: 20, longestMs: 1000 }
/** An outage is reported retry: its cause must stand in the log of the last minutes. */
const reminderMs = 60_000

/** Returns a time after this many earlier ones: doubled each time, with jitter so that rows and replicas spread. */
export const backoffMs = (earlier: number): number =>
  Math.min(backoff.longestMs, backoff.firstMs * 2 ** earlier) * (0.5 + Math.random() / 2)

/** No server that can write has answered. One that lacks a table, or where somebody holds a lock of it, has. */
const isSilence = ({ kind }: Verdict) => kind === 'unavailable' || kind === 'unknown'

interface Options {
  readonly deadlineMs: number
  readonly probe: () => Promise<Verdict | undefined>
  /** Called with true and an error when an outage begins and each minute while it lasts, and with false when it ends. */
  readonly onOutage: (isDown: boolean, cause?: unknown) => void
  /** Called when a pause is over. */
  readonly onDue: () => void
}

/** The health of the database, by what attempts and probes tell. Only its methods assign its fields. */
export class Health {
  readonly #options: Options
  /** No attempt may begin: it is unavailable, until a probe can write or a commit succeeds. */
  isPaused = false
  /** It has been silent for the deadline: new rows would expire. */
  isDown = false
  /** When the first attempt without an answer failed; Infinity while something answers. */
  #silentSince = Number.POSITIVE_INFINITY
  #reportedAt = 0
  /** How many probes there were for a silence since something was written. */
  #probes = 0
  /** Set until the next of them has ended, or is not needed any more. */
  #timer: NodeJS.Timeout | undefined
  #probing: Promise<Verdict | undefined> | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** An attempt or a probe has failed. */
  hasFailed(failure: Verdict) {
    if (!isSilence(failure)) return this.hasServed(false)
    const now = performance.now()
    this.#silentSince = Math.min(this.#silentSince, now)
    const isLong = now - this.#silentSince >= this.#options.deadlineMs
    if (isLong || failure.kind === 'unavailable') this.isPaused = true
    if (isLong && !(this.isDown && now - this.#reportedAt < reminderMs)) {
      this.isDown = true
      this.#reportedAt = now
      this.#options.onOutage(true, failure.error)
    }
    this.#probeLater()
  }

  /** It has answered; `isCommitted`: a commit has succeeded, which ends a pause. */
  hasServed(isCommitted: boolean) {
    this.#silentSince = Number.POSITIVE_INFINITY
    if (this.isDown) this.#options.onOutage(false)
    this.isDown = false
    if (!isCommitted) return
    this.#probes = 0
    if (this.#timer) this.#resume()
  }

  /** Probes the database, one probe at a time. Resolves with why it cannot write. */
  probe(): Promise<Verdict | undefined> {
    this.#probing ??= this.#options.probe().then((failure) => {
      this.#probing = undefined
      if (!failure || !isSilence(failure)) this.hasServed(false)
      return failure
    })
    return this.#probing
  }

  /** Probes until it can write. */
  #probeLater() {
    const probe = async () => {
      const timer = this.#timer
      const failure = await this.probe()
      if (this.#timer !== timer) return
      // What is wrong for every row is told to each of them.
      if (!failure || !(isSilence(failure) || failure.kind === 'retryable')) return this.#resume()
      this.stop()
      if (isSilence(failure)) this.hasFailed(failure)
      else this.#probeLater()
    }
    this.#timer ??= setTimeout(probe, backoffMs(this.#probes++))
  }

  #resume() {
    this.stop()
    this.isPaused = false
    this.#options.onDue()
  }

  /** Probes no more, until the next failure. */
  stop() {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
