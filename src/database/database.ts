/** The sessions of the database: statements take free ones, and all are replaced when a server or the URL changes. */
import type { FastifyBaseLogger } from 'fastify'
import type pg from 'pg'
import { type Connector, createConnector } from './connector.ts'
import { isTimedOut, NoConnection, ReportCounts } from './errors.ts'
import { limit, Session } from './session.ts'
import type { DatabaseOptions } from './url.ts'

/** One database. It opens as many sessions as it is asked to run statements at a time. */
export class Database {
  /** What PostgreSQL has reported, by SQLSTATE. */
  readonly reports = new ReportCounts()
  readonly #log: Pick<FastifyBaseLogger, 'warn'>
  #options: DatabaseOptions
  #connect: Connector
  /** The sessions that are used. All others end after their statements, because they were replaced. */
  #current = new Set<Session>()
  /** Those without a statement. The one that was used last is taken first, so that the others grow old. */
  #free: Session[] = []
  #busy = 0
  /** How many statements wait for a session. */
  #waiting = 0
  #isClosed = false

  constructor(options: DatabaseOptions, log: Pick<FastifyBaseLogger, 'warn'>) {
    this.#log = log
    this.#options = options
    this.#connect = createConnector(options)
  }

  /** The options of sessions that are opened from now on. */
  get options(): DatabaseOptions {
    return this.#options
  }

  /**
   * Runs one statement in a session of its own. It may wait `limitMs` for the session, and take as long again. Then, or when
   * the signal aborts, PostgreSQL is asked to cancel it, and the promise rejects within two seconds. Rejects with what
   * PostgreSQL or the driver reports.
   */
  async run<Row extends pg.QueryResultRow>(
    statement: pg.QueryConfig,
    limitMs: number,
    signal?: AbortSignal
  ): Promise<pg.QueryResult<Row>> {
    for (const old of this.#free.filter(({ isOld }) => isOld)) this.#forget(old)
    const session = this.#free.pop() ?? (await this.#open(limitMs, signal))
    this.#busy++
    const { result, error, loss } = await session.run(statement, limitMs, signal)
    this.#busy--
    this.reports.add(error)
    if (loss === 'server') this.#replaceAfter(session, error)
    if (loss === 'nothing') this.#keep(session)
    else this.#forget(session)
    if (result === undefined) throw error
    return result as pg.QueryResult<Row>
  }

  /** Lets others use a session, unless it was replaced. */
  #keep(session: Session) {
    if (this.#current.has(session) && !this.#isClosed) this.#free.push(session)
    else this.#forget(session)
  }

  #forget(session: Session) {
    this.#current.delete(session)
    this.#free = this.#free.filter((free) => free !== session)
    session.end()
  }

  /** Opens a session within the limit, unless the signal aborts. One that comes too late is for others. */
  async #open(limitMs: number, signal: AbortSignal | undefined): Promise<Session> {
    const sessions = this.#current
    const { promise, resolve, reject } = Promise.withResolvers<Session>()
    const fail = () => reject(new Error('no connection was open in time'))
    const stop = limit(limitMs, signal, fail)
    let isOver = false
    this.#waiting++
    this.#connect(limitMs).then((client) => {
      const session = new Session(client, (lost, error) => this.#onLost(lost, error))
      sessions.add(session)
      if (isOver) this.#keep(session)
      else resolve(session)
    }, reject)
    try {
      return await promise
    } catch (cause) {
      for (const each of cause instanceof AggregateError ? cause.errors : [cause]) this.reports.add(each)
      throw new NoConnection('there is no connection to the database', { cause })
    } finally {
      isOver = true
      this.#waiting--
      stop()
    }
  }

  /** A session without a statement has ended. */
  #onLost(session: Session, error: Error) {
    if (!isTimedOut(error)) this.#replaceAfter(session, error)
    this.#forget(session)
  }

  /** Replaces all sessions: in a failover, each will fail as this one did. One that was replaced already adds nothing. */
  #replaceAfter(session: Session, error: unknown) {
    if (!this.#current.has(session) || this.#isClosed) return
    this.#log.warn({ err: error }, 'a database connection failed; replacing all connections')
    this.#replace()
  }

  #replace() {
    this.#current = new Set()
    for (const session of this.#free) this.#forget(session)
  }

  /** Replaces all sessions by ones with these options. */
  replaceOptions(next: DatabaseOptions): void {
    this.#options = next
    this.#connect = createConnector(next)
    this.#replace()
  }

  /** The sessions with a statement and without one, and the statements that wait for a session. */
  get state() {
    return { busy: this.#busy, idle: this.#free.length, waiting: this.#waiting }
  }

  /** Ends the sessions, busy ones when their statements are over. */
  end(): void {
    this.#isClosed = true
    this.#replace()
  }
}
