/** A session of the database: runs one statement at a time within a limit, and says whether its result can be trusted. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Client } from './client.ts'
import { diagnose, isReported, NoConnection } from './errors.ts'

/** How long PostgreSQL may take to end a statement after a request to cancel it. */
export const cancelGraceMs = 1_000

/** Returns how long a statement may wait for a session, and then take: a repeat in another session must be in time. */
export const statementLimitMs = (deadlineMs: number): number => Math.ceil(deadlineMs / 3)

/** How a statement ended: with a result, or with an error. */
interface End {
  readonly result?: pg.QueryResult
  readonly error?: unknown
  /** What the error costs: nothing, the session, or its server, whose other sessions are then useless, too. */
  readonly loss: 'nothing' | 'session' | 'server'
}

/** What the driver says of a statement. */
interface Answer {
  readonly result?: pg.QueryResult | undefined
  readonly error?: unknown
}

/** A session. Its client has connected. */
export class Session {
  /** It has ended, and cannot be used again. */
  hasEnded = false
  readonly #client: Client
  /** The commit of the statement was cancelled while it waited for a synchronous standby. */
  #isUnreplicated = false
  /** The server has said since the statement was sent that it is ready for another one. */
  #isReady = false
  /** Called when it says so, or when the session has ended. */
  #onReady: (isReady: boolean) => void = () => {}

  constructor(client: Client) {
    this.#client = client
    const lose = () => {
      this.hasEnded = true
      this.#onReady(false)
    }
    client.on('drain', () => {
      this.#isReady = true
      this.#onReady(true)
    })
    client.on('error', lose).on('end', lose)
    // PostgreSQL cannot undo a commit that waits for a standby: cancelled then, it succeeds with a warning (the manual,
    // "Synchronous Replication"). Its text is translated; only its routine identifies it.
    client.on('notice', ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') this.#isUnreplicated = true
    })
  }

  /** Ends it. Not awaited: a server that stands still would keep its caller waiting. */
  end(): void {
    void this.#client.end()
  }

  /** Runs a statement. Beyond the limit, or when the signal aborts, it is cancelled; a server that does not react is lost. */
  async run(statement: pg.QueryConfig, limitMs: number, signal: AbortSignal | undefined): Promise<End> {
    if (signal?.aborted) return { error: new NoConnection('no connection was open in time'), loss: 'nothing' }
    const answer = Promise.withResolvers<Answer>()
    this.#isUnreplicated = false
    this.#isReady = false
    // Sent before anything else is done, which PostgreSQL need not wait for.
    this.#client.query(statement, (error, result) => answer.resolve({ error, result }))
    let graceTimer: NodeJS.Timeout | undefined
    let isOver = false
    const giveUp = () => answer.resolve({ error: new Error('the server does not react to a cancel request') })
    const cancel = () => {
      // If the result was read in the turn in which the time was up, a request would cancel the next statement.
      if (isOver || graceTimer) return
      this.#client.cancelStatement()
      // Do not wait for a server that does not react: TCP may take a quarter of an hour to notice that it is gone.
      graceTimer = setTimeout(() => setImmediate(giveUp), cancelGraceMs)
    }
    // After a standstill of the process, timers fire before sockets are read. Read first: the result may have arrived.
    const act = () => void setImmediate(cancel)
    const timer = setTimeout(act, limitMs)
    signal?.addEventListener('abort', act)
    const { error, result } = await answer.promise
    let end: End = error || !result ? await this.#judge(error) : { result, loss: 'nothing' }
    isOver = true
    clearTimeout(timer)
    clearTimeout(graceTimer)
    // A commit that was cancelled while it waited for its standby reports success, and its notice may have been suppressed.
    // A statement without rows has written nothing, and so had no commit to wait for.
    if (this.#isUnreplicated || (graceTimer && end.result && end.result.rowCount !== 0))
      end = { error: new Error('the commit is not replicated'), loss: end.loss }
    // A cancel request that comes late would cancel the session's next statement.
    return graceTimer && end.loss === 'nothing' ? { ...end, loss: 'session' } : end
  }

  /** Returns what an error costs, and the error that describes the outcome of the statement. */
  async #judge(cause: unknown): Promise<End> {
    if (!isReported(cause)) return { error: cause, loss: 'server' }
    // The session survives an error if the server then says that it is ready for another statement.
    if (!this.#isReady) {
      const ready = new Promise<boolean>((resolve) => {
        this.#onReady = resolve
      })
      await Promise.race([ready, sleep(cancelGraceMs, false, { ref: false })])
    }
    // The next session may reach a server that accepts writes, and has no stale statement or plan.
    if (this.#isReady)
      return { error: cause, loss: diagnose(cause).kind === 'unavailable' ? 'session' : 'nothing' }
    return { error: new Error('the session has ended', { cause }), loss: 'server' }
  }
}
