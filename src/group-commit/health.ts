/**
 * The health of the database, learned from attempts and probes. The database can be, at once:
 *
 * - paused: no attempt begins. A pause begins when an attempt finds the database unavailable, or
 *   when nothing has answered for a whole deadline. It ends when a probe can write, when an attempt
 *   commits, or when a probe finds a fault of which each row should be told, such as a missing
 *   table.
 * - down: new rows are refused, because they would expire. The database is down when nothing has
 *   answered for a whole deadline. It is up again when a server that can write answers, even if the
 *   table is locked.
 *
 * A locked table pauses, too, because an attempt with savepoints is then `unavailable`. But the
 * server still answers: it cancels the probe, which waits for the lock, at the probe's time limit.
 * That is `retryable`, so the pause goes on, and the database is not down.
 *
 * After a failure without an answer, probes follow one another, with a back-off before each.
 */
import type { AttemptFailure } from './types.ts'

/** The first and the longest back-off. */
const backoff = { firstMs: 20, longestMs: 1000 }
/** How often an outage is reported again, so that the latest lines of the log have its cause. */
const reminderMs = 60_000

/**
 * Returns the time to wait after so many earlier back-offs: twice as long each time, with jitter,
 * so that rows and replicas do not all come back at once.
 */
export const backoffMs = (earlier: number): number =>
  Math.min(backoff.longestMs, backoff.firstMs * 2 ** earlier) * (0.5 + Math.random() / 2)

/**
 * Returns whether a failure counts as if no server that can write had answered. A server that
 * lacks a table has answered, and so has one that cancelled the probe of a locked table.
 */
const isUnresponsive = ({ kind }: AttemptFailure) => kind === 'unavailable' || kind === 'unknown'

interface Options {
  readonly deadlineMs: number
  readonly probe: () => Promise<AttemptFailure | undefined>
  /**
   * Called with true and an error when an outage begins and each minute while it lasts, and with
   * false when it ends.
   */
  readonly onOutage: (isDown: boolean, cause?: unknown) => void
  /** Called when a pause is over. */
  readonly onResume: () => void
}

/** The health of the database. Only the methods of this class assign its fields. */
export class Health {
  readonly #options: Options
  /** Whether attempts must wait. */
  isPaused = false
  /** Whether new rows must be refused. */
  isDown = false
  /** When the first attempt without an answer failed, or Infinity after an answer. */
  #unresponsiveSince = Number.POSITIVE_INFINITY
  #reportedAt = 0
  /** How many planned probes there were since an attempt last committed. */
  #probes = 0
  /** The timer of the planned probe. It stays set while that probe runs; `stop` clears it. */
  #nextProbe: NodeJS.Timeout | undefined
  #probing: Promise<AttemptFailure | undefined> | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** Notes that an attempt or a probe has failed. */
  noteFailure(failure: AttemptFailure) {
    if (!isUnresponsive(failure)) return this.noteAnswer(false)
    const now = performance.now()
    this.#unresponsiveSince = Math.min(this.#unresponsiveSince, now)
    const isLong = now - this.#unresponsiveSince >= this.#options.deadlineMs
    if (isLong || failure.kind === 'unavailable') this.isPaused = true
    if (isLong && !(this.isDown && now - this.#reportedAt < reminderMs)) {
      this.isDown = true
      this.#reportedAt = now
      this.#options.onOutage(true, failure.error)
    }
    this.#probeLater()
  }

  /** Notes that the database has answered. If it has committed something, a pause ends. */
  noteAnswer(isCommitted: boolean) {
    this.#unresponsiveSince = Number.POSITIVE_INFINITY
    if (this.isDown) this.#options.onOutage(false)
    this.isDown = false
    if (!isCommitted) return
    this.#probes = 0
    if (this.#nextProbe) this.#resume()
  }

  /**
   * Probes the database. Callers share a probe that runs already. Resolves with why the database
   * cannot write, or with undefined.
   */
  probe(): Promise<AttemptFailure | undefined> {
    this.#probing ??= this.#options.probe().then((failure) => {
      this.#probing = undefined
      if (!failure || !isUnresponsive(failure)) this.noteAnswer(false)
      return failure
    })
    return this.#probing
  }

  /** Probes after a back-off, and again until the database can write. */
  #probeLater() {
    const probe = async () => {
      const planned = this.#nextProbe
      const failure = await this.probe()
      // Meanwhile an attempt has committed, or the group commit has closed: this probe decides
      // nothing.
      if (this.#nextProbe !== planned) return
      // A failure that is neither unresponsive nor retryable, such as a missing table, ends the
      // pause: each row is then told of it by its own attempt.
      if (!failure || !(isUnresponsive(failure) || failure.kind === 'retryable'))
        return this.#resume()
      this.stop()
      if (isUnresponsive(failure)) this.noteFailure(failure)
      else this.#probeLater()
    }
    this.#nextProbe ??= setTimeout(probe, backoffMs(this.#probes++))
  }

  #resume() {
    this.stop()
    this.isPaused = false
    this.#options.onResume()
  }

  /** Ends the probes, until the next failure. */
  stop() {
    clearTimeout(this.#nextProbe)
    this.#nextProbe = undefined
  }
}
