/** A PostgreSQL server of a test's own, to stop, kill and start again; always the embedded one. */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '../../src/commands/migrations.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import type { Teardown } from '../teardown.ts'
import { scaled } from '../time/slowness.ts'
import { until } from '../time/until.ts'
import { startPostgres } from './embedded-postgres.ts'

/** Starts a server with a migrated database; ends it at teardown. */
export async function startServer(t: Teardown, settings: Record<string, string> = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-'))
  let server = await startPostgres({ directory, settings })
  const url = server.url('postgres')
  const port = Number(new URL(url).port)
  await migrate({ database: parseDatabaseUrl(url), startupTimeoutMs: scaled(30_000) }, 'up')
  t.teardown(async () => {
    server.process.kill('SIGCONT')
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  })
  return {
    directory,
    url,
    port,
    /** Sends a signal: SIGINT is a fast shutdown, SIGQUIT an immediate one, SIGKILL a crash. */
    signal: (signal: NodeJS.Signals) => server.process.kill(signal),
    /** Ends the server by a signal and returns when it is gone. */
    async down(signal: NodeJS.Signals = 'SIGINT') {
      server.process.kill(signal)
      await once(server.process, 'exit')
    },
    /** Starts it again; after a crash, its last processes may need a moment to end. */
    async up() {
      const start = () => startPostgres({ directory, port, settings })
      server = await until('PostgreSQL starts', start, Boolean, scaled(120_000))
    }
  }
}
