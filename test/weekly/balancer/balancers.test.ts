/** Behind each balancer a rolling restart loses nothing, and what it says itself keeps the contract, over TLS too. */
import t, { type Test } from 'tap'
import { assertHistory } from '../../support/histories/history.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { createDatabase } from '../../support/postgres/database.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { type Service, startService, token } from '../../support/service.ts'
import { exchange, parseResponses, request } from '../../support/sockets.ts'
import { until } from '../../support/until.ts'
import { type Balancer, balancers, isMissing, tls } from './balancers.ts'

/** What a balancer says when no instance is there. nginx does not tell a request that was sent from one that was not. */
const nobody: Record<string, object> = {
  HAProxy: { 'error-name': 'Unavailable', 'write-outcome': 'none' },
  nginx: { 'error-name': 'OutcomeUnknown', 'write-outcome': 'unknown' }
}

/** Sends a create, over TLS too where it is spoken, and returns the responses. */
async function create(t: Test, { url, tlsUrl }: Balancer, id: number) {
  const bytes = (id: number) => request(`{"id":${id},"name":"n"}`, { connection: 'close' })
  const replies = [await exchange(url, [bytes(id)])]
  if (tlsUrl) replies.push(await exchange(tlsUrl, [bytes(id - 1)], { tls }))
  const [response, encrypted] = replies.flatMap((reply) => parseResponses(reply))
  if (encrypted) t.equal(encrypted.headers['strict-transport-security'], 'max-age=31536000')
  if (encrypted) t.equal(encrypted.body, response?.body)
  return response
}

for (const [title, { command, start }] of Object.entries(balancers)) {
  t.test(title, { skip: isMissing(command) }, async (t) => {
    const databaseUrl = await createDatabase(t)
    const instances = new Map<number, Service>()
    // Two checks must have failed by the end of the delay, also on a machine that stands still for a while.
    const settings = {
      DATABASE_URL: databaseUrl,
      WRITE_DEADLINE_MS: '60000',
      SHUTDOWN_DELAY_MS: '7000'
    }
    const startAt = async (port: number) => {
      instances.set(port, await startService(t, { ...settings, PORT: String(port) }))
    }
    const end = (port: number, signal: NodeJS.Signals) => {
      const instance = instances.get(port) as Service
      instance.kill(signal)
      return instance.ended
    }
    const ports = [await freePort(), await freePort()]
    for (const port of ports) await startAt(port)

    const balancer = await start(t, ports)
    await until('an instance serves', async () => (await fetch(`${balancer.url}/livez`)).ok)
    t.match(await create(t, balancer, -1), { status: 200, body: '{"name":"n"}' })

    const script = `GET /docs/static/swagger-ui-bundle.js HTTP/1.1`
    const get = request(
      '',
      { 'content-length': undefined, 'accept-encoding': 'gzip', connection: 'close' },
      script
    )
    const compressed = await exchange(balancer.url, [get])
    t.match(
      compressed.toString('latin1', 0, 1_000),
      /^HTTP\/1.1 200 OK\r\n(?s:.*)content-encoding: gzip\r\n/i
    )
    t.ok(compressed.length < 800_000, `the script of /docs takes ${compressed.length} bytes`)

    const load = startRivals({ urls: [balancer.url], token, clients: 16, pauseMs: 10 })
    t.teardown(() => load.stop())
    await load.succeed(200)
    for (const port of ports) {
      await balancer.leave?.(port)
      t.equal((await end(port, 'SIGTERM')).code, 0, 'it drained and exited with 0')
      await load.succeed(200)
      await startAt(port)
      await balancer.comeBack?.(port)
      await instances.get(port)?.output(/"failure":0,/)
      await load.succeed(200)
    }
    await assertHistory(t, databaseUrl, await load.stop())

    for (const port of ports) await end(port, 'SIGKILL')
    const refused = await create(t, balancer, -3)
    t.match(refused, {
      status: 400,
      headers: { 'content-type': 'application/json', 'retry-after': '1' }
    })
    t.match(refused?.headers, nobody[title] as object)
    t.equal(JSON.parse(refused?.body as string).error, 503)
  })
}
