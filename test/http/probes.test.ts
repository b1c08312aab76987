/** Probes: alive whatever the database does, ready only when plants can be created. */
import type { Socket } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import { scaled } from '../../dev/slowness.ts'
import { until } from '../../dev/until.ts'
import probes from '../../src/http/probes.ts'
import { createDatabase, query, setServer } from '../support/database.ts'
import { listen } from '../support/listen.ts'
import { startServer } from '../support/server.ts'
import { everyResponse, failure, read, startService } from '../support/service.ts'

const retry = { 'retry-after': '1' }
const notReady = (message: string) => failure(503, message, retry)

const probe = async (url: string, path: string, init?: RequestInit) => {
  const { status, body } = await read(await fetch(`${url}${path}`, init))
  return `${status} ${body}`
}
const alive = '200 {"status":"alive"}'
const ready = '200 {"status":"ready"}'

/** Probes until the response is this one; a result is kept for a second. */
const becomes = (url: string, expected: string) =>
  until(
    `readiness is ${expected}`,
    () => probe(url, '/readyz'),
    (response) => response === expected
  )

const text = ({ status, body }: { status: number; body: string }) => `${status} ${body}`

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
    t.strictSame(response, failure(405, 'this path does not have this method', { allow: 'GET, HEAD' }))
  }
})

t.test('readiness follows the database; liveness does not ask it', async (t) => {
  const server = await startServer(t)
  const { url } = await startService(t, { DATABASE_URL: server.url, WRITE_DEADLINE_MS: '1500' })
  t.equal(await becomes(url, ready), ready)
  await server.down()
  const away = notReady('the database cannot be reached')
  t.equal(await becomes(url, text(away)), text(away))
  t.strictSame(await read(await fetch(`${url}/readyz`)), away)
  t.equal(await probe(url, '/livez'), alive)
  await server.up()
  t.equal(await becomes(url, ready), ready)
  await setServer(server.url, 'default_transaction_read_only', 'on')
  const readOnly = notReady('the database is read-only')
  t.equal(await becomes(url, text(readOnly)), text(readOnly))
})

t.test('a database that stands still is not waited for', async (t) => {
  const server = await startServer(t)
  const { url } = await startService(t, { DATABASE_URL: server.url })
  const pids = await query(server.url, 'select pg_backend_pid() as pid')
  t.equal(pids.length, 1)
  server.signal('SIGSTOP')
  const began = performance.now()
  const away = notReady('the database cannot be reached')
  t.equal(await probe(url, '/readyz'), text(away))
  t.ok(performance.now() - began < scaled(15_000))
  server.signal('SIGCONT')
  t.equal(await becomes(url, ready), ready)
})

t.test(
  'a server that takes connections and says nothing is not waited for, however long creates may',
  async (t) => {
    const sockets: Socket[] = []
    const { url } = await startService(t, {
      DATABASE_URL: await listen(t, (socket) => void sockets.push(socket)),
      WRITE_DEADLINE_MS: '90000'
    })
    const began = performance.now()
    t.strictSame(await read(await fetch(`${url}/readyz`)), notReady('the database cannot be reached'))
    t.ok(performance.now() - began < scaled(20_000))
    // Or the service would wait for them when it closes.
    for (const socket of sockets) socket.destroy()
  }
)

t.test('a table that is not migrated is not ready', async (t) => {
  const { url } = await startService(t, { DATABASE_URL: await createDatabase(t, { migrated: false }) })
  t.strictSame(await read(await fetch(`${url}/readyz`)), notReady('the database is not migrated'))
})

t.test('a table that the service may not read is not ready', async (t) => {
  const { url } = await startService(t, {
    DATABASE_URL: `${await createDatabase(t)}?options=-c%20role%3Dpg_monitor`
  })
  const response = notReady('the database does not let the service read its table')
  t.strictSame(await read(await fetch(`${url}/readyz`)), response)
})

t.test('1,000 probes at once ask the database once, and a probe a second later once more', async (t) => {
  let asked = 0
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>()
  const app = Fastify()
  t.teardown(() => app.close())
  app.decorate('isDraining', false)
  await app.register(probes, {
    checkReadiness: () => {
      asked++
      return gate
    }
  })
  const ask = () => app.inject('/readyz').then(({ statusCode, body }) => `${statusCode} ${body}`)
  const responses = Array.from({ length: 1_000 }, ask)
  await until('the database is asked', () => asked > 0)
  letGo()
  for (const response of await Promise.all(responses)) t.equal(response, ready)
  // More than one where the machine has stood still for a second.
  t.ok(asked < 10, `asked ${asked} times`)
  const before = asked
  await until('the database is asked again', ask, () => asked > before)
  t.equal(await ask(), ready)
  t.equal(asked, before + 1)
})
