/** What an operator has changed after a plant was stored, on a real PostgreSQL: a repeat is looked up before it is refused. */
import t, { type Test } from 'tap'
import { createDatabase, openSession, query } from '../../harness/postgres/database.ts'
import { failure, headers, replay, startService, success } from '../../harness/service/service.ts'
import { comparePlants } from '../../src/plants/statements.ts'

const url = await createDatabase(t)
const run = (sql: string) => query(url, sql)
const service = await startService(t, { DATABASE_URL: url })
let lastId = 0

const keyed = { headers: { ...headers, 'idempotency-key': 'key' } }
const duplicate = failure(409, 'a plant with this id already exists')
const refused = failure(422, 'the plant breaks a rule of this store')

/** A change of the table, and how it is undone when the test ends. */
const changes: Record<string, [begin: string[], end: string[]]> = {
  'a trigger with a quota': [
    [
      `create function quota() returns trigger language plpgsql as $$ begin raise 'the quota is used up'; end $$`,
      'create trigger quota before insert on plants for each row execute function quota()'
    ],
    ['drop function quota cascade']
  ],
  'a check': [
    ['alter table plants add constraint short check (length(name) < 5) not valid'],
    ['alter table plants drop constraint short']
  ],
  'a shorter type': [
    [`update plants set name = left(name, 5)`, 'alter table plants alter column name type varchar(5)'],
    ['alter table plants alter column name type text']
  ]
}

async function change(t: Test, [begin, end]: (typeof changes)[string]) {
  for (const sql of begin) await run(sql)
  t.teardown(async () => {
    for (const sql of end) await run(sql)
  })
}

for (const [title, statements] of Object.entries(changes))
  t.test(`${title} that came later: the first response again, and 409 for a taken id`, async (t) => {
    const plant = { id: ++lastId, name: 'Monstera' }
    t.strictSame(await service.post(plant, keyed), success({ name: 'Monstera' }))
    await change(t, statements)
    t.strictSame(await service.post(plant, keyed), replay({ name: 'Monstera' }))
    t.strictSame(await service.post(plant), duplicate)
    t.strictSame(await service.post({ ...plant, id: ++lastId }, keyed), refused, 'what is new is refused')
    const repeats = await Promise.all(Array.from({ length: 50 }, () => service.post(plant, keyed)))
    for (const response of repeats) t.strictSame(response, replay({ name: 'Monstera' }))
  })

t.test('a unique name, and one key at two replicas at once: one plant, and 200 for both', async (t) => {
  const other = await startService(t, { DATABASE_URL: url })
  await run('delete from plants')
  await run('alter table plants add constraint one_name unique (name)')
  t.teardown(() => run('alter table plants drop constraint one_name'))
  for (let pair = 0; pair < 100; pair++) {
    const plant = { id: ++lastId, name: `pair ${pair}` }
    const responses = await Promise.all([service.post(plant, keyed), other.post(plant, keyed)])
    t.ok(responses.every(({ status }) => status === 200))
  }
})

t.test('a trigger that assigns the id: one request makes one row', async (t) => {
  await run('create sequence ids start 1000000')
  await run(
    `create function assign() returns trigger language plpgsql as $$ begin new.id := nextval('ids'); return new; end $$`
  )
  await run('create trigger assign before insert on plants for each row execute function assign()')
  t.teardown(() => run('drop function assign cascade'))
  const plant = { id: ++lastId, name: 'assigned' }
  t.strictSame(await service.post(plant, keyed), success({ name: 'assigned' }))
  t.strictSame(await run(`select count(*)::int as rows from plants where name = 'assigned'`), [{ rows: 1 }])
})

t.test('a plant of version 1.0.0 is compared by its id, however large the table is', async (t) => {
  const session = await openSession(t, url, 'set enable_seqscan = off')
  const { text, values } = comparePlants([{ id: 1n, name: 'Monstera' }])
  const { rows } = await session.query(`explain ${text}`, values)
  t.match(rows.map((row) => row['QUERY PLAN']).join('\n'), /Index Scan using plants_pkey on plants/)
})
