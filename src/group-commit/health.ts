/** Whether the database serves: the pause of all lanes while it does not, and outages, in which new rows are refused. */
import type { Clock, Verdict } from './types.ts'

/** The first pause or rest, and the longest. */
const backoff = { firstMs: 20, longestMs: 1000 }
/** How long after a probe of a database that is down the next one begins. */
const probeEveryMs = 500
/** An outage is reported again: whoever comes later must find its cause in the log, without its beginning. */
const reminderMs = 60_000

/** Returns a time after this many earlier ones: doubled each time, with jitter so that rows and replicas spread. */
export function backoffMs(earlier: number, clock: Clock): number {
  return Math.min(backoff.longestMs, backoff.firstMs * 2 ** earlier) * (0.5 + clock.random() / 2)
}

interface Options {
  readonly clock: Clock
  readonly probe: () => Promise<Verdict | undefined>
  /** Called with true and an error when an outage begins and each minute while it lasts, and with false when it ends. */
  readonly onOutage: (isDown: boolean, cause?: unknown) => void
  /** Called when a pause is over. */
  readonly onDue: () => void
}

/** The health of the database. Silence alone does not mean that it is down: the rows that have expired may be at fault. */
export class Health {
  readonly #options: Options
  #isDown = false
  #isStopped = false
  #lastSignOfLife = Number.NEGATIVE_INFINITY
  #reportedAt = 0
  #probing: Promise<Error | undefined> | undefined
  #cancelProbe = () => {}
  /** Pauses since something was written. */
  #pauses = 0
  /** Ends the pause, if there is one. */
  #cancelPause: (() => void) | undefined

  constructor(options: Options) {
    this.#options = options
  }

  get isDown() {
    return this.#isDown
  }

  get isPaused() {
    return this.#cancelPause !== undefined
  }

  /** The database is away: all lanes pause, for longer each time. Does nothing during a pause. */
  pause() {
    const { clock } = this.#options
    this.#cancelPause ??= clock.after(backoffMs(this.#pauses++, clock), () => this.#resume())
  }

  #resume() {
    this.#cancelPause?.()
    this.#cancelPause = undefined
    this.#options.onDue()
  }

  /** The database has responded, if only with an error: ends an outage. `isWritten`: it has written something. */
  signOfLife(isWritten: boolean) {
    const wasDown = this.#isDown
    this.#lastSignOfLife = this.#options.clock.now()
    this.#isDown = false
    if (wasDown) this.#options.onOutage(false)
    if (isWritten) this.#pauses = 0
    if ((isWritten || wasDown) && this.isPaused) this.#resume()
  }

  /** A row that arrived at this time has expired. A database that has been silent since and fails a probe is down. */
  async expired(arrival: number) {
    const isSilent = () => !this.#isDown && this.#lastSignOfLife < arrival
    const error = isSilent() ? await this.probe() : undefined
    if (error && isSilent()) this.#setDown(error)
  }

  /** Probes the database, one probe at a time. Resolves with the error if it cannot write; with nothing once it is stopped. */
  probe(): Promise<Error | undefined> {
    this.#probing ??= this.#probe().finally(() => (this.#probing = undefined))
    return this.#probing
  }

  async #probe() {
    const failure = await this.#options.probe()
    if (this.#isStopped) return undefined
    // A database that lacks a table, or where somebody holds a lock of it, responds.
    if (failure?.kind !== 'away' && failure?.kind !== 'lost') this.signOfLife(!failure)
    return failure?.error
  }

  #setDown(cause: Error) {
    const { clock, onOutage } = this.#options
    const isDue = !this.#isDown || clock.now() - this.#reportedAt >= reminderMs
    this.#isDown = true
    this.#cancelProbe = clock.after(probeEveryMs, async () => {
      const error = await this.probe()
      if (error && this.#isDown) this.#setDown(error)
    })
    if (!isDue) return
    this.#reportedAt = clock.now()
    onOutage(true, cause)
  }

  /** Ends its timers. */
  stop() {
    this.#isStopped = true
    this.#cancelProbe()
    this.#cancelPause?.()
  }
}
