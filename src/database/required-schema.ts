/** What the table must have for this build to serve. */

/** Takes no row. The columns are those of the newest migration that this build needs. */
export const selectNeeded = 'select id, name, tag, write_id, created_at from plants limit 0'

/** Tells whether PostgreSQL has refused a statement because the table, or a column of it, is not there. */
export function isUnmigrated(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === '42P01' || code === '42703'
}
