/** A real PostgreSQL that fails under load: acknowledged is stored, nothing is stored twice, and clients only wait. */
import t, { type Test } from 'tap'
import { assertNoErrors } from '../../harness/histories/assert-rows.ts'
import { type Load, startRivals } from '../../harness/histories/rivals.ts'
import { query, setServer } from '../../harness/postgres/database.ts'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { startProxy } from '../../harness/postgres/proxy.ts'
import { startServer } from '../../harness/postgres/server.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import { startProcess } from '../../harness/service/process.ts'
import { startService, token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'

/** How often each fault is repeated: more in `npm run test:faults`. */
const rounds = Number(process.env.FAULT_ROUNDS ?? 1)
const clients = 32
/** Creates that succeed before and after each fault. */
const creates = 200

/** Clients repeat what is lost: now and then they do not wait for a response. */
const impatient = { isRepeating: true, impatience: { oneIn: 20, withinMs: 100 } }

/** Longer than production's: on a shared machine PostgreSQL may take long to start. */
const deadlineMs = scaled(20_000)

const server = await startServer(t)
t.beforeEach(() => query(server.url, 'truncate plants'))

interface Scene {
  load: Load
  /** Resolves when an attempt to commit has failed since the fault began. */
  isNoticed(): Promise<unknown>
}

/** Runs a fault in the middle of a load on a service of its own; no client may see an error. */
async function prove(t: Test, databaseUrl: string, fault: (scene: Scene) => Promise<unknown>) {
  const service = await startService(t, { DATABASE_URL: databaseUrl, WRITE_DEADLINE_MS: String(deadlineMs) })
  const countFailures = async () => {
    const { values } = parseMetrics(await service.metrics())
    const { written, ...others } = values('plant_store_batch_duration_seconds_count')
    return Object.values(others).reduce((sum, count) => sum + count, 0)
  }
  const load = startRivals({ urls: [service.url], token, clients, ...impatient })
  t.teardown(() => load.stop())
  for (let round = 0; round < rounds; round++) {
    await load.succeed(creates)
    const before = await countFailures()
    const isNoticed = () =>
      until('an attempt fails', countFailures, (failures) => failures > before, 2 * deadlineMs)
    await fault({ load, isNoticed })
    await load.succeed(creates)
  }
  await assertNoErrors(t, server.url, await load.stop())
}

for (const signal of ['SIGKILL', 'SIGQUIT', 'SIGINT'] as const) {
  t.test(`PostgreSQL ends by ${signal} and starts again`, async (t) => {
    await prove(t, server.url, async ({ isNoticed }) => {
      await server.down(signal)
      await isNoticed()
      await server.up()
    })
  })
}

const terminate = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'plant-store'`

t.test('every backend is terminated, again and again', async (t) => {
  await prove(t, server.url, async ({ load }) => {
    for (let count = 0; count < 20; count++) {
      await query(server.url, terminate)
      await load.succeed(clients)
    }
  })
})

t.test('two replicas get the same ids while backends are terminated', async (t) => {
  const env = { DATABASE_URL: server.url, WRITE_DEADLINE_MS: String(deadlineMs) }
  const replicas = [await startService(t, env), await startService(t, env)]
  const load = startRivals({ urls: replicas.map(({ url }) => url), token, clients, ...impatient })
  t.teardown(() => load.stop())
  for (let count = 0; count < 10 * rounds; count++) {
    await query(server.url, terminate)
    await load.succeed(5 * clients)
  }
  await assertNoErrors(t, server.url, await load.stop())
})

t.test('PostgreSQL stands still until a statement is given up', async (t) => {
  await prove(t, server.url, async ({ isNoticed }) => {
    const pids = await query(
      server.url,
      `select pid from pg_stat_activity where application_name = 'plant-store'`
    )
    const stopped = pids.map(({ pid }) => pid)
    server.signal('SIGSTOP')
    for (const pid of stopped) process.kill(pid, 'SIGSTOP')
    await isNoticed()
    server.signal('SIGCONT')
    for (const pid of stopped) process.kill(pid, 'SIGCONT')
  })
})

t.test('the connection is cut between the commit and its response', async (t) => {
  const proxy = await startProxy(t, server.port)
  const url = new URL(server.url)
  url.port = String(proxy.port)
  await prove(t, url.href, async () => {
    // One after the other: rows share batches, and one batch must not lose them all.
    for (let count = 0; count < 20; count++) {
      proxy.lose(1)
      await until('a connection is cut', () => proxy.left() === 0)
    }
  })
})

t.test('the server is read-only for a while', async (t) => {
  const set = (value: string) => setServer(server.url, 'default_transaction_read_only', value)
  await prove(t, server.url, async ({ isNoticed }) => {
    await set('on')
    await isNoticed()
    await set('off')
  })
})

t.test('the service is killed by SIGKILL, and its clients repeat', async (t) => {
  const env = { DATABASE_URL: server.url, PORT: String(await freePort()) }
  let service = await startProcess(t, env)
  const load = startRivals({ urls: [service.url], token, clients, isRepeating: true })
  t.teardown(() => load.stop())
  for (let round = 0; round < rounds; round++) {
    await load.succeed(creates)
    service.kill('SIGKILL')
    await service.ended
    service = await startProcess(t, env)
    await load.succeed(creates)
  }
  await assertNoErrors(t, server.url, await load.stop())
})
