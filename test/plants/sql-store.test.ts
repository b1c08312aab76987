/** What the store concludes from the rows that the database returns; the statements themselves are tested on PostgreSQL. */
import type { QueryConfig } from 'pg'
import t from 'tap'
import { NoConnection } from '../../src/database/errors.ts'
import type { Pool } from '../../src/database/pool.ts'
import { Failure } from '../../src/failures/failure.ts'
import { createSqlStore, type PlantItem } from '../../src/plants/sql-store.ts'
import { deriveFormerWriteId, deriveWriteId, randomWriteId } from '../../src/plants/write-id.ts'

type Result = object[] | Error

/** A database that returns these rows, one list after the other. */
function createStore(...results: Result[]) {
  const statements: QueryConfig[] = []
  const database = {
    query: async (statement: QueryConfig) => {
      statements.push(statement)
      const result = results.shift()
      if (result instanceof Error) throw result
      return { rows: result }
    }
  }
  return {
    store: createSqlStore(database as unknown as Pool),
    names: () => statements.map(({ name }) => name),
    lockTimeouts: () => statements.map(({ values }) => values?.at(-1))
  }
}

const { signal } = new AbortController()
const key = 'key'
const ownId = deriveWriteId('tester', key, 'own')
const item = (id: bigint, idempotencyKey?: string, writeId = ownId): PlantItem => ({
  id,
  plant: { id, name: 'n' },
  writeId,
  bytes: 1,
  caller: 'tester',
  idempotencyKey
})
/** Rows with write ids of their own. */
const rows = (...ids: bigint[]) =>
  ids.map((id) => ({ item: item(id, undefined, writeIdOf(id)), mayBeStored: false }))
const writeIdOf = (id: bigint) => deriveWriteId('tester', key, String(id))
const wrote = (...ids: bigint[]) => ids.map((id) => ({ write_id: writeIdOf(id) }))
const found = (id: bigint, write_id = randomWriteId()) => ({ id: String(id), write_id })
const duplicate = new Failure('DuplicatePlant')

t.test('what an insert returns is created, whatever its id; what it leaves out is looked up', async (t) => {
  const { store, names, lockTimeouts } = createStore(wrote(1n, 2n), wrote(2n))
  t.strictSame(await store.insert(rows(1n, 2n), 25, signal), { results: ['created', 'created'] })
  t.strictSame(await store.insert(rows(1n, 2n), 2.5, signal), { results: [undefined, 'created'] })
  t.strictSame(names(), ['create plants', 'create plants'])
  t.strictSame(lockTimeouts(), ['25ms', '2.5ms'])
})

t.test('a look-up decides of what it finds', async (t) => {
  const { store, names } = createStore([found(2n)])
  const { results } = await store.find(rows(1n, 2n), signal)
  t.equal(results?.[0], undefined, 'not found')
  t.match(results?.[1], duplicate)
  t.strictSame(names(), ['find plants'])
})

t.test('a statement that fails decides nothing', async (t) => {
  const lost = new Error('connection lost')
  const missing = Object.assign(new Error(), { code: '42883', severity: 'ERROR', where: 'in a policy' })
  for (const [error, kind] of [
    [lost, 'lost'],
    [new NoConnection('none'), 'away'],
    [missing, 'broken']
  ] as const) {
    const { store } = createStore(error, error)
    t.strictSame(await store.insert(rows(1n), 25, signal), { failure: { error, kind } })
    t.strictSame(await store.find(rows(1n), signal), { failure: { error, kind } })
  }
})

t.test("a row is the client's by its write id, which its key and its content are in", async (t) => {
  const otherContent = deriveWriteId('tester', key, 'other')
  const otherKey = deriveWriteId('tester', 'other', 'own')
  const reused = new Failure('ReusedKey')
  const cases: [key: string | undefined, mayBeStored: boolean, writeId: string, outcome: string | Error][] = [
    [key, false, ownId, 'replayed'],
    [key, true, ownId, 'created'],
    [undefined, true, ownId, 'created'],
    [key, false, otherContent, reused],
    [key, true, otherContent, reused],
    [undefined, false, otherContent, duplicate],
    [key, false, otherKey, duplicate],
    [key, false, randomWriteId(), duplicate]
  ]
  for (const [key, mayBeStored, writeId, outcome] of cases) {
    const { store } = createStore([found(1n, writeId)])
    const { results } = await store.find([{ item: item(1n, key), mayBeStored }], signal)
    t.match(results, [outcome])
  }
})

t.test('a row of version 1.0.0 is compared by its content, and no other', async (t) => {
  const former = deriveFormerWriteId('tester', key)
  const ask = async (idempotencyKey: string | undefined, ...same: object[]) => {
    const { store, names } = createStore([found(1n, former), found(2n)], same)
    const row = { item: item(1n, idempotencyKey), mayBeStored: false }
    const { results } = await store.find([row, ...rows(2n)], signal)
    return { result: results?.[0], names: names() }
  }
  const both = ['find plants', 'compare plants']
  t.strictSame(await ask(key, { id: '1' }), { result: 'replayed', names: both })
  t.match(await ask(key), { result: new Failure('ReusedKey'), names: both })
  t.match(await ask(undefined), { result: duplicate, names: ['find plants'] })
})
