/** Probes: what an orchestrator asks from a pod's start to its end, also while the database is away. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { setServer } from '../../harness/postgres/database.ts'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { startServer } from '../../harness/postgres/server.ts'
import { start } from '../../harness/service/process.ts'
import {
  everyResponse,
  failure,
  patientSettings,
  post,
  read,
  startService,
  token
} from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'

const readOnly = 'default_transaction_read_only'

/** Passes connections on to a port; returns its own, and how many there were. */
async function startRelay(t: Test, target: number) {
  const relay = { port: 0, connections: 0 }
  const server = createServer((client) => {
    relay.connections++
    const database = connect(target, '127.0.0.1')
    for (const socket of [client, database]) {
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        database.destroy()
      })
    }
    client.pipe(database).pipe(client)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  relay.port = (server.address() as AddressInfo).port
  return relay
}

t.test('probes need no token and no BASE_PATH, and have only GET and HEAD', async (t) => {
  const { url } = await startService(t, { BASE_PATH: '/v1' })
  for (const [path, body] of [
    ['/livez', '{"status":"alive"}'],
    ['/readyz', '{"status":"ready"}']
  ]) {
    const success = { status: 200, headers: everyResponse }
    t.strictSame(await read(await fetch(`${url}${path}`)), { ...success, body })
    t.strictSame(await read(await fetch(`${url}${path}`, { method: 'HEAD' })), { ...success, body: '' })
    const response = await read(await fetch(`${url}${path}`, { method: 'POST', body: 'x' }))
    t.strictSame(response, failure(405, 'this path does not support this method', { allow: 'GET, HEAD' }))
  }
})

t.test('from a start in an outage to the end: the database decides on the start alone', async (t) => {
  const server = await startServer(t)
  await setServer(server.url, readOnly, 'on')
  const relay = await startRelay(t, server.port)
  const asked = async (what: string) => {
    const enough = relay.connections + 3
    await until(what, () => relay.connections >= enough)
    await t.rejects(fetch(`${url}/livez`), 'the startup probe fails')
  }
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const pod = start(t, ['src/server.ts'], {
    ...patientSettings,
    HOST: '127.0.0.1',
    PORT: String(port),
    DATABASE_URL: server.url.replace(`:${server.port}`, `:${relay.port}`),
    AUTH_TOKENS: `tester:${token}`,
    STARTUP_TIMEOUT_MS: String(scaled(600_000)),
    SHUTDOWN_DELAY_MS: String(scaled(5_000))
  })
  const statuses = async () => [
    (await fetch(`${url}/livez`)).status,
    (await read(await fetch(`${url}/readyz`))).status
  ]
  let id = 0
  const create = () => post(`${url}/plants`, { id: ++id, name: 'Fern' })

  await asked('the pod has asked the read-only server repeatedly')
  await server.down()
  await asked('the pod has asked the absent server repeatedly')
  await server.up()
  await setServer(server.url, readOnly, 'off')
  await pod.output(/Server listening/)
  t.strictSame(await statuses(), [200, 200])
  t.equal((await create()).status, 200)

  await server.down()
  const waiting = create()
  t.strictSame(await statuses(), [200, 200], 'an outage leaves it in its Service')
  await server.up()
  t.equal((await waiting).status, 200, 'a create waits')

  await setServer(server.url, readOnly, 'on')
  const refused = create()
  t.strictSame(await statuses(), [200, 200], 'so does a server that has become a standby')
  await setServer(server.url, readOnly, 'off')
  t.equal((await refused).status, 200)

  pod.kill('SIGTERM')
  await pod.output(/reporting not ready/)
  t.strictSame(await statuses(), [200, 400])
  t.equal((await create()).status, 200, 'it serves while balancers notice')
  t.equal((await pod.ended).code, 0)
})
