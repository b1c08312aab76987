/** The sessions of the database: statements take free ones, and all are replaced when a server or the URL changes. */
import type { FastifyBaseLogger } from 'fastify'
import type pg from 'pg'
import { type Connector, createConnector } from './connector.ts'
import { isTimedOut, NoConnection, ReportCounts } from './errors.ts'
import { Session } from './session.ts'
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
   * the signal aborts, it is cancelled within two seconds. Rejects with what PostgreSQL or the driver reports.
   */
  async run<Row extends pg.QueryResultRow>(
    statement: pg.QueryConfig,
    limitMs: number,
    signal?: AbortSignal
  ): Promise<pg.QueryResult<Row>> {
    for (const old of this.#free.filter(({ isOld }) => isOld)) this.#forget(old)
    const session = this.#free.pop() ?? (await this.#open(limitMs))
    this.#busy++
    const { result, error, loss } = await session.run(statement, limitMs, signal)
    this.#busy--
    this.reports.add(error)
    if (loss === 'server') this.#replaceAfter(session, error)
    if (loss === 'nothing' && this.#current.has(session)) this.#free.push(session)
    else this.#forget(session)
    if (result === undefined) throw error
    return result as pg.QueryResult<Row>
  }

  #forget(session: Session) {
    this.#current.delete(session)
    this.#free = this.#free.filter((free) => free !== session)
    session.end()
  }

  async #open(limitMs: number): Promise<Session> {
    const sessions = this.#current
    this.#waiting++
    try {
      const session = new Session(await this.#connect(limitMs), (lost, error) => this.#onLost(lost, error))
      sessions.add(session)
      return session
    } catch (cause) {
      for (const each of cause instanceof AggregateError ? cause.errors : [cause]) this.reports.add(each)
      throw new NoConnection('there is no connection to the database', { cause })
    } finally {
      this.#waiting--
    }
  }

  /** A session without a statement has ended. */
  #onLost(session: Session, error: Error) {
    if (!isTimedOut(error)) this.#replaceAfter(session, error)
    this.#forget(session)
  }

  /** Replaces all sessions: in a failover, each will fail as this one did. One that was replaced already adds nothing. */
  #replaceAfter(session: Session, error: unknown) {
    if (!this.#current.has(session)) return
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
    this.#replace()
  }
}
