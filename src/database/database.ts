/** The database: its sessions, which statements share and a lost server or a new URL replaces, its URL, and its metrics. */
import { Counter, Gauge } from '@prometheus-io/client'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type pg from 'pg'
import { addGauge, prefix } from '../metrics.ts'
import { followSecret, type Secret } from '../secrets.ts'
import { type Check, waitForDatabase } from './checks.ts'
import { type Connector, createConnector } from './connector.ts'
import { NoConnection, sqlstateOf } from './errors.ts'
import { Session } from './session.ts'
import { type DatabaseOptions, parseDatabaseUrl } from './url.ts'

/** One database. It opens as many sessions as it is asked to run statements at a time. */
export class Database {
  /** Of the sessions that are opened from now on; `replaceOptions` changes them. */
  options!: DatabaseOptions
  readonly #log: Pick<FastifyBaseLogger, 'warn'>
  readonly #sessionChecks: readonly Check[]
  readonly #errors: Counter<'sqlstate'>
  #connect!: Connector
  /** Those without a statement. When all are replaced, it is another list: sessions from before end after their statements. */
  #free: Session[] = []
  #busy = 0
  /** How many statements wait for a session. */
  #waiting = 0

  /**
   * Each session must pass the checks before it is used: what was right at the start can change.
   * `errors` counts what PostgreSQL reports.
   */
  constructor(
    options: DatabaseOptions,
    sessionChecks: readonly Check[],
    log: Pick<FastifyBaseLogger, 'warn'>,
    errors: Counter<'sqlstate'>
  ) {
    this.#log = log
    this.#errors = errors
    this.#sessionChecks = sessionChecks
    this.replaceOptions(options)
  }

  /** The sessions without a statement, those that are being opened or run one, and the statements that wait for a session. */
  get state() {
    const idle = this.#free.filter(({ hasEnded }) => !hasEnded).length
    return { idle, busy: this.#busy + this.#waiting, waiting: this.#waiting }
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
    const free = this.#free
    let session = free.pop()
    for (; session?.hasEnded; session = free.pop()) session.end()
    session ??= await this.#open(limitMs)
    this.#busy++
    const { result, error, discard } = await session.run(statement, limitMs, signal)
    this.#busy--
    this.countError(error)
    const isCurrent = free === this.#free
    if (discard === 'nothing' && isCurrent) free.push(session)
    else session.end()
    // In a failover, each session will fail as this one did.
    if (discard === 'allSessions' && isCurrent) {
      this.#log.warn({ err: error }, 'a database connection failed; replacing all connections')
      this.end()
    }
    if (result === undefined) throw error
    return result as pg.QueryResult<Row>
  }

  async #open(limitMs: number): Promise<Session> {
    this.#waiting++
    try {
      return new Session(await this.#connect(limitMs))
    } catch (cause) {
      for (const each of cause instanceof AggregateError ? cause.errors : [cause]) this.countError(each)
      throw new NoConnection('there is no connection to the database', { cause })
    } finally {
      this.#waiting--
    }
  }

  /** Counts an error, if PostgreSQL has reported it: of a statement or a connection, or of one of a statement's rows. */
  countError(error: unknown): void {
    const sqlstate = sqlstateOf(error)
    if (sqlstate !== undefined) this.#errors.inc({ sqlstate })
  }

  /** Replaces all sessions by ones with these options. */
  replaceOptions(next: DatabaseOptions): void {
    this.options = next
    this.#connect = createConnector(next, this.#sessionChecks)
    const { exposedHost: host } = next
    const text =
      'connections to the database are not encrypted: add an sslmode to its URL, or sslmode=disable'
    if (host !== undefined) this.#log.warn({ host }, text)
    this.end()
  }

  /** Ends the sessions, busy ones when their statements are over. A further statement opens a new one. */
  end(): void {
    for (const session of this.#free) session.end()
    this.#free = []
  }
}

/** What a database must pass, in the order in which an operator would mend it. */
export interface DatabaseChecks {
  /** Before it is used at all: at the start, and behind a new URL. */
  readonly start: readonly Check[]
  /** In each new session. They delay it, so they should be quick. */
  readonly session: readonly Check[]
}

/** Opens the database of a URL for the application, whose start waits up to `timeoutMs` until it passes the checks. */
export function openDatabase(
  app: FastifyInstance,
  url: Secret<DatabaseOptions>,
  checks: DatabaseChecks,
  timeoutMs: number
): Database {
  const { log, metrics } = app
  const registers = [metrics]
  const errors = new Counter({
    name: `${prefix}database_errors_total`,
    help: 'Errors that PostgreSQL has reported to statements and new connections, by SQLSTATE; a refused plant can have several',
    labelNames: ['sqlstate'],
    registers
  })
  const database = new Database(url.value, checks.session, log, errors)
  app.addHook('onClose', async () => database.end())
  // Before the application listens. The options are read anew each time: the file of the URL may change meanwhile.
  app.addHook('onReady', async () => {
    const tell = (missing: string) => log.warn({ missing }, 'waiting for the database')
    await waitForDatabase(() => database.options, timeoutMs, checks.start, tell)
  })

  // A new URL is used once its database passes the checks. So a password may change in the file or in the database first, and
  // a wrong one never replaces a right one.
  const isBroken = followSecret('DATABASE_URL_FILE', url, app, async (text, isNewest) => {
    const next = parseDatabaseUrl(text)
    const current = () => (isNewest() ? next : undefined)
    const tell = (missing: string) =>
      log.warn({ missing }, 'DATABASE_URL_FILE has a URL that does not work yet')
    await waitForDatabase(current, Number.POSITIVE_INFINITY, checks.start, tell)
    if (isNewest()) database.replaceOptions(next)
  })
  const help = '1 while DATABASE_URL_FILE is broken or does not work'
  addGauge(metrics, 'database_url_file_error', help, () => +isBroken())
  const waitHelp = 'Statements that wait for a connection to the database'
  addGauge(metrics, 'pool_waiting', waitHelp, () => database.state.waiting)
  const sessions = new Gauge({
    name: `${prefix}pool_connections`,
    help: 'Connections to the database; busy ones are being opened or run a statement',
    labelNames: ['state'],
    registers,
    collect() {
      const { idle, busy } = database.state
      sessions.set({ state: 'idle' }, idle)
      sessions.set({ state: 'busy' }, busy)
    }
  })
  return database
}
