/** Servers that refuse writes: standbys, and those that an operator has made read-only. */
import type pg from 'pg'

/** What is logged of such a server. */
export const readOnly = 'the database is read-only'

/** Returns whether the session's server refuses writes. */
export async function isReadOnly(query: (text: string) => Promise<pg.QueryResult>): Promise<boolean> {
  const { rows } = await query('show transaction_read_only')
  return rows[0].transaction_read_only === 'on'
}
