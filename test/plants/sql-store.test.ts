/** What the store concludes from the rows that the database returns; the statements themselves are tested on PostgreSQL. */
import type { QueryConfig } from 'pg'
import t from 'tap'
import { NoConnection } from '../../src/database/errors.ts'
import type { Database } from '../../src/database/pool.ts'
import { Failure } from '../../src/failures/failure.ts'
import {
  createSqlStore,
  deriveFormerWriteId,
  deriveWriteId,
  type PlantItem,
  randomWriteId
} from '../../src/plants/sql-store.ts'

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
    store: createSqlStore(database as unknown as Database),
    database,
    names: () => statements.map(({ name }) => name),
    lockTimeouts: () => statements.map(({ values }) => values?.at(-1))
  }
}

const { signal } = new AbortController()
const key = 'key'
const ownId = deriveWriteId('tester', key, 'own')
const item = (id: bigint, idempotencyKey?: string): PlantItem => ({
  id,
  plant: { id, name: 'n' },
  writeId: ownId,
  bytes: 1,
  context: { caller: 'tester', idempotencyKey }
})
const rows = (...ids: bigint[]) => ids.map((id) => ({ item: item(id), mayBeStored: false }))
const wrote = (...ids: bigint[]) => ids.map((id) => ({ id: String(id) }))
const found = (id: bigint, write_id = randomWriteId()) => ({ id: String(id), write_id })
const duplicate = new Failure('DuplicatePlant')

t.test('what an insert returns is created', async (t) => {
  const { store, names } = createStore(wrote(1n, 2n))
  t.strictSame(await store.write(rows(1n, 2n), signal), { results: ['created', 'created'] })
  t.strictSame(names(), ['create plants'])
})

t.test('what an insert does not return is looked up', async (t) => {
  const { store, names } = createStore(wrote(1n), [found(2n)], [], [found(3n)])
  const { results, failure } = await store.write(rows(1n, 2n, 3n), signal)
  t.equal(failure, undefined)
  t.equal(results.length, 3)
  t.equal(results[0], 'created')
  t.match(results[1], duplicate)
  t.equal(results[2], undefined, 'neither written nor found')
  t.match(await store.write(rows(3n), signal), { results: [duplicate] })
  t.strictSame(names(), ['create plants', 'find plants', 'create plants', 'find plants'])
})

t.test('an insert that fails decides nothing', async (t) => {
  const lost = new Error('connection lost')
  const { store } = createStore(lost)
  t.strictSame(await store.write(rows(1n), signal), {
    results: [],
    failure: { error: lost, written: 'maybe', whose: 'unclear', again: 'later' }
  })
})

t.test('a look-up that fails leaves open what is in the way of its rows, and of no others', async (t) => {
  const lost = new Error('connection lost')
  const missing = Object.assign(new Error(), { code: '42883', severity: 'ERROR', where: 'in a policy' })
  for (const error of [lost, new NoConnection('none'), missing]) {
    const { store, names } = createStore(wrote(1n), error, [], [found(2n)])
    const written = await store.write(rows(1n, 2n), signal)
    t.strictSame(written.results, ['created', undefined])
    t.match(written.failure, { error, written: 'no' }, 'they are not inserted')
    await store.write(rows(2n), signal)
    t.equal(names().at(-1), 'find plants')
  }
  const { store } = createStore([], lost, [], [found(1n)])
  t.match(await store.write(rows(1n), signal), { results: [undefined], failure: { error: lost } })
  t.match(
    await store.write(rows(1n), signal),
    { results: [duplicate] },
    'what got no result is looked up again'
  )
})

t.test(
  "a row that is there is the client's by its write id, which its key and its content are in",
  async (t) => {
    const otherContent = deriveWriteId('tester', key, 'other')
    const otherKey = deriveWriteId('tester', 'other', 'own')
    const former = deriveFormerWriteId('tester', key)
    const reused = new Failure('ReusedKey')
    const cases: [key: string | undefined, mayBeStored: boolean, writeId: string, outcome: string | Error][] =
      [
        [key, false, ownId, 'replayed'],
        [key, true, ownId, 'created'],
        [undefined, true, ownId, 'created'],
        [key, false, otherContent, reused],
        [key, true, otherContent, reused],
        [undefined, false, otherContent, duplicate],
        [key, false, otherKey, duplicate],
        [key, false, randomWriteId(), duplicate],
        [key, false, former, 'replayed'],
        [undefined, false, former, duplicate]
      ]
    for (const [key, mayBeStored, writeId, outcome] of cases) {
      const { store } = createStore([], [found(1n, writeId)])
      const { results } = await store.write([{ item: item(1n, key), mayBeStored }], signal)
      t.match(results, [outcome])
    }
  }
)

t.test('a lock is waited for as long as two usual writes take, from 25 to 250 ms', async (t) => {
  let now = 0
  t.intercept(performance, 'now', { value: () => now })
  const { store, database, lockTimeouts } = createStore()
  const lasting = async (ms: number) => {
    database.query = async (statement) => {
      times.push(statement.values?.at(-1))
      now += ms
      return { rows: wrote(1n) }
    }
    await store.write(rows(1n), signal)
  }
  const times: unknown[] = []
  for (const ms of [1, 60, 160, 40, 100_000, 100_000, 5, 1]) await lasting(ms)
  t.strictSame(times, ['25ms', '25ms', '25ms', '29ms', '32ms', '250ms', '250ms', '25ms'])
  t.strictSame(lockTimeouts(), [])
})
