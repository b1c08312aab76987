/** A real synchronous standby that stands still: no response is given from a row that it does not have. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import t, { type Test } from 'tap'
import { execute } from '../../harness/execute.ts'
import { query, setServer } from '../../harness/postgres/database.ts'
import { startPostgres } from '../../harness/postgres/embedded-postgres.ts'
import { startServer } from '../../harness/postgres/server.ts'
import { failure, headers, startService } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { deriveWriteId, randomWriteId } from '../../src/plants/write-id.ts'

const key = 'standby'
const duplicate = failure(409, 'a plant with this id already exists')
const reused = failure(422, 'this Idempotency-Key was already used for this id with different content')

/** A server and a standby that its commits wait for; returns a function that stops the standby's replication. */
async function startPair(t: Test) {
  const primary = await startServer(t)
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  await primary.down()
  await execute('cp', ['-a', `${primary.directory}/.`, directory])
  await primary.up()
  await writeFile(join(directory, 'cluster', 'standby.signal'), '')
  const standby = await startPostgres({
    directory,
    settings: { primary_conninfo: `${primary.url}?application_name=standby` }
  })
  t.teardown(() => standby.stop())
  await setServer(primary.url, 'synchronous_standby_names', 'standby')
  const state = `select sync_state from pg_stat_replication where application_name = 'standby'`
  await until(
    'the standby is synchronous',
    () => query(primary.url, state),
    ([row]) => row?.sync_state === 'sync'
  )
  const [receiver] = await query(standby.url('postgres'), 'select pid from pg_stat_wal_receiver')
  const signal = (name: NodeJS.Signals) => process.kill(receiver.pid, name)
  return { primary, signal }
}

/** Stores a plant whose backend is ended while its commit waits for the standby: it is visible, and not replicated. */
async function storeUnreplicated(url: string, id: number, writeId: string) {
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  const lost = client
    .query(`insert into plants (id, name, write_id) values ($1, 'theirs', $2)`, [id, writeId])
    .catch(({ code }) => code)
  const end = `select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep' and query like '%theirs%'`
  await until('the commit waits', () => query(url, end), hasLength(1))
  return lost
}

t.test('409 and 422 wait for the standby, as 200 does', async (t) => {
  const { primary, signal } = await startPair(t)
  const service = await startService(t, {
    DATABASE_URL: primary.url,
    WRITE_DEADLINE_MS: String(scaled(3_000))
  })
  const keyed = { headers: { ...headers, 'idempotency-key': key } }
  const ask = (id: number, init?: RequestInit) => service.post({ id, name: 'ours' }, init)
  t.equal((await ask(1)).status, 200)
  signal('SIGSTOP')
  await storeUnreplicated(primary.url, 2, randomWriteId())
  await storeUnreplicated(primary.url, 3, deriveWriteId('tester', key, 'other'))
  t.strictSame(await query(primary.url, 'select id::int from plants order by id'), [
    { id: 1 },
    { id: 2 },
    { id: 3 }
  ])
  const waiting = await Promise.all([ask(2), ask(2, keyed), ask(3, keyed)])
  for (const { body } of waiting) t.equal(JSON.parse(body).error, 503)
  signal('SIGCONT')
  // The outage that began meanwhile may last until its next probe.
  const settled = (id: number, init?: RequestInit) =>
    until(
      'it is decided',
      () => ask(id, init),
      ({ body }) => JSON.parse(body).error !== 503
    )
  t.strictSame(await settled(2), duplicate)
  t.strictSame(await settled(2, keyed), duplicate)
  t.strictSame(await settled(3, keyed), reused)
})
