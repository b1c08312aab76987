/**
 * The database: a pool of sessions, the URL that they connect to, and their metrics.
 *
 * A statement takes a free session, or opens one if none is free. Nothing bounds their number here:
 * group commit runs at most one statement in each of its lanes, and one probe. After the statement,
 * the session is free again, or it is ended if its result says that it cannot be trusted
 * (session.ts).
 *
 * The free sessions form one generation. When a server fails, every session to it is useless, so
 * the whole generation is replaced: the free sessions end at once, those with a statement end after
 * it, and the next statement opens a new one, perhaps on another host. A new URL does the same, but
 * only after its database has passed all checks (checks.ts). The start waits for these checks, too.
 */
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

/** One database. It has as many sessions as it has run statements at the same time. */
export class Database {
  /** How new sessions connect. Only `replaceOptions` assigns it. */
  options!: DatabaseOptions
  readonly #log: Pick<FastifyBaseLogger, 'warn'>
  readonly #sessionChecks: readonly Check[]
  readonly #errors: Counter<'sqlstate'>
  #connect!: Connector
  /**
   * The sessions without a statement. Replacing all sessions replaces this list, so that a session
   * that was taken from an earlier list is known, and ends after its statement.
   */
  #free: Session[] = []
  /** How many sessions run a statement. */
  #busy = 0
  /** How many statements wait for a session. */
  #waiting = 0

  /**
   * A new session must pass these checks before it is used, because what was right at the start can
   * change. `errors` counts the errors that PostgreSQL reports.
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

  /**
   * How many sessions are idle, and how many are busy: they run a statement or are being opened.
   * Each statement that waits has a session of its own being opened.
   */
  get state() {
    const idle = this.#free.filter(({ hasEnded }) => !hasEnded).length
    return { idle, busy: this.#busy + this.#waiting, waiting: this.#waiting }
  }

  /**
   * Runs one statement in a session that no other uses meanwhile. It may wait `limitMs` for the
   * session, and then take as long again. After that, or when the signal aborts, it ends within two
   * seconds. Rejects with the error of PostgreSQL or the driver, or with NoConnection.
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
    // The server has failed, so each of its sessions would fail as this one did.
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
      for (const each of cause instanceof AggregateError ? cause.errors : [cause])
        this.countError(each)
      throw new NoConnection('there is no connection to the database', { cause })
    } finally {
      this.#waiting--
    }
  }

  /**
   * Counts an error in the metrics if PostgreSQL has reported it. The errors of statements and of
   * connections are counted here; the store counts those of single rows.
   */
  countError(error: unknown): void {
    const sqlstate = sqlstateOf(error)
    if (sqlstate !== undefined) this.#errors.inc({ sqlstate })
  }

  /** Connects with these options from now on, and replaces all sessions. */
  replaceOptions(next: DatabaseOptions): void {
    this.options = next
    this.#connect = createConnector(next, this.#sessionChecks)
    const { exposedHost: host } = next
    const text =
      'connections to the database are not encrypted: add an sslmode to its URL, or sslmode=disable'
    if (host !== undefined) this.#log.warn({ host }, text)
    this.end()
  }

  /** Ends all sessions, busy ones after their statements. The next statement opens a new one. */
  end(): void {
    for (const session of this.#free) session.end()
    this.#free = []
  }
}

/** The checks of a database, in the order in which an operator would fix what they find. */
export interface DatabaseChecks {
  /** The checks that run before a database is used at all: at the start, and for a new URL. */
  readonly start: readonly Check[]
  /** The checks of each new session. A statement waits for them, so they should be quick. */
  readonly session: readonly Check[]
}

/**
 * Opens the database of a URL for the application. The application's start waits up to `timeoutMs`
 * until the database passes the checks.
 */
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
    help:
      'Errors that PostgreSQL has reported to statements and new connections, by SQLSTATE; ' +
      'a refused plant can have several',
    labelNames: ['sqlstate'],
    registers
  })
  const database = new Database(url.value, checks.session, log, errors)
  app.addHook('onClose', async () => database.end())
  // The application must not listen before the database is ready. The options are read for each
  // attempt, because the file of the URL may change meanwhile.
  app.addHook('onReady', async () => {
    const tell = (missing: string) => log.warn({ missing }, 'waiting for the database')
    await waitForDatabase(() => database.options, timeoutMs, checks.start, tell)
  })

  // A new URL is used only when its database passes the checks. So an operator may change a
  // password first in the file or first in the database, and a wrong URL never replaces a right
  // one.
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
