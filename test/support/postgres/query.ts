/** One statement on a connection of its own. */
import pg from 'pg'

/** Runs a statement and returns its rows; the connection ends in any case. */
export async function query(url: string, sql: string, values: unknown[] = []) {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query(sql, values)
    return rows
  } finally {
    await client.end()
  }
}
