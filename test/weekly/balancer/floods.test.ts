/**
 * Each flood that the Internet can send, through the balancers as they are shipped: good clients from another address get
 * all their creates, quickly, and the service stays small. FLOODS_DIRECT=1 measures the service itself,
 * which promises less.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { post, type Service, startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { balancers, isMissing } from './balancers.ts'

/** FLOODS names some alone, with commas between. */
const floods = process.env.FLOODS?.split(',') ?? [
  'idle connections',
  'slow headers',
  'refusals in a loop',
  'slow bodies',
  'slow chunked bodies',
  'nested values',
  'pipelines',
  'pipelines that read nothing',
  'responses that are not read'
]
const goodClients = 4
const floodMs = 5_000
const longestMedianMs = 250
const mostMegabytes = 300

/** Creates one after the other for some seconds; returns the durations in ms, and what was not 200. */
async function createGood(url: string, agent: Agent) {
  const durations: number[] = []
  const failures: string[] = []
  const end = performance.now() + floodMs
  let lastId = 0
  const work = async () => {
    do {
      const began = performance.now()
      const answer = await post(`${url}/plants`, { id: ++lastId, name: 'good' }, { agent }).catch(
        ({ message }: Error) => ({ status: 0, body: message })
      )
      durations.push(performance.now() - began)
      if (answer.status !== 200) failures.push(answer.body)
    } while (performance.now() < end)
  }
  await Promise.all(Array.from({ length: goodClients }, work))
  return { durations: durations.sort((a, b) => a - b), failures }
}

/** The most memory that the process has had, in MB. */
const peakOf = ({ child }: Service) =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1_000

async function judge(t: Test, service: Service, url: string, kind: string) {
  const flood = spawn(process.execPath, [join(import.meta.dirname, 'flood.ts'), url, kind], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const ended = once(flood, 'exit')
  t.teardown(() => flood.kill('SIGKILL'))
  await once(flood.stdout, 'data')
  await sleep(2_000)
  const agent = new Agent({ keepAlive: true })
  const { durations, failures } = await createGood(url, agent)
  const median = Math.round(durations[durations.length >> 1] as number)
  const last = Math.round(durations.at(-1) as number)
  const peak = Math.round(peakOf(service))
  t.comment(
    `${kind}: ${durations.length} creates, ${failures.length} failed, p50 ${median} ms, slowest ${last} ms, ${peak} MB`
  )
  if (!process.env.FLOODS_DIRECT) {
    t.strictSame(failures.slice(0, 3), [], 'no good create fails')
    t.equal(service.child.exitCode, null, 'the service has not ended')
    t.ok(median <= longestMedianMs, `half of them take ${median} ms at most`)
    t.ok(peak <= mostMegabytes, `${peak} MB are enough`)
  }
  t.strictSame([flood.exitCode, flood.signalCode], [null, null], 'the flood goes on')
  flood.kill('SIGKILL')
  await ended
  agent.destroy()
}

const direct = {
  command: 'node',
  start: async (_: Test, [port]: number[]) => ({ url: `http://127.0.0.1:${port}` })
}
for (const [title, { command, start }] of Object.entries(process.env.FLOODS_DIRECT ? { direct } : balancers))
  t.test(title, { skip: isMissing(command) }, async (t) => {
    for (const kind of floods)
      await t.test(kind, async (t) => {
        const PORT = String(await freePort())
        // As users start it: with its own limits.
        const env = { PORT, WRITE_DEADLINE_MS: '', REQUEST_TIMEOUT_MS: '' }
        const service = await startService(t, env, { flags: ['--max-semi-space-size=16'] })
        const { url } = await start(t, [Number(PORT), await freePort()])
        await until('it serves', async () => (await fetch(`${url}/livez`)).ok)
        await judge(t, service, url, kind)
      })
  })
