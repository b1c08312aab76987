/** What the store makes of the rows that the database shows it; the statements themselves are tested on PostgreSQL. */
import type { QueryConfig } from 'pg'
import t from 'tap'
import { NoConnection } from '../../src/database/errors.ts'
import type { Database } from '../../src/database/pool.ts'
import { Failure } from '../../src/failures/failure.ts'
import { missing } from '../../src/group-commit/types.ts'
import { columns } from '../../src/plants/columns.ts'
import { createPlantStore, type PlantItem } from '../../src/plants/store.ts'

type Result = { rows: object[]; rowCount?: number } | Error

/** A database that gives these results, one after the other. */
function createStore(...results: Result[]) {
  const statements: string[] = []
  const database = {
    query: async ({ name = '' }: QueryConfig) => {
      statements.push(name)
      const result = results.shift()
      if (result instanceof Error) throw result
      return result
    }
  } as unknown as Database
  return { store: createPlantStore(database), statements }
}

const { signal } = new AbortController()
const item = (id: bigint, isKeyed = false): PlantItem => ({
  id,
  plant: { id, name: 'n' },
  writeId: `w${id}`,
  isKeyed,
  bytes: 1
})
const empty = Object.fromEntries(Object.values(columns).map(({ name }) => [name, null]))
const row = (id: bigint, writeId = `w${id}`, name = 'n') => ({
  ...empty,
  id: String(id),
  name,
  write_id: writeId
})
const result = (...rows: object[]): Result => ({ rows })
const wrote = (...ids: bigint[]): Result => result(...ids.map((id) => ({ id: String(id) })))
const first = (...ids: bigint[]) => ids.map((id) => ({ item: item(id), repeated: false }))

t.test(
  'a row alone takes the short statement, several the long one, repeats the one that writes again',
  async (t) => {
    const { store, statements } = createStore(
      wrote(1n),
      wrote(1n, 2n),
      result(row(1n)),
      result(row(1n), row(2n))
    )
    t.strictSame(await store.write(first(1n), signal), ['created'])
    t.strictSame(await store.write(first(1n, 2n), signal), ['created', 'created'])
    t.strictSame(await store.write([{ item: item(1n), repeated: true }], signal), ['created'])
    t.strictSame(await store.write([{ item: item(1n, true), repeated: false }, ...first(2n)], signal), [
      'replayed',
      'created'
    ])
    t.strictSame(statements, [
      'create a plant',
      'create plants',
      'create plants again',
      'create plants again'
    ])
  }
)

t.test('a first write that falls short looks for the rows that it has not written', async (t) => {
  const { store, statements } = createStore(wrote(1n), result(row(2n, 'theirs')))
  const [own, taken, gone] = await store.write(first(1n, 2n, 3n), signal)
  t.equal(own, 'created')
  t.match(taken, new Failure('DuplicatePlant'))
  t.equal(gone, missing)
  t.strictSame(statements, ['create plants', 'find plants'])
})

t.test('a server that counts the rows that it was sent is not believed', async (t) => {
  const { store } = createStore({ ...wrote(1n), rowCount: 2 }, result(row(2n, 'theirs')))
  const [own, taken] = await store.write(first(1n, 2n), signal)
  t.equal(own, 'created')
  t.match(taken, new Failure('DuplicatePlant'))
})

t.test('a repeat that only finds its row writes it again: it may not be replicated', async (t) => {
  const { store } = createStore(result(), result(row(1n)))
  t.strictSame(await store.write([{ item: item(1n), repeated: true }], signal), [missing])
})

t.test('rows that are written and cannot be looked at may be stored', async (t) => {
  const { store } = createStore(wrote(1n), new Error('no connection'))
  const error = await store.write(first(1n, 2n), signal).catch((reason) => reason)
  t.match(error, { name: 'OutcomeUnknown', cause: { message: 'no connection' } })
  t.equal(store.classify(error), 'uncertain')
})

t.test('an engine without the function to wait for a standby is asked for what is visible', async (t) => {
  const undefinedFunction = Object.assign(new Error(), { code: '42883', severity: 'ERROR' })
  const { store, statements } = createStore(
    ...[result(), undefinedFunction, result(row(1n, 'theirs')), result(), result(row(1n, 'theirs'))]
  )
  for (let count = 0; count < 2; count++)
    t.match(await store.write(first(1n), signal), [new Failure('DuplicatePlant')])
  const [insert, found, visible] = ['create a plant', 'find plants', 'find visible plants']
  t.strictSame(statements, [insert, found, visible, insert, visible])
})

t.test(
  'an internal error leaves the outcome open where Citus has lost a worker, and nowhere else',
  async (t) => {
    const { store } = createStore()
    const internal = { code: 'XX000', severity: 'ERROR' }
    t.equal(store.classify({ ...internal, file: 'remote_transaction.c' }), 'uncertain')
    t.equal(store.classify({ ...internal, file: 'relcache.c' }), 'fatal')
    t.equal(store.classify(internal), 'fatal')
  }
)

t.test('what one row can cause is told from what all meet', async (t) => {
  const { store } = createStore()
  const where = 'PL/pgSQL function rule() line 1 at PERFORM'
  for (const code of ['40001', '40P01', '53100', '58030', 'XX001'])
    t.ok(store.mayBeOneRows({ code, severity: 'ERROR' }), code)
  for (const code of ['25006', '42P01', '0A000']) {
    t.notOk(store.mayBeOneRows({ code, severity: 'ERROR' }), code)
    t.ok(store.mayBeOneRows({ code, severity: 'ERROR', where }), `${code} in a trigger`)
  }
  t.notOk(store.mayBeOneRows(new NoConnection(new Error('away'))))
})

t.test("a row of this attempt is the client's, whatever a trigger has made of it", async (t) => {
  const { store } = createStore(result({ ...row(1n, 'w1', 'trimmed'), is_new: true }))
  t.strictSame(await store.write([{ item: item(1n, true), repeated: false }], signal), ['created'])
})

t.test('a key that was used with other content is told so', async (t) => {
  const { store } = createStore(result(row(1n, 'w1', 'other')))
  const [outcome] = await store.write([{ item: item(1n, true), repeated: false }], signal)
  t.match(outcome, new Failure('ReusedKey'))
})

t.test(
  'a plant is replayed only where its key finds a row that no attempt of ours may have made',
  async (t) => {
    const cases: [isKeyed: boolean, repeated: boolean, isNew: boolean, stored: string][] = [
      [true, false, false, 'replayed'],
      [true, false, true, 'created'],
      [true, true, false, 'created'],
      [false, true, false, 'created']
    ]
    for (const [isKeyed, repeated, is_new, stored] of cases) {
      const { store } = createStore(result({ ...row(1n), is_new }))
      t.strictSame(await store.write([{ item: item(1n, isKeyed), repeated }], signal), [stored])
    }
  }
)
