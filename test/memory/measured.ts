/** The service in a process whose memory a test can look into. */
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createDatabase } from '../../harness/postgres/database.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import { startProcess } from '../../harness/service/process.ts'
import type { Teardown } from '../../harness/teardown.ts'
import { is, until } from '../../harness/time/until.ts'
import type { Holdings } from './report-held.ts'

/** Half of the memory that the container has in docker-compose.yml, in MB. */
export const smallHeapMb = 256

/** What is on its way out, such as a response that was just taken, is gone after a few looks. */
const mostLooks = 10
const lookEveryMs = 100
const noiseBytes = 65_536

const preload = join(import.meta.dirname, 'report-held.ts')

/** Settings with which nothing ends by itself while a slow machine opens one connection after the other. */
export const patience = {
  HEADERS_TIMEOUT_MS: '600000',
  REQUEST_TIMEOUT_MS: '600000',
  WRITE_DEADLINE_MS: '600000',
  SHUTDOWN_TIMEOUT_MS: '3600000'
}

/** The service in a process of its own. */
export type Measured = Awaited<ReturnType<typeof startMeasured>>

/** Starts the service with a heap of `heapMb` on a database of its own; `env` adds to its settings. Ends it at teardown. */
export async function startMeasured(
  t: Teardown,
  env: Record<string, string> = {},
  { heapMb = smallHeapMb } = {}
) {
  const databaseUrl = env.DATABASE_URL ?? (await createDatabase(t))
  const flags = [`--max-old-space-size=${heapMb}`, '--expose-gc', `--import=${preload}`]
  const service = await startProcess(t, { DATABASE_URL: databaseUrl, ...env }, flags)
  const { child } = service
  const [, metricsUrl = ''] = await service.output(/Metrics at (http:[^"]+)/)
  const metrics = async (names: readonly string[]) => {
    const page = parseMetrics(await (await fetch(metricsUrl)).text())
    return Object.fromEntries(names.map((name) => [name, page.value(`plant_store_${name}`)]))
  }
  const metric = async (name: string) => Number((await metrics([name]))[name])
  const holds = async (): Promise<Holdings> => {
    const ended = service.ended.then(({ code, stderr }) => {
      throw new Error(`the process has ended with ${code}: ${stderr.slice(0, 2_000)}`)
    })
    child.send('collect')
    const [holdings] = await Promise.race([once(child, 'message'), ended])
    return holdings
  }
  return {
    ...service,
    databaseUrl,
    /** Returns what the process holds after a collection. */
    holds,
    /** Returns the value of `plant_store_<name>`. */
    metric,
    /** Returns the values of several at one time. */
    metrics,
    /** Waits for `plant_store_<name>` to have this value. */
    shows: (name: string, value: number) => until(`${name} is ${value}`, () => metric(name), is(value)),
    /** Waits for `plant_store_<name>` to be more than it was. */
    grows: (name: string, before: number) =>
      until(
        `${name} is more than ${before}`,
        () => metric(name),
        (seen) => seen > before
      ),
    /** Returns the bytes of the heap and of what it refers to outside, after a collection, once they hardly change. */
    held: async () => {
      let last = Number.POSITIVE_INFINITY
      for (let looks = 0; looks < mostLooks; looks++) {
        const { bytes } = await holds()
        if (Math.abs(last - bytes) < noiseBytes) return bytes
        last = bytes
        await sleep(lookEveryMs)
      }
      return last
    }
  }
}
