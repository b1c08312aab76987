/** A real PostgreSQL that fails under load: acknowledged is stored, nothing is stored twice, and clients only wait. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freePort } from '../dev/embedded-postgres.ts'
import { query, setServer } from './support/database.ts'
import { assertStored, startLoad } from './support/load.ts'
import { startProxy } from './support/proxy.ts'
import { startServer } from './support/server.ts'
import { startService, token } from './support/service.ts'

/** How often each fault is repeated: more in `npm run test:faults`. */
const rounds = Number(process.env.FAULT_ROUNDS ?? 1)
const clients = 32
/** Requests before and after each fault. */
const requests = 1_000

/** Longer than production's: on a shared machine PostgreSQL may take long to start. */
const deadlineMs = 20_000
/** A statement has a third of the deadline, and its cancelling a second: both are over before it ends. */
const standstillMs = 8_000

type PostgresServer = Awaited<ReturnType<typeof startServer>>

/** Runs a fault in the middle of a load on a service of its own; no client may see an error. */
async function prove(t: Test, server: PostgresServer, databaseUrl: string, fault: () => Promise<unknown>) {
  const service = await startService(t, { DATABASE_URL: databaseUrl, WRITE_DEADLINE_MS: String(deadlineMs) })
  const load = startLoad({ url: () => service.url, clients })
  for (let round = 0; round < rounds; round++) {
    await load.answer(requests)
    await fault()
    await load.answer(requests)
  }
  const { failed } = await assertStored(t, server.url, await load.stop(), 2 * requests * rounds)
  t.strictSame(failed, [], 'no client saw an error')
}

for (const signal of ['SIGKILL', 'SIGQUIT', 'SIGINT'] as const) {
  t.test(`PostgreSQL is ended by ${signal} and started again`, async (t) => {
    const server = await startServer(t)
    await prove(t, server, server.url, async () => {
      await server.down(signal)
      await sleep(300)
      await server.up()
    })
  })
}

t.test('every backend is terminated, again and again', async (t) => {
  const server = await startServer(t)
  const terminate = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'plant-store'`
  await prove(t, server, server.url, async () => {
    for (let count = 0; count < 20; count++) {
      await query(server.url, terminate)
      await sleep(20)
    }
  })
})

t.test('PostgreSQL stands still for seconds', async (t) => {
  const server = await startServer(t)
  await prove(t, server, server.url, async () => {
    const pids = await query(
      server.url,
      `select pid from pg_stat_activity where application_name = 'plant-store'`
    )
    const stopped = pids.map(({ pid }) => pid)
    server.signal('SIGSTOP')
    for (const pid of stopped) process.kill(pid, 'SIGSTOP')
    await sleep(standstillMs)
    server.signal('SIGCONT')
    for (const pid of stopped) process.kill(pid, 'SIGCONT')
  })
})

t.test('the connection is cut between the commit and its answer', async (t) => {
  const server = await startServer(t)
  const proxy = await startProxy(t, server.port)
  const url = new URL(server.url)
  url.port = String(proxy.port)
  await prove(t, server, url.href, async () => {
    // One after the other: rows share batches, and one batch must not lose them all.
    for (let count = 0; count < 20; count++) {
      proxy.lose(1)
      while (proxy.left() > 0) await sleep(20)
    }
  })
})

t.test('the server is read-only for a while', async (t) => {
  const server = await startServer(t)
  const set = (value: string) => setServer(server.url, 'default_transaction_read_only', value)
  await prove(t, server, server.url, async () => {
    await set('on')
    await sleep(500)
    await set('off')
  })
})

t.test('the service is killed by SIGKILL, and its clients repeat by Idempotency-Key', async (t) => {
  const server = await startServer(t)
  const port = await freePort()
  let child = await startProcess(t, server.url, port)
  const load = startLoad({ url: () => `http://127.0.0.1:${port}`, clients, isKeyed: true })
  for (let round = 0; round < rounds; round++) {
    await load.answer(requests)
    child.kill('SIGKILL')
    await once(child, 'exit')
    child = await startProcess(t, server.url, port)
    await load.answer(requests)
  }
  const { failed } = await assertStored(t, server.url, await load.stop(), 2 * requests * rounds)
  t.strictSame(failed, [], 'every repeat was answered as the first would have been')
})

async function startProcess(t: Test, databaseUrl: string, port: number) {
  const child = spawn(process.execPath, ['src/server.ts'], {
    env: {
      ...process.env,
      DATABASE_URL: databaseUrl,
      AUTH_TOKENS: `tester:${token}`,
      HOST: '127.0.0.1',
      PORT: String(port),
      METRICS_PORT: '0'
    },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout })
  await once(lines, 'line')
  lines.on('line', () => {})
  return child
}
