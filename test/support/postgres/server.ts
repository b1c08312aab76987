/** A PostgreSQL server of a test's own, to stop, kill and start again, alone or with a standby; always the embedded one. */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execute } from '../execute.ts'
import type { Teardown } from '../teardown.ts'
import { hasLength, until } from '../until.ts'
import { migrate, query, setServer } from './database.ts'
import { startPostgres } from './embedded-postgres.ts'

export type Server = Awaited<ReturnType<typeof startServer>>

/** Starts a server with a migrated database; ends it at teardown. */
export async function startServer(t: Teardown, settings: Record<string, string> = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-'))
  let server = await startPostgres({ directory, settings })
  const url = server.url('postgres')
  const port = Number(new URL(url).port)
  t.teardown(async () => {
    server.process.kill('SIGCONT')
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  })
  await migrate(t, url)
  return {
    directory,
    url,
    port,
    /** Sends a signal to the server's first process. */
    signal: (signal: NodeJS.Signals) => server.process.kill(signal),
    /** Stops the server and the service's sessions by SIGSTOP; returns what lets them continue. */
    async freeze() {
      const select = `select pid from pg_stat_activity where application_name = 'plant-store'`
      const pids = (await query(url, select)).map(({ pid }) => pid)
      const signalAll = (signal: NodeJS.Signals) => {
        for (const pid of [server.process.pid, ...pids]) tryToKill(pid, signal)
      }
      signalAll('SIGSTOP')
      const thaw = () => signalAll('SIGCONT')
      t.teardown(thaw)
      return thaw
    },
    /** Ends the server: SIGINT is a fast shutdown, SIGQUIT an immediate one, SIGKILL a crash. Returns when it is gone. */
    async down(signal: NodeJS.Signals = 'SIGINT') {
      server.process.kill(signal)
      await once(server.process, 'exit')
    },
    /** Starts it again; after a crash, its last processes may need a moment to end. */
    async up() {
      server = await until('PostgreSQL starts', () => startPostgres({ directory, port, settings }))
    }
  }
}

function tryToKill(pid: number, signal: NodeJS.Signals) {
  try {
    process.kill(pid, signal)
  } catch {
    // This session has ended meanwhile.
  }
}

/** Starts a server and a synchronous standby, for which each commit waits; ends both at teardown. */
export async function startPair(t: Teardown) {
  const primary = await startServer(t)
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  await primary.down()
  await execute('cp', ['-a', `${primary.directory}/.`, directory])
  await primary.up()
  await writeFile(join(directory, 'cluster/standby.signal'), '')
  const standby = await startPostgres({
    directory,
    settings: {
      primary_conninfo: `${primary.url}?application_name=standby`,
      synchronous_standby_names: ''
    }
  })
  t.teardown(() => standby.stop())
  await setServer(primary.url, 'synchronous_standby_names', 'standby')
  const state = `select from pg_stat_replication where application_name = 'standby' and sync_state = 'sync'`
  await until('the standby is synchronous', () => query(primary.url, state), hasLength(1))
  const standbyUrl = standby.url('postgres')
  return {
    primary,
    standbyUrl,
    /** The URL of both, of which the one that takes writes is meant. */
    url: `${primary.url.replace(hostOf(primary.url), `${hostOf(primary.url)},${hostOf(standbyUrl)}`)}?target_session_attrs=read-write`,
    /** Makes the standby the primary. */
    promote: () => query(standbyUrl, 'select pg_promote()'),
    /** Signals the process by which the standby receives what the primary commits: SIGSTOP holds back each commit. */
    async signalReceiver(signal: NodeJS.Signals) {
      const [receiver] = await query(standbyUrl, 'select pid from pg_stat_wal_receiver')
      process.kill(receiver.pid, signal)
    }
  }
}

const hostOf = (url: string) => new URL(url).host
