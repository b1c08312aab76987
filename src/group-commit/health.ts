/** Whether the database serves: while it does not, nothing but a probe is tried, and after a whole deadline rows are refused. */
import type { Clock, FailureKind, Verdict } from './types.ts'

/** The first pause or rest, and the longest. */
const backoff = { firstMs: 20, longestMs: 1000 }
/** An outage is reported again: whoever comes later must find its cause in the log, without its beginning. */
const reminderMs = 60_000

/** Returns a time after this many earlier ones: doubled each time, with jitter so that rows and replicas spread. */
export function backoffMs(earlier: number, clock: Clock): number {
  return Math.min(backoff.longestMs, backoff.firstMs * 2 ** earlier) * (0.5 + clock.random() / 2)
}

/** Returns whether this failure says nothing of the rows: nobody has processed them. */
const isSilence = (kind: FailureKind | Verdict['kind']) => kind === 'away' || kind === 'lost'

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
  /** Since when nothing has shown that it serves. */
  #silentSince: number | undefined
  #isDown = false
  #isStopped = false
  #reportedAt = 0
  /** Pauses since something was written. */
  #pauses = 0
  /** Ends the wait for the next probe. While there is one, or a probe, no attempt begins. */
  #cancelPause: (() => void) | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** It has been silent for longer than the deadline. */
  get isDown() {
    return this.#isDown
  }

  get isPaused() {
    return this.#cancelPause !== undefined
  }

  /** Learns from an attempt that began at this time: from its failure, or undefined if it has written or found its rows. */
  learn(failure: Verdict | undefined, began: number) {
    if (!failure || !isSilence(failure.kind)) return this.#served(!failure)
    this.#silentSince ??= began
    if (failure.kind === 'away' || this.#isSilentTooLong) this.#pause(failure)
  }

  /** Probes the database. Resolves with why it cannot write. */
  async probe(): Promise<Verdict | undefined> {
    const failure = await this.#options.probe()
    // A database that lacks a table, or where somebody holds a lock of it, responds.
    if (!this.#isStopped && !(failure && isSilence(failure.kind))) this.#served(false)
    return failure
  }

  get #isSilentTooLong() {
    const { clock, deadlineMs } = this.#options
    return this.#silentSince !== undefined && clock.now() - this.#silentSince >= deadlineMs
  }

  #served(isWritten: boolean) {
    this.#silentSince = undefined
    if (this.#isDown) this.#options.onOutage(false)
    this.#isDown = false
    if (!isWritten) return
    this.#pauses = 0
    if (this.isPaused) this.#resume()
  }

  /** No attempt begins until a probe has succeeded. */
  #pause({ error }: Verdict) {
    const { clock, onOutage } = this.#options
    const isDue = !this.#isDown || clock.now() - this.#reportedAt >= reminderMs
    this.#isDown ||= this.#isSilentTooLong
    if (this.#isDown && isDue) {
      this.#reportedAt = clock.now()
      onOutage(true, error)
    }
    this.#cancelPause ??= clock.after(backoffMs(this.#pauses++, clock), () => this.#probeAgain())
  }

  async #probeAgain() {
    const failure = await this.probe()
    if (this.#isStopped || !this.isPaused) return
    // What is missing for every row is told to each of them.
    if (!failure || failure.kind === 'gone') return this.#resume()
    this.#cancelPause = undefined
    this.#pause(failure)
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
