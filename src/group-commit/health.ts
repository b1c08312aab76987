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
  /** When the first attempt without a response failed; Infinity while something responds. */
  #silentSince = Number.POSITIVE_INFINITY
  #isPaused = false
  #isDown = false
  #reportedAt = 0
  /** Probes for an end of the silence since something was written. */
  #probes = 0
  #probing: Promise<Verdict | undefined> | undefined
  /** Ends the wait for the next probe; set until that has ended, or is not needed any more. */
  #cancelProbe: (() => void) | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** It has been silent for the deadline: new rows would expire. */
  get isDown() {
    return this.#isDown
  }

  /** No attempt may begin: it is away, until a probe can write. */
  get isPaused() {
    return this.#isPaused
  }

  /** An attempt has failed. */
  hasFailed(failure: Verdict) {
    if (!isSilence(failure)) return this.hasServed(false)
    this.#noteSilence(failure)
    this.#probeLater()
  }

  /** It has responded; `isWritten`: a commit has succeeded, which ends a pause. */
  hasServed(isWritten: boolean) {
    this.#silentSince = Number.POSITIVE_INFINITY
    if (this.#isDown) this.#options.onOutage(false)
    this.#isDown = false
    if (!isWritten) return
    this.#probes = 0
    if (this.#cancelProbe) this.#resume()
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
    const { clock } = this.#options
    this.#cancelProbe ??= clock.after(backoffMs(this.#probes++, clock), async () => {
      const failure = await this.probe()
      if (!this.#cancelProbe) return
      // What is wrong for every row is told to each of them.
      if (!failure || !(isSilence(failure) || failure.kind === 'busy')) return this.#resume()
      // Another failure may have begun a wait meanwhile.
      this.stop()
      if (isSilence(failure)) this.#noteSilence(failure)
      this.#probeLater()
    })
  }

  #noteSilence(failure: Verdict) {
    const { clock, deadlineMs } = this.#options
    this.#silentSince = Math.min(this.#silentSince, clock.now())
    const isLong = clock.now() - this.#silentSince >= deadlineMs
    if (isLong) this.#setDown(failure)
    if (isLong || failure.kind === 'away') this.#isPaused = true
  }

  #resume() {
    this.stop()
    this.#isPaused = false
    this.#options.onDue()
  }

  #setDown({ error }: Verdict) {
    const { clock, onOutage } = this.#options
    const isKnown = this.#isDown && clock.now() - this.#reportedAt < reminderMs
    this.#isDown = true
    if (isKnown) return
    this.#reportedAt = clock.now()
    onOutage(true, error)
  }

  /** Probes no more, until the next failure. */
  stop() {
    this.#cancelProbe?.()
    this.#cancelProbe = undefined
  }
}
