/** Load by autocannon, where wrk is not there: it takes more of the machine's time from what is measured. */
import { createHistogram } from 'node:perf_hooks'
import autocannon from 'autocannon'
import { headers, makeBody } from '../plant.ts'
import type { Load, LoadResult } from './load.ts'

/** Posts plants to `url`. */
export function loadByAutocannon(
  url: string,
  { connections, seconds, ids = 'int64' }: Load
): Promise<LoadResult> {
  // autocannon's own counts whole milliseconds.
  const latencyUs = createHistogram()
  let plants = 0
  return new Promise((resolve, reject) => {
    const request = { setupRequest: (request: autocannon.Request) => ({ ...request, body: makeBody(ids) }) }
    const options = { url, connections, duration: seconds, timeout: 30, method: 'POST', headers } as const
    const load = autocannon({ ...options, requests: [request] }, (error, result) => {
      if (error) return reject(error)
      resolve({
        plants,
        seconds: result.duration,
        p50Ms: latencyUs.percentile(50) / 1e3,
        p99Ms: latencyUs.percentile(99) / 1e3,
        errors: result['1xx'] + result.non2xx + result.errors + result.timeouts
      })
    })
    load.on('response', (_client, status, _bytes, milliseconds) => {
      latencyUs.record(Math.max(1, Math.round(milliseconds * 1e3)))
      if (status === 200) plants++
    })
  })
}
