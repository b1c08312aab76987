/** Whether the database serves: while it is away, nothing but a probe is tried, and after a whole deadline it is down. */
import type { Clock, Verdict } from './types.ts'

/** The first pause or rest, and the longest. */
const backoff = { firstMs: 20, longestMs: 1000 }
/** An outage is reported again: whoever comes later must find its cause in the log, without its beginning. */
const reminderMs = 60_000

/** Returns a time after this many earlier ones: doubled each time, with jitter so that rows and replicas spread. */
export function backoffMs(earlier: number, clock: Clock): number {
  return Math.min(backoff.longestMs, backoff.firstMs * 2 ** earlier) * (0.5 + clock.random() / 2)
}

/** Nobody has processed the rows. A database that lacks a table, or where somebody holds a lock of it, responds. */
const isSilence = ({ kind }: Verdict) => kind === 'away' || kind === 'lost'

interface Options {
  readonly clock: Clock
  readonly deadlineMs: number
  readonly probe: () => Promise<Verdict | undefined>
  /** Called with true and an error when an outage begins and each minute while it lasts, and with false when it ends. */
  readonly onOutage: (isDown: boolean, cause?: unknown) => void
  /** Called when a pause is over. */
  readonly onDue: () => void
}

/** The health of the database, by what attempts and probes tell. */
export class Health {
  readonly #options: Options
  /** Since when attempts have failed without a response. */
  #doubtSince = Number.POSITIVE_INFINITY
  /** Since when nothing has responded in this pause. */
  #silentSince = Number.POSITIVE_INFINITY
  #isDown = false
  #isStopped = false
  #reportedAt = 0
  /** Pauses since something was written. */
  #pauses = 0
  #probing: Promise<Verdict | undefined> | undefined
  /** Ends the wait for the next probe; set until that has ended. */
  #cancelPause: (() => void) | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** It has been silent for the deadline: new rows would expire. */
  get isDown() {
    return this.#isDown
  }

  /** No attempt may begin. */
  get isPaused() {
    return this.#cancelPause !== undefined
  }

  /** An attempt has failed. */
  hasFailed(failure: Verdict) {
    if (!isSilence(failure)) return this.hasServed(false)
    const { clock, deadlineMs } = this.#options
    this.#doubtSince = Math.min(this.#doubtSince, clock.now())
    if (failure.kind === 'away' || clock.now() - this.#doubtSince >= deadlineMs) this.#pause()
  }

  /** It has responded; `isWritten`: a commit has succeeded, which ends a pause. */
  hasServed(isWritten: boolean) {
    this.#doubtSince = Number.POSITIVE_INFINITY
    this.#silentSince = Number.POSITIVE_INFINITY
    if (this.#isDown) this.#options.onOutage(false)
    this.#isDown = false
    if (!isWritten) return
    this.#pauses = 0
    if (this.isPaused) this.#resume()
  }

  /** Probes the database, one probe at a time. Resolves with why it cannot write. */
  probe(): Promise<Verdict | undefined> {
    this.#probing ??= this.#options.probe().then((failure) => {
      this.#probing = undefined
      if (!this.#isStopped && !(failure && isSilence(failure))) this.hasServed(false)
      return failure
    })
    return this.#probing
  }

  /** No attempt begins until a probe can write. */
  #pause() {
    const { clock, deadlineMs } = this.#options
    this.#silentSince = Math.min(this.#silentSince, clock.now())
    this.#cancelPause ??= clock.after(backoffMs(this.#pauses++, clock), async () => {
      const failure = await this.probe()
      if (this.#isStopped || !this.isPaused) return
      // What is wrong for every row is told to each of them.
      if (!failure || !(isSilence(failure) || failure.kind === 'busy')) return this.#resume()
      if (clock.now() - this.#silentSince >= deadlineMs) this.#setDown(failure)
      this.#cancelPause?.()
      this.#cancelPause = undefined
      this.#pause()
    })
  }

  #setDown({ error }: Verdict) {
    const { clock, onOutage } = this.#options
    const isKnown = this.#isDown && clock.now() - this.#reportedAt < reminderMs
    this.#isDown = true
    if (isKnown) return
    this.#reportedAt = clock.now()
    onOutage(true, error)
  }

  #resume() {
    this.#cancelPause?.()
    this.#cancelPause = undefined
    this.#options.onDue()
  }

  /** Ends its timers. */
  stop() {
    this.#isStopped = true
    this.#cancelPause?.()
  }
}
