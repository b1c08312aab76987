/**
 * Each flood that the Internet can send, through the balancers as they are shipped: good clients from another address get
 * all their creates, quickly, and the service stays small.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { makeKey, startProvider } from '../../support/provider.ts'
import { headers, type Service, send, startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { balancers, isMissing } from './balancers.ts'
import { kid, kinds, type Report } from './flood.ts'

/** A client that a flood keeps out has no response in a minute. This leaves room for what else the machine does. */
const longestMedianMs = 10_000
const mostMegabytes = 500

/** The most memory that the process has had, in MB. */
const peakOf = ({ child }: Service) =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1_000

let lastId = 0

/** What good clients have had: how long each create took, in ms; what came in place of a success; how many repeats it took. */
interface Good {
  times: number[]
  failures: string[]
  repeats: number
}

/** How long a good client waits for a response, and repeats a create that got 503, in ms. */
const patienceMs = 60_000

/**
 * Starts good clients, each with a connection that it keeps, or with a new one for each create. They repeat after 503, as
 * docs/clients.md says: on a machine that is busy, the only instance can miss two checks of its health.
 */
function startClients(url: string, clients: number, keepAlive: boolean, pauseMs: number) {
  const agent = new Agent({ keepAlive, maxSockets: clients })
  const good: Good = { times: [], failures: [], repeats: 0 }
  let isStopped = false
  const post = (id: number) =>
    send(
      `${url}/plants`,
      {
        method: 'POST',
        headers: { ...headers, 'idempotency-key': `${id}` },
        agent,
        signal: AbortSignal.timeout(patienceMs)
      },
      `{"id":${id},"name":"n"}`
    ).catch((error) => ({ status: 0, body: String(error) }))
  const work = async () => {
    for (; !isStopped; await sleep(pauseMs)) {
      const id = ++lastId
      const began = performance.now()
      let reply = await post(id)
      for (
        ;
        reply.body.includes('"error":503') && performance.now() - began < patienceMs;
        good.repeats++
      ) {
        await sleep(100)
        reply = await post(id)
      }
      good.times.push(performance.now() - began)
      if (reply.status !== 200) good.failures.push(`${reply.status} ${reply.body}`)
    }
  }
  const workers = Array.from({ length: clients }, work)
  return {
    good,
    async stop() {
      isStopped = true
      await Promise.all(workers)
      agent.destroy()
      return good
    }
  }
}

/** The time of the create that this share of the others does not exceed. */
function share(times: number[], part: number) {
  const sorted = times.toSorted((a, b) => a - b)
  return Math.round(sorted[Math.floor(sorted.length * part)] ?? Number.NaN)
}
const describe = ({ times, failures, repeats }: Good) =>
  `${times.length} creates, ${failures.length} failed, ${repeats} repeats, p50 ${share(times, 0.5)} ms, p99 ${share(times, 0.99)} ms`

/** Starts a flood, and returns what ends it and says what it has had. */
async function startFlood(t: Test, url: string, kind: string) {
  const flood = spawn(process.execPath, [join(import.meta.dirname, 'flood.ts'), url, kind], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => flood.kill('SIGKILL'))
  await once(flood.stdout, 'data')
  return async (): Promise<Report> => {
    t.strictSame([flood.exitCode, flood.signalCode], [null, null], 'the flood goes on')
    flood.kill('SIGTERM')
    return JSON.parse(await text(flood.stdout))
  }
}

/** Starts the service, as users do with its own limits, and the balancer in front of it. */
async function startBoth(t: Test, start: (typeof balancers)[string]['start']) {
  const PORT = String(await freePort())
  const { settings } = await startProvider(t, { ...makeKey('RS256'), kid })
  const env = { PORT, WRITE_DEADLINE_MS: '', REQUEST_TIMEOUT_MS: '', ...settings }
  const service = await startService(t, env, { flags: ['--max-semi-space-size=16'] })
  const { url } = await start(t, [Number(PORT), await freePort()])
  await until('it serves', async () => (await fetch(`${url}/livez`)).ok)
  return { service, url }
}

type Start = (typeof balancers)[string]['start']

/** Floods for this long, in ms, with good clients meanwhile, of which some have connections from before. */
async function play(t: Test, start: Start, kind: string, { ms = 5_000, pauseMs = 0 } = {}) {
  const { service, url } = await startBoth(t, start)
  const kept = startClients(url, 4, true, pauseMs)
  await until('good clients are served', () => kept.good.times.length >= 100)
  const calmMs = share(kept.good.times, 0.5)
  const stopFlood = await startFlood(t, url, kind)
  await sleep(2_000)
  // Only what comes from now on is judged.
  kept.good.times = []
  const fresh = startClients(url, 2, false, pauseMs)
  await sleep(ms)
  const good = { kept: await kept.stop(), fresh: await fresh.stop() }
  const report = await stopFlood()
  const peak = Math.round(peakOf(service))
  const addresses = kinds[kind]?.connections.length
  t.comment(
    `${kind}, ${addresses} addresses: ${JSON.stringify(report)}; the service has ${peak} MB`
  )
  for (const [name, one] of Object.entries(good)) t.comment(`${name} connections: ${describe(one)}`)
  t.equal(service.child.exitCode, null, 'the service has not ended')
  t.ok(peak <= mostMegabytes, `${peak} MB are enough`)
  return { good, report, calmMs }
}

/** Asserts that good clients were served, in a time that grows with what a create takes without a flood. */
function assertServed(t: Test, { good, calmMs }: Awaited<ReturnType<typeof play>>) {
  for (const [name, { times, failures }] of Object.entries(good)) {
    t.strictSame(failures.slice(0, 3), [], `no create fails on ${name} connections`)
    t.ok(times.length > 0, `there are creates on ${name} connections`)
  }
  const median = share(
    Object.values(good).flatMap(({ times }) => times),
    0.5
  )
  const limit = longestMedianMs + 50 * calmMs
  t.ok(median <= limit, `half of them take ${median} ms, at most ${limit}`)
}

const [creates, refusals] = ['creates in a loop', 'refusals in a loop'] as const
const ofTokens = Object.keys(kinds).filter((kind) => kind.includes('tokens'))

for (const [title, { command, start }] of Object.entries(balancers))
  t.test(title, { skip: isMissing(command) }, async (t) => {
    for (const kind of Object.keys(kinds).filter(
      (kind) => kind !== creates && !ofTokens.includes(kind)
    ))
      await t.test(kind, async (t) => {
        // Kept connections send their second probe after 45 s.
        const played = await play(
          t,
          start,
          kind,
          kind.startsWith('kept') ? { ms: 55_000, pauseMs: 50 } : {}
        )
        assertServed(t, played)
        if (kind === refusals) t.ok(played.report.responses[429], 'the balancer refuses by itself')
      })
    await t.test('bad tokens cost good clients less than as many good ones', async (t) => {
      const beside = await play(t, start, creates, { ms: 10_000 })
      const count = ({ kept, fresh }: typeof beside.good) => kept.times.length + fresh.times.length
      for (const kind of ofTokens) {
        const played = await play(t, start, kind, { ms: 10_000 })
        const { good, report } = played
        assertServed(t, played)
        // They get several times as many. A quarter leaves room for what else the machine does in these seconds.
        t.ok(
          count(good) >= count(beside.good) / 4,
          `${kind}: ${count(good)} creates, beside good ones ${count(beside.good)}`
        )
        // nginx cannot count what the service refuses.
        if (title !== 'HAProxy') continue
        t.ok(report.responses[429], 'the balancer refuses by itself')
        // Each of four addresses has 500 in ten seconds, and those that were on their way.
        const { 401: bad = 0, 503: unknown = 0 } = report.responses
        t.ok(bad + unknown <= 8_000, 'it does not ask the service any more')
      }
    })
  })
