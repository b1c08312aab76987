/**
 * Each flood that the Internet can send, through the balancers as they are shipped: good clients from another address get
 * all their creates, quickly, and the service stays small.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startRivals } from '../../support/histories/rivals.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { type Service, startService, token } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { balancers, isMissing } from './balancers.ts'
import { kinds } from './flood.ts'

const floodMs = 5_000
const longestMedianMs = 2_000
const mostMegabytes = 500

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
  const load = startRivals({ urls: [url], token, clients: 4 })
  await sleep(floodMs)
  const { operations, failed } = await load.stop()
  const durations = operations.map(({ began, ended = Number.NaN }) => ended - began).sort((a, b) => a - b)
  const median = Math.round(durations[durations.length >> 1] as number)
  const peak = Math.round(peakOf(service))
  t.comment(`${kind}: ${durations.length} creates, p50 ${median} ms, ${peak} MB`)
  t.strictSame(failed.slice(0, 3), [], 'no good create fails')
  t.equal(service.child.exitCode, null, 'the service has not ended')
  t.ok(median <= longestMedianMs, `half of them take ${median} ms at most`)
  t.ok(peak <= mostMegabytes, `${peak} MB are enough`)
  t.strictSame([flood.exitCode, flood.signalCode], [null, null], 'the flood goes on')
  flood.kill('SIGKILL')
  await ended
}

for (const [title, { command, start }] of Object.entries(balancers))
  t.test(title, { skip: isMissing(command) }, async (t) => {
    for (const kind of Object.keys(kinds))
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
