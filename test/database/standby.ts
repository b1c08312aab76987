/** A primary PostgreSQL server and its standby, each of whose commits has two copies; always the embedded ones. */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { execute } from '../../harness/execute.ts'
import { query } from '../../harness/postgres/database.ts'
import { freePort, startPostgres } from '../../harness/postgres/embedded-postgres.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { migrate } from '../../src/commands/migrations.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'

/** Starts both with a migrated database; ends them at teardown. */
export async function startPair(t: Test) {
  const root = await mkdtemp(join(tmpdir(), 'plant-store-'))
  t.teardown(() => rm(root, { recursive: true, force: true }))
  const [first, second] = ['first', 'second'].map((name) => join(root, name)) as [string, string]
  const port = await freePort()
  const alone = await startPostgres({ directory: first, port })
  const url = alone.url('postgres')
  await migrate({ database: parseDatabaseUrl(url), startupTimeoutMs: scaled(30_000) }, 'up')
  await alone.stop()
  await execute('cp', ['-a', first, second])
  await writeFile(join(second, 'cluster/standby.signal'), '')

  const settings = { synchronous_standby_names: '*' }
  const primary = await startPostgres({ directory: first, port, settings })
  t.teardown(() => primary.stop())
  const { password } = new URL(url)
  const conninfo = `host=127.0.0.1 port=${port} user=postgres password=${password}`
  const standby = await startPostgres({ directory: second, settings: { primary_conninfo: conninfo } })
  t.teardown(() => standby.stop())
  await until('the standby follows', () => query(url, 'select 1 from pg_stat_replication'), hasLength(1))
  const standbyUrl = standby.url('postgres')
  const hostOf = (url: string) => new URL(url).host
  return {
    primary: { url, host: hostOf(url) },
    standby: { url: standbyUrl, host: hostOf(standbyUrl) },
    /** The URL of these hosts. */
    urlOf: (hosts: string[], attributes = 'read-write') =>
      `${url.replace(hostOf(url), hosts.join(','))}?target_session_attrs=${attributes}`,
    /** Ends the primary by SIGKILL. */
    async kill() {
      primary.process.kill('SIGKILL')
      await once(primary.process, 'exit')
    },
    /** Makes the standby the primary. */
    promote: () => query(standbyUrl, 'select pg_promote()')
  }
}
