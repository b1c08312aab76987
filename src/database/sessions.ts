/** The sessions of the database: statements take free ones, and all are replaced when a server or the URL changes. */
import type { FastifyBaseLogger } from 'fastify'
import type pg from 'pg'
import { isReadOnlyError, isReported, isTimedOut, NoConnection } from './errors.ts'
import { createClientClass } from './hosts.ts'
import { readOnly } from './read-only.ts'
import { createReportCounts } from './reports.ts'
import { Session } from './statement.ts'
import type { DatabaseOptions } from './url.ts'

/** A session that nobody has used for this long is ended. */
const mostIdleMs = 10_000
/** A session of this age is ended after its statement: servers behind one name change. */
const mostAgeMs = 1_800_000
/** How often the log says that the database is read-only. */
const reminderMs = 60_000

/** A session without a statement, and the timer that ends it. */
interface Free {
  readonly session: Session
  readonly timer: NodeJS.Timeout
}

/** One database. It opens as many sessions as it is asked to run statements at a time. */
export class Database {
  /** What PostgreSQL has reported, by SQLSTATE. */
  readonly reports = createReportCounts()
  readonly #log: Pick<FastifyBaseLogger, 'warn'>
  #options: DatabaseOptions
  #Client: ReturnType<typeof createClientClass>
  /** All sessions were replaced this often: those of an earlier generation end after their statements. */
  #generation = 0
  /** The one that was used last is taken first, so that the others end. */
  #free: Free[] = []
  #busy = 0
  /** The statements that wait for a session: each opens one of the new generation when the old one is replaced. */
  readonly #waits = new Set<() => void>()
  #replacements = 0
  #toldReadOnlyAt = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(options: DatabaseOptions, log: Pick<FastifyBaseLogger, 'warn'>) {
    this.#log = log
    this.#options = options
    this.#Client = createClientClass(options)
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
    const session = this.#takeFree() ?? (await this.#open(limitMs, signal))
    this.#busy++
    const { result, error, loss } = await session.run(statement, limitMs, signal)
    this.#busy--
    this.reports.add(error)
    if (isReadOnlyError(error)) this.#tellReadOnly()
    if (loss === 'server') this.#replaceAfter(session.generation, error)
    if (loss === 'nothing') this.#keep(session)
    else session.end()
    if (result === undefined) throw error
    return result as pg.QueryResult<Row>
  }

  #takeFree(): Session | undefined {
    const { session, timer } = this.#free.pop() ?? {}
    clearTimeout(timer)
    return session
  }

  /** Lets others use a session, unless it is of an earlier generation or too old. */
  #keep(session: Session) {
    const isOld = performance.now() - session.openedAt > mostAgeMs
    if (this.#isClosed || isOld || session.generation !== this.#generation) return session.end()
    const timer = setTimeout(() => this.#forget(session), mostIdleMs).unref()
    this.#free.push({ session, timer })
  }

  #forget(session: Session) {
    clearTimeout(this.#free.find((free) => free.session === session)?.timer)
    this.#free = this.#free.filter((free) => free.session !== session)
    session.end()
  }

  /** Opens a session within the limit, unless the signal aborts. One that comes too late is for others. */
  async #open(limitMs: number, signal: AbortSignal | undefined): Promise<Session> {
    const { promise, resolve, reject } = Promise.withResolvers<Session>()
    const fail = (cause: unknown) =>
      reject(new NoConnection('there is no connection to the database', { cause }))
    const abort = () => fail(signal?.reason)
    const timer = setTimeout(() => fail(new Error('no connection was open in time')), limitMs)
    const connect = () => {
      const generation = this.#generation
      this.#connect(limitMs).then(
        (session) => {
          const isWanted = generation === this.#generation && this.#waits.delete(connect)
          if (isWanted) resolve(session)
          else this.#keep(session)
        },
        (cause) => generation === this.#generation && fail(cause)
      )
    }
    signal?.addEventListener('abort', abort)
    this.#waits.add(connect)
    if (signal?.aborted) abort()
    else connect()
    try {
      return await promise
    } finally {
      this.#waits.delete(connect)
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }

  /** Connects to one of the hosts, each of which is tried once. */
  async #connect(limitMs: number): Promise<Session> {
    const generation = this.#generation
    const { hosts = [{}] } = this.#options
    const config = { ...this.#options, keepAlive: true, connectionTimeoutMillis: limitMs }
    const Client = this.#Client
    let first: unknown
    for (const _ of hosts) {
      try {
        const client = await new Client(config).connect()
        return new Session(client, generation, (session, error) => this.#onLost(session, error))
      } catch (error) {
        this.reports.add(error)
        // What PostgreSQL itself has reported explains more than a later host that is only a standby.
        if (!isReported(first)) first = error
      }
    }
    throw first
  }

  /** A session without a statement has ended. */
  #onLost(session: Session, error: Error) {
    this.#forget(session)
    if (!isTimedOut(error)) this.#replaceAfter(session.generation, error)
  }

  /** Replaces all sessions: in a failover, each will fail as this one did. One of an earlier generation adds nothing. */
  #replaceAfter(generation: number, error: unknown) {
    if (generation !== this.#generation || this.#isClosed) return
    this.#log.warn({ err: error }, 'a database connection failed; replacing all connections')
    this.#replacements++
    this.#replace()
  }

  #replace() {
    this.#generation++
    for (const { session } of this.#free) this.#forget(session)
    for (const connect of this.#waits) connect()
  }

  /** A session that was read-only ends alone: the next one may reach another server. */
  #tellReadOnly() {
    if (performance.now() - this.#toldReadOnlyAt < reminderMs) return
    this.#toldReadOnlyAt = performance.now()
    this.#log.warn(readOnly)
  }

  /** Replaces all sessions by ones with these options. */
  replaceOptions(next: DatabaseOptions): void {
    this.#options = next
    this.#Client = createClientClass(next)
    this.#replace()
  }

  /** The sessions with a statement and without one, the statements that wait for a session, and the replacements. */
  get state() {
    const { size: waiting } = this.#waits
    return { busy: this.#busy, idle: this.#free.length, waiting, replacements: this.#replacements }
  }

  /** Ends the sessions, busy ones when their statements are over. */
  end(): void {
    this.#isClosed = true
    this.#replace()
  }
}
