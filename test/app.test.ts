/** Promise 21: a process can make any number of applications. */
import { register } from '@prometheus-io/client'
import { pino } from 'pino'
import t from 'tap'
import { buildApp } from '../src/app.ts'
import { readConfig } from '../src/config.ts'
import { StartupFault } from '../src/startup-fault.ts'
import { type App, build, create } from './support/build.ts'
import { createMemoryStore } from './support/memory-store.ts'
import { parseMetrics } from './support/metrics-page.ts'
import { failure, success } from './support/responses.ts'
import { post, token } from './support/service.ts'
import { until } from './support/until.ts'

const created = success({ name: 'n' })
/** Returns how many creates an application has answered, by its own metrics. */
const countOf = async (app: App) => {
  const { values } = parseMetrics(await app.metrics.metrics())
  return values('plant_store_http_requests_total')['tester Success'] ?? 0
}

t.test(
  'ten in one process, five of which are closed: each has its own plants and metrics',
  async (t) => {
    const apps = await Promise.all(
      Array.from({ length: 10 }, async (_, index) => {
        const store = createMemoryStore()
        const app = await build(t, { store })
        return { app, store, url: await app.listen(), creates: index + 1 }
      })
    )
    const createAll = async ({ app, url, creates }: (typeof apps)[number], first: number) => {
      const ids = Array.from({ length: creates }, (_, index) => first + index)
      const all = await Promise.all(ids.map((id) => post(`${url}/plants`, { id, name: 'n' })))
      for (const reply of all) t.strictSame(reply, created)
      // A request is counted only when its connection has sent the response.
      await until(
        'all are counted',
        () => countOf(app),
        (count) => count >= first - 1 + creates
      )
    }
    for (const each of apps) await createAll(each, 1)
    const [closed, open] = [apps.slice(0, 5), apps.slice(5)]
    await Promise.all(closed.map(({ app }) => app.close()))
    for (const each of open) await createAll(each, each.creates + 1)
    for (const { app, store, creates } of closed)
      t.strictSame([store.rows.size, await countOf(app)], [creates, creates])
    for (const { app, store, creates } of open)
      t.strictSame([store.rows.size, await countOf(app)], [2 * creates, 2 * creates])
    t.strictSame(register.getMetricsAsArray(), [], 'the registry of the process has none of theirs')
  }
)

t.test('a store that is handed in is the only one: no database is named or opened', async (t) => {
  const store = createMemoryStore()
  const app = await build(t, { store })
  const plant = { id: 1, name: 'n', tag: 't' }
  t.strictSame(await create(app, plant), success({ name: 'n', tag: 't' }))
  t.strictSame(await create(app, plant), failure('DuplicatePlant'))
  t.match([...store.rows.values()], [{ id: 1n, name: 'n', tag: 't' }])
})

t.test('without a store and a database it is not built', async (t) => {
  const config = readConfig({ AUTH_TOKENS: `tester:${token}` }, { hasStore: true })
  const faults = ['the configuration has no database, and the application was given no store']
  await t.rejects(buildApp(config, { logger: pino({ level: 'silent' }) }), new StartupFault(faults))
})

t.test('the line of a success goes to the logger that the application was given', async (t) => {
  const lines: string[] = []
  const logger = pino({ base: { app: 'second' } }, { write: (line) => lines.push(line) })
  const app = await build(t, { logger })
  t.strictSame(await post(`${await app.listen()}/plants`, { id: 1, name: 'n' }), created)
  const find = () => lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'responded')
  const [line] = await until('it is logged', find, ({ length }) => length > 0)
  t.match(line, { level: 30, app: 'second', route: '/plants', caller: 'tester', failure: 0 })
})
