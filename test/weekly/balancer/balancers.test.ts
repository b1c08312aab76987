/** Behind each balancer: what it passes on is unchanged, its own responses keep the contract, a rolling restart loses nothing. */
import t, { type Test } from 'tap'
import { assertHistory } from '../../support/histories/history.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { createDatabase } from '../../support/postgres/database.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { type FailureName, failureNumbers } from '../../support/responses.ts'
import { type Service, startService, token } from '../../support/service.ts'
import { exchange, parseResponses, request } from '../../support/sockets.ts'
import { until } from '../../support/until.ts'
import { type Balancer, balancers, isMissing, tls } from './balancers.ts'

/** A request whose connection the balancer closes after its response. */
const ask: typeof request = (body, head, start) => request(body, { connection: 'close', ...head }, start)

/** A request, and the name of its failure; "created" for a plant, none for a page of the balancer's own with the status 400. */
type Case = [title: string, bytes: string, outcome?: FailureName | 'created']

const cases: Case[] = [
  ['a good request', ask('{"id":-1,"name":"n"}'), 'created'],
  ['a duplicate', ask('{"id":-1,"name":"n"}'), 'DuplicatePlant'],
  ['no token', ask('{}', { authorization: undefined }), 'MissingToken'],
  ['an unknown path', ask('', {}, 'POST /nowhere HTTP/1.1'), 'NotFound'],
  ['a path with two slashes', ask('', {}, 'POST //plants HTTP/1.1'), 'NotFound'],
  ['an escaped slash', ask('', {}, 'POST /plants%2f1 HTTP/1.1'), 'NotFound'],
  ['another method', ask('', {}, 'GET /plants HTTP/1.1'), 'MethodNotAllowed'],
  ['a body that is not JSON', ask('{'), 'MalformedBody'],
  ['2 MB', ask(JSON.stringify({ id: 1, name: 'x'.repeat(2 ** 21) })), 'BodyTooLarge']
]

/** What a balancer refuses itself. */
const own: Record<string, Case[]> = {
  HAProxy: [
    // What it cannot read as HTTP gets its page before any configuration counts.
    ['a header that is too large', ask('', { x: 'x'.repeat(20_000) })],
    ['a length that is not a number', ask('{}', { 'content-length': 'x' })],
    ['garbage', 'garbage\r\n\r\n'],
    // By prior knowledge (RFC 9113, section 3.3): one connection would hold a hundred requests.
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0']
  ],
  nginx: [
    ['a body that is announced as too large', ask('{}', { 'content-length': '99999999' }), 'BodyTooLarge'],
    ['a header that is too large', ask('{}', { x: 'x'.repeat(40_000) }), 'MalformedRequest'],
    ['a length that is not a number', ask('{}', { 'content-length': 'x' }), 'MalformedRequest'],
    ['two hosts', ask('{}', { Host: 'a' }), 'MalformedRequest']
  ]
}

/** What it says when no instance is there. nginx does not tell a request that was sent from one that was not. */
const nobody: Record<string, [FailureName, outcome: string]> = {
  HAProxy: ['Unavailable', 'none'],
  nginx: ['OutcomeUnknown', 'unknown']
}

/** Sends a request, over TLS too, and checks what comes back. Returns the header fields. */
async function judge(t: Test, { url, tlsUrl }: Balancer, [title, bytes, outcome]: Case) {
  const [response] = parseResponses(await exchange(url, [bytes]))
  t.equal(response?.status, outcome === 'created' ? 200 : 400, title)
  if (outcome === undefined) return {}
  t.match(response?.headers, { 'content-type': 'application/json' }, title)
  if (tlsUrl) {
    const [encrypted] = parseResponses(await exchange(tlsUrl, [bytes.replace('"id":-1', '"id":-3')], { tls }))
    t.equal(encrypted?.headers['strict-transport-security'], 'max-age=31536000', title)
    t.equal(encrypted?.status, response?.status, title)
  }
  const { error, message, ...rest } = JSON.parse(response?.body ?? '')
  t.equal(error, outcome === 'created' ? undefined : failureNumbers[outcome], title)
  if (error) {
    t.strictSame([typeof message, rest], ['string', {}], title)
    t.equal(response?.headers['error-name'], outcome, title)
  }
  return response?.headers
}

for (const [title, { command, start }] of Object.entries(balancers)) {
  t.test(title, { skip: isMissing(command) }, async (t) => {
    const databaseUrl = await createDatabase(t)
    const instances = new Map<number, Service>()
    // Two checks must have failed by the end of the delay, also on a machine that stands still for a while.
    const settings = { DATABASE_URL: databaseUrl, WRITE_DEADLINE_MS: '60000', SHUTDOWN_DELAY_MS: '7000' }
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
    for (const one of [...cases, ...(own[title] as Case[])]) await judge(t, balancer, one)

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
    const [name, outcome] = nobody[title] as [FailureName, string]
    const headers = await judge(t, balancer, ['no instance', ask('{"id":2,"name":"n"}'), name])
    t.match(headers, { 'retry-after': '1', 'write-outcome': outcome })
  })
}
