/** Behind a real HAProxy: instances are restarted and killed under load, and no request is lost. */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freePort } from '../../dev/embedded-postgres.ts'
import { createDatabase, query } from '../support/database.ts'
import { assertStored, startLoad } from '../support/load.ts'
import { type Running, start } from '../support/process.ts'
import { exchange, parseAnswers, request } from '../support/raw.ts'
import { token } from '../support/service.ts'
import { startBalancer } from './balancer.ts'

const clients = 32

/** A request whose connection the balancer closes behind its answer. */
const ask: typeof request = (body, head, start) => request(body, { connection: 'close', ...head }, start)

/** Three instances on ports of their own, each of which can be started again. */
async function startInstances(t: Test, databaseUrl: string) {
  const ports = await Promise.all([freePort(), freePort(), freePort()])
  const launch = async (port: number) => {
    const instance = start(t, ['src/server.ts'], {
      DATABASE_URL: databaseUrl,
      AUTH_TOKENS: `tester:${token}`,
      HOST: '127.0.0.1',
      PORT: String(port),
      // Two checks must have failed by then, also on a machine that stands still for a while.
      SHUTDOWN_DELAY_MS: '7000',
      WRITE_DEADLINE_MS: '60000',
      SHUTDOWN_TIMEOUT_MS: '100000'
    })
    await instance.output(/Server listening/)
    return instance
  }
  const instances = new Map<number, Running>()
  for (const port of ports) instances.set(port, await launch(port))
  return {
    ports,
    async restart(port: number, signal: NodeJS.Signals) {
      const instance = instances.get(port) as Running
      instance.kill(signal)
      const { code } = await instance.ended
      instances.set(port, await launch(port))
      await sleep(1_500) // the balancer notices
      return code
    }
  }
}

t.test('a rolling restart: every request is answered 200, and once', async (t) => {
  const databaseUrl = await createDatabase(t)
  const { ports, restart } = await startInstances(t, databaseUrl)
  const url = await startBalancer(t, ports)
  const load = startLoad({ url: () => url, clients })
  t.teardown(() => load.stop())
  for (const port of ports) t.equal(await restart(port, 'SIGTERM'), 0, 'it drained and exited with 0')
  await load.answer(100)
  const { failed } = await assertStored(t, databaseUrl, await load.stop(), 1_000)
  t.strictSame(failed, [], 'no client saw an error')
})

t.test('an instance is killed: clients that repeat by Idempotency-Key lose nothing', async (t) => {
  const databaseUrl = await createDatabase(t)
  const { ports, restart } = await startInstances(t, databaseUrl)
  const url = await startBalancer(t, ports)
  const load = startLoad({ url: () => url, clients, isKeyed: true })
  t.teardown(() => load.stop())
  for (const port of ports) await restart(port, 'SIGKILL')
  await load.answer(100)
  const { failed } = await assertStored(t, databaseUrl, await load.stop(), 300)
  t.strictSame(failed, [], 'every repeat was answered as the first would have been')
})

t.test('the contract holds through the balancer, and for its own answers', async (t) => {
  const databaseUrl = await createDatabase(t)
  const { ports } = await startInstances(t, databaseUrl)
  const url = await startBalancer(t, ports)
  const cases: [string, string, number][] = [
    ['a good request', ask('{"id":1,"name":"n"}'), 0],
    ['a duplicate', ask('{"id":1,"name":"n"}'), 409],
    ['no token', ask('{}', { authorization: undefined }), 401],
    ['an unknown path', ask('', {}, 'POST /nowhere HTTP/1.1'), 404],
    ['another method', ask('', {}, 'GET /plants HTTP/1.1'), 405],
    ['a body that is not JSON', ask('{'), 400]
  ]
  for (const [title, bytes, error] of cases) {
    const [answer] = parseAnswers(await exchange(url, [bytes], { waitMs: 60_000 }))
    t.equal(answer?.headers['content-type'], 'application/json', title)
    t.equal(answer?.status, error === 0 ? 200 : 400, title)
    const { error: found = 0, message, ...rest } = JSON.parse(answer?.body ?? '')
    t.equal(found, error, title)
    if (error !== 0) t.strictSame([typeof message, rest], ['string', {}], title)
  }
  // What HAProxy cannot read as HTTP it answers before any configuration counts, with a page of its own.
  const unreadable = [
    request('{}', { x: 'x'.repeat(20_000) }),
    request('{}', { 'content-length': 'x' }),
    'garbage\r\n\r\n'
  ]
  for (const bytes of unreadable) {
    const [answer] = parseAnswers(await exchange(url, [bytes], { waitMs: 60_000 }))
    t.equal(answer?.status, 400)
  }
})

t.test('with every instance away the balancer answers within the contract', async (t) => {
  const url = await startBalancer(t, [1, 2])
  const [answer] = parseAnswers(await exchange(url, [ask('{"id":1,"name":"n"}')], { waitMs: 60_000 }))
  t.equal(answer?.status, 400)
  t.equal(answer?.headers['retry-after'], '1')
  t.strictSame(JSON.parse(answer?.body ?? ''), {
    error: 503,
    message: 'the service cannot be reached, this request has stored nothing: try again'
  })
})

t.test('with every instance unready the balancer asks one all the same', async (t) => {
  const databaseUrl = await createDatabase(t)
  const { ports } = await startInstances(t, databaseUrl)
  const url = await startBalancer(t, ports)
  await query(databaseUrl, 'alter table plants rename to gone')
  await sleep(4_000) // every server is down by then: two checks, a second apart, of an answer that is kept for one
  const [answer] = parseAnswers(await exchange(url, [ask('{"id":1,"name":"n"}')], { waitMs: 60_000 }))
  t.strictSame(JSON.parse(answer?.body ?? ''), { error: 500, message: 'internal error' })
})
