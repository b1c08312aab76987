/** Whether the table is as this build needs it. */

/** Tells whether PostgreSQL has refused a statement because the table, or a column of it, is not there. */
export function isUnmigrated(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === '42P01' || code === '42703'
}
