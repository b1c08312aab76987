/** Assertions over a load: what its clients were told is what is stored. */
import type { Test } from 'tap'
import type { Create } from '../../dev/load.ts'
import { compare, type StoredPlant, selectPlants } from '../../dev/stored.ts'
import { query } from './database.ts'

/** Asserts that exactly what was acknowledged is stored, and once; gives the creates that failed. */
export async function assertStored(t: Test, databaseUrl: string, creates: Create[], caller?: string) {
  const rows = await query(databaseUrl, selectPlants())
  return assertRows(
    t,
    rows.map(({ plant }) => plant),
    creates,
    caller
  )
}

/** The same for rows that were read already. */
export function assertRows(t: Test, rows: StoredPlant[], creates: Create[], caller?: string): Create[] {
  const { failed, violations } = compare(creates, rows, caller)
  const slowest = creates.reduce((most, { began, ended }) => Math.max(most, ended - began), 0)
  t.comment(`${creates.length} creates, ${failed.length} failed, the slowest ${Math.round(slowest)} ms`)
  t.strictSame(violations, [])
  return failed
}
