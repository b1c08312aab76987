/**
 * A session of the database. It runs one statement at a time within a time limit, and says whether
 * the result can be trusted and whether the session can be used again.
 *
 * When the limit has passed, the session asks the server to cancel the statement. The statement
 * then normally fails within milliseconds. If the server does not react within a grace period, the
 * statement is given up, and the server with all of its sessions is taken for dead.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Client } from './client.ts'
import { diagnose, isReported, NoConnection } from './errors.ts'

/** How long PostgreSQL may take to end a statement after a request to cancel it. */
export const cancelGraceMs = 1_000

/**
 * Returns how long a statement may wait for a session, and then how long it may take, in ms. Both
 * together leave a third of the deadline for a second try in another session.
 */
export const statementLimitMs = (deadlineMs: number): number => Math.ceil(deadlineMs / 3)

/** What a statement has ended with: a result or an error. */
interface Completion {
  readonly result?: pg.QueryResult
  readonly error?: unknown
  /** What the caller must not use again. If the server has failed, all of its sessions have. */
  readonly discard: 'nothing' | 'session' | 'allSessions'
}

/** What the driver hands to the callback of a query. */
interface DriverAnswer {
  readonly result?: pg.QueryResult | undefined
  readonly error?: unknown
}

/** A session, over a client that has connected. */
export class Session {
  /** Whether the session has ended, and cannot be used again. */
  hasEnded = false
  readonly #client: Client
  /** Whether the commit of the statement was cancelled while it waited for a standby. */
  #isUnreplicated = false
  /** Whether the server has said since the statement was sent that it is ready for another one. */
  #isReady = false
  /** Called when the server says that it is ready, or when the session has ended. */
  #onReady: (isReady: boolean) => void = () => {}

  constructor(client: Client) {
    this.#client = client
    const markEnded = () => {
      this.hasEnded = true
      this.#onReady(false)
    }
    // The driver emits this for ReadyForQuery when it has no other query.
    client.on('drain', () => {
      this.#isReady = true
      this.#onReady(true)
    })
    client.on('error', markEnded).on('end', markEnded)
    // PostgreSQL cannot undo a commit that waits for a synchronous standby. If it is cancelled
    // while it waits, it succeeds with a warning (PostgreSQL manual, "Synchronous Replication").
    // The text of the warning is translated, so only its routine identifies it.
    client.on('notice', ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') this.#isUnreplicated = true
    })
  }

  /** Ends the session. It is not awaited, because a server that stands still would never answer. */
  end(): void {
    void this.#client.end()
  }

  /**
   * Runs a statement. After `limitMs`, or when the signal aborts, the server is asked to cancel it.
   * Resolves in any case, at the latest `cancelGraceMs` later; after an error it waits up to
   * `cancelGraceMs` more for the server to be ready.
   */
  async run(
    statement: pg.QueryConfig,
    limitMs: number,
    signal: AbortSignal | undefined
  ): Promise<Completion> {
    if (signal?.aborted)
      return { error: new NoConnection('no connection was open in time'), discard: 'nothing' }
    const answered = Promise.withResolvers<DriverAnswer>()
    this.#isUnreplicated = false
    this.#isReady = false
    // Send the statement first, so that PostgreSQL works while the timers are set up.
    this.#client.query(statement, (error, result) => answered.resolve({ error, result }))

    let isOver = false
    let cancelSent = false
    let graceTimer: NodeJS.Timeout | undefined
    const abandonServer = () =>
      answered.resolve({ error: new Error('the server does not react to a cancel request') })
    const sendCancel = () => {
      // The result may have been read in this turn of the event loop. A cancel request would then
      // hit the next statement of the session.
      if (isOver || cancelSent) return
      cancelSent = true
      this.#client.cancelStatement()
      // A dead server does not react, and TCP can take a quarter of an hour to notice.
      graceTimer = setTimeout(() => setImmediate(abandonServer), cancelGraceMs)
    }
    // After a standstill of the process, timers run before sockets are read. The immediate lets
    // Node read the result first, if it has arrived.
    const scheduleCancel = () => void setImmediate(sendCancel)
    const timer = setTimeout(scheduleCancel, limitMs)
    signal?.addEventListener('abort', scheduleCancel)

    const { error, result } = await answered.promise
    let completion: Completion =
      error || !result ? await this.#assessError(error) : { result, discard: 'nothing' }
    isOver = true
    clearTimeout(timer)
    clearTimeout(graceTimer)
    // After a cancel, a commit without its standby also reports success, and its warning may have
    // been suppressed. Only a statement without rows is safe: it has written nothing, so its commit
    // did not wait. For a message of several statements, the driver returns a list, whatever its
    // type says. That has no `rowCount`, so it counts as having written.
    const mayBeUnreplicated = cancelSent && completion.result && completion.result.rowCount !== 0
    if (this.#isUnreplicated || mayBeUnreplicated)
      completion = {
        error: new Error('the commit is not replicated'),
        discard: completion.discard
      }
    // The cancel request may still arrive, and would then cancel the next statement of the session.
    return cancelSent && completion.discard === 'nothing'
      ? { ...completion, discard: 'session' }
      : completion
  }

  /** Returns which error describes how the statement has ended, and what it makes useless. */
  async #assessError(cause: unknown): Promise<Completion> {
    if (!isReported(cause)) return { error: cause, discard: 'allSessions' }
    // The session survives an error if the server then says that it is ready for another statement.
    if (!this.#isReady) {
      const ready = new Promise<boolean>((resolve) => {
        this.#onReady = resolve
      })
      await Promise.race([ready, sleep(cancelGraceMs, false, { ref: false })])
    }
    if (!this.#isReady)
      return { error: new Error('the session has ended', { cause }), discard: 'allSessions' }
    // A new session may reach a server that accepts writes, and has no stale statement or plan.
    const isUnavailable = diagnose(cause).kind === 'unavailable'
    return { error: cause, discard: isUnavailable ? 'session' : 'nothing' }
  }
}
