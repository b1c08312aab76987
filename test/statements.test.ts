/** The statements of plants in PostgreSQL: what they wait for, when they write nothing, and what they leave behind. */
import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import t from 'tap'
import {
  commitNothing,
  createEachPlant,
  createPlants,
  findPlants
} from '../src/plants/statements.ts'
import { createDatabase, openSession, query } from './support/postgres/database.ts'

const url = await createDatabase(t)
let lastId = 0n
const newPlant = () => ({ id: ++lastId, name: 'n', write_id: randomUUID() })
type Plant = ReturnType<typeof newPlant>
const stored = (plants: Plant[]) =>
  query(url, 'select from plants where id = any ($1)', [plants.map(({ id }) => id)])
/** Runs a statement in a session. */
const run = (session: pg.Client, statement: pg.QueryConfig) => session.query(statement)

const settings = `
  select name, setting from pg_settings
  where name in ('client_min_messages', 'lock_timeout', 'statement_timeout', 'synchronous_commit') order by name`

t.test(
  'several plants wait for the lock of one of them for their limit, and no longer',
  async (t) => {
    const plant = newPlant()
    const holder = await openSession(t, url, 'begin')
    await run(holder, createPlants([plant], 1))
    // Another error than that of the lock, if it waits on.
    const session = await openSession(t, url, `set statement_timeout = '60s'`)
    await t.rejects(run(session, createPlants([plant, newPlant()], 25)), { code: '55P03' })
    await holder.query('rollback')
  }
)

for (const setting of [
  'synchronous_commit = off',
  'synchronous_commit = local',
  'client_min_messages = error'
])
  t.test(`${setting}: a create writes nothing, and a careful call makes the setting`, async (t) => {
    const session = await openSession(t, url, `set ${setting}`)
    const plants = [newPlant(), newPlant()]
    t.strictSame((await run(session, createPlants(plants, 1_000))).rows, [])
    t.strictSame((await run(session, createPlants(plants.slice(1), 1_000))).rows, [])
    t.strictSame(await stored(plants), [])
    const { text } = createEachPlant(plants, 60_000)
    const results = (await session.query(`${text}; ${settings}`)) as unknown as pg.QueryResult[]
    const made = new Map(results.at(-1)?.rows.map(({ name, setting }) => [name, setting]))
    t.strictSame(
      [made.get('client_min_messages'), made.get('synchronous_commit')],
      ['warning', 'on']
    )
    t.equal((await stored(plants)).length, 2)
  })

t.test(
  'each leaves the settings of its session as they were, which a pooler may share',
  async (t) => {
    const session = await openSession(t, url, 'set lock_timeout = 12345')
    const before = (await session.query(settings)).rows
    const one = [newPlant()]
    const several = [newPlant(), newPlant()]
    const statements: pg.QueryConfig[] = [
      createPlants(one, 25),
      createPlants(several, 25),
      createEachPlant([newPlant()], 60_000),
      findPlants([lastId]),
      commitNothing
    ]
    for (const statement of statements) {
      await run(session, statement)
      t.strictSame((await session.query(settings)).rows, before, statement.text)
    }
  }
)
