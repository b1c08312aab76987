/** A database that is away: it refuses every session, and has ended those that it had. */
import type { Teardown } from '../teardown.ts'
import { query, serverUrl } from './database.ts'

/** Closes a database of the tests' server to everybody; returns what opens it again. It is open at teardown. */
export async function closeDatabase(t: Teardown, url: string) {
  const name = new URL(url).pathname.slice(1)
  const allow = (isOpen: boolean) =>
    query(serverUrl(), `alter database ${name} with allow_connections ${isOpen}`)
  await allow(false)
  t.teardown(() => allow(true))
  await query(serverUrl(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`)
  return () => allow(true)
}
