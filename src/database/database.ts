/** The sessions of the database: statements take free ones, and all are replaced when a server or the URL changes. */
import type { FastifyBaseLogger } from 'fastify'
import type pg from 'pg'
import { type Connector, createConnector } from './connector.ts'
import { NoConnection, ReportCounts } from './errors.ts'
import { Session } from './session.ts'
import type { DatabaseOptions } from './url.ts'

/** One database. It opens as many sessions as it is asked to run statements at a time. */
export class Database {
  /** What PostgreSQL has reported, by SQLSTATE. */
  readonly reports = new ReportCounts()
  readonly #log: Pick<FastifyBaseLogger, 'warn'>
  #options: DatabaseOptions
  #connect: Connector
  /** How often all sessions were replaced. Those from before end after their statements. */
  #generation = 0
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

  /** The sessions with a statement and without one, and the statements that wait for a session. */
  get state() {
    return { busy: this.#busy, idle: this.#free.length, waiting: this.#waiting }
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
    for (const old of this.#free.filter(({ isOld }) => isOld)) this.#end(old)
    const session = this.#free.pop() ?? (await this.#open(limitMs))
    this.#busy++
    const { result, error, loss } = await session.run(statement, limitMs, signal)
    this.#busy--
    this.reports.add(error)
    if (loss === 'server') this.#replaceAfter(session, error)
    if (loss === 'nothing' && session.generation === this.#generation) this.#free.push(session)
    else session.end()
    if (result === undefined) throw error
    return result as pg.QueryResult<Row>
  }

  async #open(limitMs: number): Promise<Session> {
    const generation = this.#generation
    this.#waiting++
    try {
      const client = await this.#connect(limitMs)
      return new Session(client, generation, (session, error) => {
        this.#replaceAfter(session, error)
        this.#end(session)
      })
    } catch (cause) {
      for (const each of cause instanceof AggregateError ? cause.errors : [cause]) this.reports.add(each)
      throw new NoConnection('there is no connection to the database', { cause })
    } finally {
      this.#waiting--
    }
  }

  /** Ends a session without a statement. */
  #end(session: Session) {
    this.#free = this.#free.filter((free) => free !== session)
    session.end()
  }

  /** Replaces all sessions: in a failover, each will fail as this one did. One that was replaced already adds nothing. */
  #replaceAfter({ generation }: Session, error: unknown) {
    if (generation !== this.#generation) return
    this.#log.warn({ err: error }, 'a database connection failed; replacing all connections')
    this.end()
  }

  /** Replaces all sessions by ones with these options. */
  replaceOptions(next: DatabaseOptions): void {
    this.#options = next
    this.#connect = createConnector(next)
    this.end()
  }

  /** Ends the sessions, busy ones when their statements are over. A further statement opens a new one. */
  end(): void {
    this.#generation++
    for (const session of this.#free.splice(0)) session.end()
  }
}
