/** A session of the database: runs one statement at a time within a limit, and says whether its result can be trusted. */
import type pg from 'pg'
import { cancelStatement } from './cancel.ts'
import { isReported, isStale, isTimedOut, ResultUnknown } from './errors.ts'

/** How long PostgreSQL may take to end a statement after a request to cancel it. */
export const cancelGraceMs = 1_000
/** A statement gets a third of its write's deadline, so that a repeat in another session is in time. */
const statementsPerDeadline = 3
/** A session that has run nothing for this long is not used again: a firewall may have forgotten it. */
const mostIdleMs = 10_000
/** Neither is one of this age: servers behind one name change. */
const mostAgeMs = 1_800_000

/** Returns how long a statement of a write may wait for a session, and then how long it may take. */
export const statementLimitMs = (deadlineMs: number): number => Math.ceil(deadlineMs / statementsPerDeadline)

/** Acts when the time is up or the signal aborts. Returns a function that ends the limit. */
export function limit(limitMs: number, signal: AbortSignal | undefined, act: () => void): () => void {
  const timer = setTimeout(act, limitMs)
  signal?.addEventListener('abort', act)
  if (signal?.aborted) act()
  return () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', act)
  }
}

/** How a statement ended: with a result, or with an error. */
interface End {
  readonly result?: pg.QueryResult
  readonly error?: unknown
  /** What the error costs: nothing, the session, or its server, whose other sessions are then useless, too. */
  readonly loss: 'nothing' | 'session' | 'server'
}

/** A session. Its client has connected. */
export class Session {
  readonly #client: pg.Client
  readonly #openedAt = performance.now()
  #usedAt = performance.now()
  #isRunning = false
  /** The server is ready for another statement. */
  #isReady = true
  #hasEnded = false
  /** The commit of the statement was cancelled while it waited for a synchronous standby. */
  #isUnreplicated = false
  /** Called when it becomes ready, or ends. */
  #onChange = () => {}

  /** `onLost` is called with the error of a session that fails while it runs nothing, unless it was ended on purpose. */
  constructor(client: pg.Client, onLost: (session: Session, error: Error) => void) {
    this.#client = client
    client.on('drain', () => {
      this.#isReady = true
      this.#onChange()
    })
    client.on('end', () => {
      this.#hasEnded = true
      this.#onChange()
    })
    client.on('error', (error) => {
      // The error of a session that was ended on purpose may come a quarter of an hour later, when TCP gives up.
      if (!this.#isRunning && !this.#hasEnded) onLost(this, error)
    })
    // PostgreSQL cannot undo a commit that waits for a standby: cancelled then, it succeeds with a warning (the manual,
    // "Synchronous Replication"). Its text is translated; only its routine identifies it.
    client.on('notice', ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') this.#isUnreplicated = true
    })
  }

  /** Whether it has been idle or open for too long to be used again. */
  get isOld(): boolean {
    const now = performance.now()
    return now - this.#usedAt > mostIdleMs || now - this.#openedAt > mostAgeMs
  }

  /** Ends it. Not awaited: a server that stands still would keep its caller waiting. */
  end(): void {
    this.#hasEnded = true
    void this.#client.end()
  }

  /**
   * Runs a statement. When it takes longer than the limit, or the signal aborts, PostgreSQL is asked to cancel it. A server
   * that does not react within a second counts as lost.
   */
  async run(statement: pg.QueryConfig, limitMs: number, signal: AbortSignal | undefined): Promise<End> {
    let graceTimer: NodeJS.Timeout | undefined
    let isOver = false
    const silence = Promise.withResolvers<never>()
    const giveUp = () => silence.reject(new Error('the server does not react to a cancel request'))
    const cancel = () => {
      // If the result was read in the turn in which the time was up, a request would cancel the next statement.
      if (isOver || graceTimer) return
      cancelStatement(this.#client)
      // Do not wait for a server that does not react: TCP may take a quarter of an hour to notice that it is gone.
      graceTimer = setTimeout(() => setImmediate(giveUp), cancelGraceMs)
    }
    // After a standstill of the process, timers fire before sockets are read. Read first: the result may have arrived.
    const stop = limit(limitMs, signal, () => void setImmediate(cancel))
    this.#isRunning = true
    this.#isReady = this.#isUnreplicated = false
    let end: End
    try {
      end = { result: await Promise.race([this.#client.query(statement), silence.promise]), loss: 'nothing' }
    } catch (cause) {
      end = await this.#judge(cause)
    }
    isOver = true
    this.#isRunning = false
    this.#usedAt = performance.now()
    stop()
    clearTimeout(graceTimer)
    // A commit that was cancelled while it waited for its standby reports success, and its notice may have been suppressed.
    if (this.#isUnreplicated || (graceTimer && end.result))
      end = { error: new ResultUnknown('the commit is not replicated'), loss: end.loss }
    // A cancel request that comes late would cancel the session's next statement.
    return graceTimer && end.loss === 'nothing' ? { ...end, loss: 'session' } : end
  }

  /** Returns what an error costs, and the error that describes the outcome of the statement. */
  async #judge(cause: unknown): Promise<End> {
    if (!isReported(cause)) return { error: cause, loss: 'server' }
    // The session survives an error if the server then says that it is ready for another statement.
    if (!this.#isReady && !this.#hasEnded) await this.#change()
    if (this.#isReady) return { error: cause, loss: isStale(cause) ? 'session' : 'nothing' }
    const error = new ResultUnknown('the session has ended', { cause })
    return { error, loss: isTimedOut(cause) ? 'session' : 'server' }
  }

  /** Resolves when the session becomes ready or ends, or after a second. */
  #change(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, cancelGraceMs)
    this.#onChange = resolve
    return promise.finally(() => clearTimeout(timer))
  }
}
