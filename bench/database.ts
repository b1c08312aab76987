/** The PostgreSQL of a benchmark: one server, fully durable, on a disk; and its databases. */
import { statfs } from 'node:fs/promises'
import { parseDatabaseUrl } from '../src/database/url.ts'
import { migrate } from '../src/migrate.ts'
import { startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'
import { plant } from './plant.ts'

/** Nothing else differs from PostgreSQL's defaults. */
const settings = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on', max_connections: '100' }

/** File systems that keep nothing, by their numbers in statfs(2): tmpfs and ramfs. */
const volatile = [0x01021994, 0x858458f6]

/** Starts the server, on a free port by default. Throws when the directory is not on a disk: what it measures would not be durability. */
export async function startDurablePostgres(directory: string, port?: number) {
  const { type } = await statfs(directory)
  if (volatile.includes(type))
    throw new Error('the temporary directory is in memory: set TMPDIR to one on a disk')
  return startPostgres({ directory, settings, ...(port && { port }) })
}

/** Makes a migrated database on the server and returns its URL. */
export async function createDatabase(url: (name: string) => string, name: string): Promise<string> {
  await query(url('postgres'), `create database ${name}`)
  await migrate({ database: parseDatabaseUrl(url(name)), startupTimeoutMs: 30_000 }, 'up')
  return url(name)
}

/** Empties the table. */
export async function clear(url: string): Promise<void> {
  await query(url, 'truncate plants')
}

/** Adds plants with random ids, and leaves the table as autovacuum would. */
export async function fill(url: string, rows: number): Promise<void> {
  // random(min, max) of bigint is new in PostgreSQL 17.
  await query(
    url,
    `insert into plants (id, name, tag, write_id)
     select random(-9223372036854775808, 9223372036854775807), '${plant.name}', '${plant.tag}', gen_random_uuid()
     from generate_series(1, ${rows})
     on conflict (id) do nothing`
  )
  await query(url, 'vacuum analyze plants')
}

/** Writes everything to disk, so that no measurement pays for earlier writes. */
export async function checkpoint(url: string): Promise<void> {
  await query(url, 'checkpoint')
}

/** Counts the plants. */
export async function countPlants(url: string): Promise<number> {
  const [{ count }] = await query(url, 'select count(*)::int from plants')
  return count
}

/** Returns the server's name and version. */
export async function readVersion(url: string): Promise<string> {
  const [{ server_version }] = await query(url, 'show server_version')
  return `PostgreSQL ${server_version}`
}
