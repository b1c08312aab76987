/** One statement, on a connection that the next one to its database uses again: a login costs more than most statements. */
import pg from 'pg'

const pools = new Map<string, pg.Pool>()

/** Runs a statement, and returns its rows. */
export async function query(url: string, sql: string, values: unknown[] = []) {
  let pool = pools.get(url)
  if (!pool) {
    pool = new pg.Pool({ connectionString: url, idleTimeoutMillis: 1_000, allowExitOnIdle: true })
    // Of a connection that nobody uses, as in a restart: the next statement gets another.
    pool.on('error', () => {})
    pools.set(url, pool)
  }
  return (await pool.query(sql, values)).rows
}
