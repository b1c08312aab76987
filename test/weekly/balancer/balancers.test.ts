/** Behind each balancer: what it passes on is unchanged, its own responses keep the contract, a rolling restart loses nothing. */
import t, { type Test } from 'tap'
import { assertHistory } from '../../support/histories/assert-rows.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { exchange, parseResponses } from '../../support/sockets.ts'
import { token } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { catalogue, type FailureName } from '../../../src/failures/catalogue.ts'
import { type Balancer, balancers, tls } from './balancers.ts'
import { ask, startInstances } from './instances.ts'
import { isMissing } from './program.ts'

/** A request, and the number of its failure; 0 for a plant, none for a page of the balancer's own with the status 400. */
type Case = [title: string, bytes: string, error?: number]

const cases: Case[] = [
  ['a good request', ask('{"id":-1,"name":"n"}'), 0],
  ['a duplicate', ask('{"id":-1,"name":"n"}'), 409],
  ['no token', ask('{}', { authorization: undefined }), 401],
  ['an unknown path', ask('', {}, 'POST /nowhere HTTP/1.1'), 404],
  ['a path with two slashes', ask('', {}, 'POST //plants HTTP/1.1'), 404],
  ['an escaped slash', ask('', {}, 'POST /plants%2f1 HTTP/1.1'), 404],
  ['another method', ask('', {}, 'GET /plants HTTP/1.1'), 405],
  ['a body that is not JSON', ask('{'), 400],
  ['2 MB', ask(JSON.stringify({ id: 1, name: 'x'.repeat(2 ** 21) })), 413]
]

/** What a balancer refuses itself. */
const own: Record<string, Case[]> = {
  HAProxy: [
    // What it cannot read as HTTP gets its page before any configuration counts.
    ['a header that is too large', ask('{}', { x: 'x'.repeat(20_000) })],
    ['a length that is not a number', ask('{}', { 'content-length': 'x' })],
    ['garbage', 'garbage\r\n\r\n'],
    // By prior knowledge (RFC 9113, section 3.3): one connection would hold a hundred requests.
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0']
  ],
  nginx: [
    ['a body that is announced as too large', ask('{}', { 'content-length': '99999999' }), 413],
    ['a header that is too large', ask('{}', { x: 'x'.repeat(40_000) }), 400],
    ['a length that is not a number', ask('{}', { 'content-length': 'x' }), 400],
    ['two hosts', ask('{}', { Host: 'a' }), 400]
  ]
}

/** What it says when no instance is there. nginx does not tell a request that was sent from one that was not. */
const nobody: Record<string, Record<string, string>> = {
  HAProxy: {
    'error-name': 'Unavailable',
    'write-outcome': 'none',
    message: 'the service cannot be reached; this request stored nothing; retry later'
  },
  nginx: {
    'error-name': 'OutcomeUnknown',
    'write-outcome': 'unknown',
    message: 'the service cannot be reached: the plant may have been stored; repeat the same request'
  }
}

/** Sends a request, over TLS too, and checks what comes back. Returns the fields and the message of a failure. */
async function judge(t: Test, { url, tlsUrl }: Balancer, [title, bytes, error]: Case) {
  const [response] = parseResponses(await exchange(url, [bytes]))
  t.equal(response?.status, error === 0 ? 200 : 400, title)
  if (error === undefined) return {}
  t.match(response?.headers, { 'content-type': 'application/json' }, title)
  t.notOk(response?.headers['strict-transport-security'], title)
  if (tlsUrl) {
    const [encrypted] = parseResponses(await exchange(tlsUrl, [bytes.replace('"id":-1', '"id":-3')], { tls }))
    t.equal(encrypted?.headers['strict-transport-security'], 'max-age=31536000', title)
    t.equal(encrypted?.status, response?.status, title)
  }
  const { error: found = 0, message, ...rest } = JSON.parse(response?.body ?? '')
  t.equal(found, error, title)
  if (error !== 0) t.strictSame([typeof message, rest], ['string', {}], title)
  return { ...response?.headers, message }
}

t.jobs = 5 // all: they mostly wait
for (const [title, { command, start }] of Object.entries(balancers)) {
  t.test(title, { skip: isMissing(command), buffered: true }, async (t) => {
    // Two checks must have failed by then, also on a machine that stands still for a while.
    const settings = { SHUTDOWN_DELAY_MS: String(7_000) }
    const instances = await startInstances(t, 2, settings)
    const { databaseUrl, ports } = instances
    const balancer = await start(t, ports)
    await until('an instance serves', async () => (await fetch(`${balancer.url}/livez`)).ok)
    for (const one of cases) await judge(t, balancer, one)
    for (const one of own[title] ?? []) {
      const { 'error-name': name } = (await judge(t, balancer, one)) as { 'error-name'?: FailureName }
      if (name) t.equal(catalogue[name].error, one[2], one[0])
    }
    const load = startRivals({ urls: [balancer.url], token, clients: 16, pauseMs: 10 })
    t.teardown(() => load.stop())
    await load.succeed(200)
    for (const port of ports) {
      await balancer.leave?.(port)
      t.equal(await instances.end(port, 'SIGTERM'), 0, 'it drained and exited with 0')
      await load.succeed(200)
      const next = await instances.start(port)
      await balancer.comeBack?.(port)
      await next.output(/"msg":"created"/)
      await load.succeed(200)
    }
    await assertHistory(t, databaseUrl, await load.stop())
    if (!(title in own)) return
    for (const port of ports) await instances.end(port, 'SIGKILL')
    const none = await judge(t, balancer, ['no instance', ask('{"id":2,"name":"n"}'), 503])
    t.match(none, { 'retry-after': '1', ...nobody[title] })
  })
}
