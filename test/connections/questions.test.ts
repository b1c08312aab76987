/** How often the kernel is asked what it holds: an answer costs milliseconds, so good clients cause few questions. */
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { headers, startService } from '../../harness/service/service.ts'

const requestTimeoutMs = 16_000
/** An eighth of the limit. */
const everyMs = 2_000

t.test('clients that read their responses cause eight questions in REQUEST_TIMEOUT_MS', async (t) => {
  const { readFile } = fs
  let questions = 0
  const count = (...args: Parameters<typeof readFile>) => {
    if (args[0] === '/proc/net/tcp') questions++
    return readFile(...args)
  }
  Object.assign(fs, { readFile: count })
  syncBuiltinESMExports()
  t.teardown(() => {
    Object.assign(fs, { readFile })
    syncBuiltinESMExports()
  })
  const began = performance.now()
  const service = await startService(t, { REQUEST_TIMEOUT_MS: String(requestTimeoutMs) })
  // More than is negligible, all the time.
  const name = 'n'.repeat(50_000)
  for (let id = 1; questions === 0 || performance.now() - began < 2 * everyMs; id++) {
    const response = await fetch(`${service.url}/plants`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ id, name })
    })
    t.strictSame(await response.json(), { name })
    await sleep(50)
  }
  const most = 1 + (performance.now() - began) / everyMs
  t.ok(questions <= most, `${questions} questions, at most ${most}`)
})
