/** Load by undici, where wrk is not there: it takes more of the machine's time from what is measured. */
import { createRequire } from 'node:module'
import { createHistogram } from 'node:perf_hooks'
import { Client } from 'undici'
import { headers, makeBody } from '../plant.ts'
import type { Load, LoadResult } from './load.ts'

/** The generator's name and version. */
export const name = `undici ${createRequire(import.meta.url)('undici/package.json').version}`

const timeoutMs = 30_000

/** Posts plants to `url`: each connection sends its next request when it has the response to the one before. */
export async function loadByUndici(
  url: string,
  { connections, seconds, ids = 'int64' }: Load
): Promise<LoadResult> {
  const { origin, pathname: path } = new URL(url)
  const latencyUs = createHistogram()
  let plants = 0
  let errors = 0
  const began = performance.now()
  const end = began + seconds * 1000

  async function send(client: Client) {
    const sentAt = performance.now()
    const { statusCode, body } = await client.request({ path, method: 'POST', headers, body: makeBody(ids) })
    await body.dump()
    if (statusCode !== 200) throw new Error(`status ${statusCode}`)
    latencyUs.record(Math.max(1, Math.round((performance.now() - sentAt) * 1e3)))
    plants++
  }

  async function runConnection() {
    const client = new Client(origin, { headersTimeout: timeoutMs, bodyTimeout: timeoutMs })
    while (performance.now() < end) await send(client).catch(() => errors++)
    await client.close()
  }

  await Promise.all(Array.from({ length: connections }, runConnection))
  return {
    plants,
    seconds: (performance.now() - began) / 1e3,
    p50Ms: latencyUs.percentile(50) / 1e3,
    p99Ms: latencyUs.percentile(99) / 1e3,
    errors
  }
}
