/** Promise 17, standard output: what it gets at which level, and that nobody has to read it. */
import { once } from 'node:events'
import { openSync } from 'node:fs'
import t from 'tap'
import { parseMetrics } from '../support/metrics-page.ts'
import { createDatabase, query } from '../support/postgres/database.ts'
import { freePort } from '../support/postgres/embedded-postgres.ts'
import { serverFile, spawnFile } from '../support/process.ts'
import { success } from '../support/responses.ts'
import { headers, linesOf, post, send, token } from '../support/service.ts'
import { until } from '../support/until.ts'

const databaseUrl = await createDatabase(t)

type Unread = Awaited<ReturnType<typeof startUnread>>

/** Starts the service with this as its standard output, which nobody reads; resolves when it serves. */
async function startUnread(stdout: 'pipe' | number, env = {}) {
  const PORT = String(await freePort())
  const METRICS_PORT = String(await freePort())
  const addresses = { HOST: '127.0.0.1', PORT, METRICS_PORT }
  const settings = {
    DATABASE_URL: databaseUrl,
    AUTH_TOKENS: `tester:${token}`,
    SHUTDOWN_DELAY_MS: '0',
    ...env
  }
  const stdio = ['ignore', stdout, 'inherit'] as const
  const child = spawnFile(serverFile, { ...addresses, ...settings }, { stdio: [...stdio] })
  t.teardown(() => child.kill('SIGKILL'))
  const get = (port: string, path: string) =>
    send(`http://127.0.0.1:${port}${path}`, { method: 'GET' })
  await until('it serves', () => get(PORT, '/livez'))
  const lostLines = async () =>
    parseMetrics((await get(METRICS_PORT, '/metrics')).body).value(
      'plant_store_log_lines_lost_total'
    )
  return { child, plants: `http://127.0.0.1:${PORT}/plants`, lostLines }
}

const long = { ...headers, 'x-request-id': 'x'.repeat(128), 'x-forwarded-for': '::1,'.repeat(50) }
const fill = (plants: string, lines = 1_000) =>
  Promise.all(Array.from({ length: lines }, () => post(plants, '', { headers: long })))
/** The kernel takes 200 kB for a reader that stalls; the service keeps 1 MiB for a full disk. */
const outputs: [
  title: string,
  stdout: 'pipe' | number,
  use: (service: Unread) => Promise<unknown>
][] = [
  ['a reader that stalls', 'pipe', ({ plants }) => fill(plants)],
  [
    'a reader that is gone',
    'pipe',
    ({ child, plants }) => fill(plants, child.stdout?.destroy() && 10)
  ],
  [
    'a disk that is full',
    openSync('/dev/full', 'w'),
    ({ plants, lostLines }) => until('lost lines are counted', () => fill(plants).then(lostLines))
  ]
]
for (const [index, [title, stdout, use]] of outputs.entries())
  t.test(`${title}: it serves, and ends at SIGTERM with 0`, async (t) => {
    const service = await startUnread(stdout)
    await use(service)
    t.strictSame(await post(service.plants, { id: index, name: 'n' }), success({ name: 'n' }))
    service.child.kill('SIGTERM')
    t.strictSame(await once(service.child, 'exit'), [0, null])
  })

t.test(
  'LOG_LEVEL=error: a 500 leaves a line, and no success and no failure of a client does',
  async (t) => {
    const { child, plants } = await startUnread('pipe', { LOG_LEVEL: 'error' })
    let text = ''
    child.stdout?.setEncoding('utf8').on('data', (chunk) => (text += chunk))
    for (let count = 0; count < 2; count++) await post(plants, { id: 10, name: 'n' })
    await query(databaseUrl, 'alter table plants rename to gone')
    await post(plants, { id: 11, name: 'n' })
    await query(databaseUrl, 'alter table gone rename to plants')
    child.kill('SIGTERM')
    await once(child, 'close')
    const lines = linesOf(text)
    t.match(lines, [{ level: 50, failure: 500 }])
    t.equal(lines.length, 1)
  }
)
