/** Behind a real HAProxy: instances that are killed, slow, or full, and the time for which it keeps a connection. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { assertHistory } from '../../support/histories/assert-rows.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { exchange, parseResponses, request } from '../../support/sockets.ts'
import { token } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { startHaproxy } from './haproxy.ts'
import { ask, startInstances } from './instances.ts'

const clients = 32

/** Three instances behind HAProxy. */
async function startBehindHaproxy(t: Test, settings: Record<string, string> = {}, maxConnections?: number) {
  const instances = await startInstances(t, 3, settings)
  return { ...instances, balancer: await startHaproxy(t, instances.ports, maxConnections) }
}

t.test('an instance is killed: clients that repeat lose nothing', async (t) => {
  const { ports, balancer, databaseUrl, start, end } = await startBehindHaproxy(t)
  const load = startRivals({ urls: [balancer.url], token, clients, pauseMs: 30, isRepeating: true })
  t.teardown(() => load.stop())
  for (const port of ports) {
    await end(port, 'SIGKILL')
    await start(port)
    await balancer.isUp(port)
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
  const balancer = await startHaproxy(t, [port])
  await until('it has been checked some times', async () => checks >= 4)
  await balancer.isUp(port)
})

t.test('more requests than the instances admit connections for wait in the balancer', async (t) => {
  // At each: four requests, four connections for the next ones, and a check.
  const { balancer, databaseUrl } = await startBehindHaproxy(t, { MAX_CONNECTIONS: '9' }, 4)
  const load = startRivals({ urls: [balancer.url], token, clients })
  t.teardown(() => load.stop())
  await load.succeed(2_000)
  await assertHistory(t, databaseUrl, await load.stop())
})

t.test('a connection is kept for less time than clients are told', async (t) => {
  const { balancer } = await startBehindHaproxy(t)
  const bytes = [request('{"id":2,"name":"n"}'), /\}$/, ask('{"id":3,"name":"n"}')]
  const [kept] = parseResponses(await exchange(balancer.url, bytes))
  t.equal(kept?.headers['keep-alive'], 'timeout=55')
})
