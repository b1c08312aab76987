/** What the write path takes of its connections, on a real PostgreSQL whose statements wait at a gate; and another store. */
import t, { type Test } from 'tap'
import { createDatabase, createRole, query } from '../../harness/postgres/database.ts'
import { headers, post, startService, token } from '../../harness/service/service.ts'
import { createMemoryStore } from '../../harness/stores/memory-store.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { Database } from '../../src/database/pool.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { Failure } from '../../src/failures/failure.ts'
import { createLogger } from '../../src/logger.ts'
import { openRepository } from '../../src/plants/plugin.ts'
import { createPlantRepository, type MakeRepository } from '../../src/plants/repository.ts'
import { createSqlStore } from '../../src/plants/sql-store.ts'
import { randomWriteId } from '../../src/plants/write-id.ts'

/** A database with the function `pass_gate()`, which returns true when the gate is open. */
async function createGate(t: Test) {
  const url = await createDatabase(t)
  const run = (sql: string) => query(url, sql)
  await run('create table gate ()')
  await run('insert into gate default values')
  await run(`
    create function pass_gate() returns boolean language plpgsql security definer as $$ begin
      while exists (select from gate) loop perform pg_sleep(0.01); end loop;
      return true;
    end $$`)
  const find = (text: string) =>
    run(`
      select pid from pg_stat_activity
      where application_name = 'plant-store' and datname = current_database()
        and state = 'active' and query like '%${text}%' order by pid`)
  return {
    url,
    connection: parseDatabaseUrl(url),
    run,
    open: () => run('delete from gate'),
    /** Returns the statements with this text that are under way, when there are this many. */
    areRunning: (count: number, text: string) =>
      until(`${count} statements are under way`, () => find(text), hasLength(count))
  }
}

t.test('while a statement is under way in each lane, a probe has a connection', async (t) => {
  const { connection, open, areRunning } = await createGate(t)
  const many = 1_000_000
  const write = { lanes: 2, batchRows: 100, batchBytes: many, queueRows: many, queueBytes: many }
  const log = { warn() {}, error() {}, info() {} } as never
  const database = new Database(connection, log)
  const { pool, close } = openRepository(database, { write: { ...write, deadlineMs: scaled(60_000) } }, log, {
    onStored() {},
    onAttempt() {}
  })
  const inLanes = [1, 2].map(() => pool.query({ text: 'select pass_gate()' }))
  const before = await areRunning(2, 'pass_gate')
  await pool.query({ text: 'select 1' })
  t.strictSame(await areRunning(2, 'pass_gate'), before, 'which it did not wait for')
  await open()
  await Promise.all(inLanes)
  await close()
  await database.end()
})

t.test('an attempt that is given up while it looks a row up ends', async (t) => {
  const { url, connection, run, open, areRunning } = await createGate(t)
  await run(`insert into plants values (1, 'theirs', null, gen_random_uuid())`)
  // A query that reads that row waits at the gate, except a superuser's.
  const { name: user } = await createRole(t, url, 'secret')
  await run('alter table plants enable row level security')
  await run('create policy may_insert on plants for insert with check (true)')
  await run(`create policy may_read on plants for select using (name <> 'theirs' or pass_gate())`)
  const log = { warn() {} }
  const limited = { ...connection, user, password: 'secret' }
  const limitedDatabase = new Database(limited, log)
  t.teardown(async () => {
    await open()
    await limitedDatabase.end()
  })
  const plant = { id: 1n, name: 'ours' }
  const item = { id: 1n, plant, writeId: randomWriteId(), bytes: 1, caller: 'tester' }
  const controller = new AbortController()
  const store = createSqlStore(limitedDatabase.openPool({ size: 1, limitMs: 600_000 }))
  const found = store.find([{ item, mayBeStored: false }], controller.signal)
  await areRunning(1, 'join plants')
  controller.abort()
  await areRunning(0, 'join plants')
  t.match(await found, { failure: { error: { code: '57014' }, kind: 'busy' } })
})

t.test('a repository that is given takes and counts the creates as that of the database does', async (t) => {
  const config = readConfig({
    DATABASE_URL: 'postgres://nobody@127.0.0.1/none',
    AUTH_TOKENS: `tester:${token}`,
    METRICS_PORT: '0'
  })
  const lines: string[] = []
  const logger = createLogger('info', { write: (line) => void lines.push(line) })
  const repository: MakeRepository = (log, observer) =>
    createPlantRepository(createMemoryStore(), config.write, log, observer)
  const app = await buildApp(config, logger, { repository })
  t.teardown(() => app.close())
  await app.listenForMetrics()
  const service = await startService(t)
  const urls = [await app.listen({ host: '127.0.0.1', port: 0 }), service.url]
  const creates: [plant: object, key?: string][] = [
    [{ id: 1, name: 'n' }],
    [{ id: 1, name: 'n' }],
    [{ id: 2, name: 'n', tag: '' }, 'key'],
    [{ id: 2, name: 'n', tag: '' }, 'key'],
    [{ id: 2, name: 'other' }, 'key'],
    [{ id: 2, name: 'n', tag: '' }, 'other'],
    [{ id: 3, name: 'n' }, 'key']
  ]
  for (const [plant, key] of creates) {
    const init = key === undefined ? {} : { headers: { ...headers, 'idempotency-key': key } }
    const [inMemory, inDatabase] = await Promise.all(urls.map((url) => post(`${url}/plants`, plant, init)))
    t.strictSame(inMemory, inDatabase, JSON.stringify({ plant, key }))
  }
  const countPlants = (page: string) => page.match(/^plant_store_plants_total.*$/gm)
  const metricsUrl = /"Metrics at ([^"]+)"/.exec(lines.join(''))?.[1] as string
  const page = await (await fetch(metricsUrl)).text()
  t.strictSame(countPlants(page), countPlants(await service.metrics()))
  await app.close()
  t.match(app.plants.refusalFor('tester'), new Failure('ShuttingDown'), 'it ends with the application')
})
