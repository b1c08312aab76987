/** Behind a real HAProxy: instances are restarted and killed under load, and no request is lost. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { assertHistory } from '../../harness/histories/assert-rows.ts'
import { startRivals } from '../../harness/histories/rivals.ts'
import { exchange, parseResponses, request } from '../../harness/http/raw.ts'
import { token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { startBalancer } from './balancer.ts'
import { ask, startInstances } from './instances.ts'

const clients = 32
/** Else most of the time goes into the load. */
const pauseMs = 30

/** Three instances behind HAProxy. */
async function startBehindHaproxy(t: Test, settings: Record<string, string> = {}, maxConnections?: number) {
  const { ports, databaseUrl, start, end } = await startInstances(t, 3, {
    // Two checks must have failed by then, also on a machine that stands still for a while.
    SHUTDOWN_DELAY_MS: String(scaled(7_000)),
    WRITE_DEADLINE_MS: '60000',
    ...settings
  })
  const balancer = await startBalancer(t, ports, maxConnections)
  return {
    ports,
    balancer,
    databaseUrl,
    async restart(port: number, signal: NodeJS.Signals) {
      const code = await end(port, signal)
      await start(port)
      await balancer.says(port, 'UP')
      return code
    }
  }
}

t.test('a rolling restart: no create fails, and each plant is stored once', async (t) => {
  const { ports, balancer, databaseUrl, restart } = await startBehindHaproxy(t)
  const load = startRivals({ urls: [balancer.url], token, clients, pauseMs })
  t.teardown(() => load.stop())
  for (const port of ports) {
    t.equal(await restart(port, 'SIGTERM'), 0, 'it drained and exited with 0')
    await load.succeed(100)
  }
  await assertHistory(t, databaseUrl, await load.stop())
})

t.test('an instance is killed: clients that repeat lose nothing', async (t) => {
  const { ports, balancer, databaseUrl, restart } = await startBehindHaproxy(t)
  const load = startRivals({ urls: [balancer.url], token, clients, pauseMs, isRepeating: true })
  t.teardown(() => load.stop())
  for (const port of ports) {
    await restart(port, 'SIGKILL')
    await load.succeed(100)
  }
  await assertHistory(t, databaseUrl, await load.stop())
})

t.test('an instance that takes longer for its checks than the time between them stays', async (t) => {
  let checks = 0
  const busy = createServer(async (_, response) => {
    checks++
    await sleep(1_500)
    response.end()
  })
  t.teardown(() => busy.close())
  await once(busy.listen(0, '127.0.0.1'), 'listening')
  const { port } = busy.address() as AddressInfo
  const balancer = await startBalancer(t, [port])
  await until('it has been checked some times', async () => checks >= 4)
  await balancer.says(port, 'UP')
})

t.test('more requests than the instances admit connections for wait in the balancer', async (t) => {
  // At each: four requests, four connections for the next ones, and a check.
  const { balancer, databaseUrl } = await startBehindHaproxy(t, { MAX_CONNECTIONS: '9' }, 4)
  const load = startRivals({ urls: [balancer.url], token, clients })
  t.teardown(() => load.stop())
  await load.succeed(2_000)
  await assertHistory(t, databaseUrl, await load.stop())
})

t.test('the contract holds through the balancer, and for its own responses', async (t) => {
  const { url } = (await startBehindHaproxy(t)).balancer
  const cases: [string, string, number][] = [
    ['a good request', ask('{"id":1,"name":"n"}'), 0],
    ['a duplicate', ask('{"id":1,"name":"n"}'), 409],
    ['no token', ask('{}', { authorization: undefined }), 401],
    ['an unknown path', ask('', {}, 'POST /nowhere HTTP/1.1'), 404],
    ['another method', ask('', {}, 'GET /plants HTTP/1.1'), 405],
    ['a body that is not JSON', ask('{'), 400]
  ]
  for (const [title, bytes, error] of cases) {
    const [response] = parseResponses(await exchange(url, [bytes]))
    t.equal(response?.headers['content-type'], 'application/json', title)
    t.equal(response?.status, error === 0 ? 200 : 400, title)
    const { error: found = 0, message, ...rest } = JSON.parse(response?.body ?? '')
    t.equal(found, error, title)
    if (error !== 0) t.strictSame([typeof message, rest], ['string', {}], title)
  }
  const kept = await exchange(url, [request('{"id":2,"name":"n"}'), /\}$/, ask('{"id":3,"name":"n"}')])
  t.equal(parseResponses(kept)[0]?.headers['keep-alive'], 'timeout=55', 'less than its own time-out')
  // What HAProxy cannot read as HTTP gets a page of its own, before any configuration counts.
  const unreadable = [
    request('{}', { x: 'x'.repeat(20_000) }),
    request('{}', { 'content-length': 'x' }),
    'garbage\r\n\r\n'
  ]
  // HTTP/2 by prior knowledge (RFC 9113, section 3.3), of which one connection holds a hundred requests.
  unreadable.push('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0')
  for (const bytes of unreadable) {
    const [response] = parseResponses(await exchange(url, [bytes]))
    t.equal(response?.status, 400)
  }
})

t.test("with every instance away the response is the balancer's, within the contract", async (t) => {
  const { url } = await startBalancer(t, [1, 2])
  const [response] = parseResponses(await exchange(url, [ask('{"id":1,"name":"n"}')]))
  t.equal(response?.status, 400)
  const fields = { 'retry-after': '1', 'error-name': 'Unavailable', 'write-outcome': 'none' }
  t.match(response?.headers, fields)
  t.strictSame(JSON.parse(response?.body ?? ''), {
    error: 503,
    message: 'the service cannot be reached; this request stored nothing; retry later'
  })
})
