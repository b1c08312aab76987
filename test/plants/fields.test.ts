/** Every field of NewPlant in each place that must know it: rule, table, statements, response, comparison, readiness, README. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { failure, headers, startService } from '../../harness/service/service.ts'
import { checkMigrated } from '../../src/database/checks.ts'
import { catalogue } from '../../src/failures/catalogue.ts'
import { columns } from '../../src/plants/columns.ts'
import { NewPlant, type Plant } from '../../src/plants/schema.ts'
import { selectRequired } from '../../src/plants/statements.ts'

type Values = Record<string, unknown>

/** No text that can be stored. */
const noText = [null, 5, [], 'a\0b', '\ud800', '\udc00\ud800']

/** Of each field two values that its rule accepts, and some that it refuses; those of the id are in route.test.ts. */
const values: Record<keyof Plant, { accepted: [unknown, unknown]; refused: unknown[] }> = {
  name: { accepted: ['a', ''], refused: noText },
  tag: { accepted: ['a', ''], refused: noText }
}

const { properties } = NewPlant
const required: string[] = NewPlant.required ?? []
const fields = Object.keys(properties) as (keyof NewPlant)[]
const content = fields.filter((field) => field !== 'id')
const optional = content.filter((field) => !required.includes(field))
const sample = (index: 0 | 1) =>
  Object.fromEntries(content.map((field) => [field, values[field].accepted[index]]))
const omit = (plant: Values, field: string): Values => ({ ...plant, [field]: undefined })

const full = sample(0)
const other = sample(1)
const bare = optional.reduce(omit, full)

const service = await startService(t)
const { databaseUrl } = service
const keyed = (key: string) => ({ headers: { ...headers, 'idempotency-key': key } })
let lastId = 0

/** The body of the response to a plant: all of its fields but the id. */
const toBody = (plant: Values) => JSON.stringify(plant)

t.test('a wrong value gets 422 with the rule of its field', async (t) => {
  for (const field of fields) {
    const { rule, description } = properties[field]
    t.match(rule, /^an? .+/, field)
    t.match(description, /^[A-Z].+/, `${field} has a description`)
    for (const value of [{}, ...(field === 'id' ? [] : values[field].refused)]) {
      const response = await service.post({ id: ++lastId, ...full, [field]: value })
      t.strictSame(response, failure(422, `${field} must be ${rule}`), `${field} ${JSON.stringify(value)}`)
    }
  }
  t.strictSame(await service.rows('select from plants'), [])
})

t.test('the table has a column for each field, which may be null where the field is optional', async (t) => {
  const rows = await service.rows(`
    select column_name, data_type, is_nullable, column_default
    from information_schema.columns where table_name = 'plants'`)
  const ofFields = fields.map((field) => {
    const { name, type } = columns[field]
    return [name, type, required.includes(field) ? 'NO' : 'YES', null]
  })
  const others = [
    ['write_id', 'uuid', 'NO', null],
    ['created_at', 'timestamp with time zone', 'NO', 'now()']
  ]
  t.strictSame(rows.map((row) => Object.values(row)).sort(), [...ofFields, ...others].sort())
  const indexes = await service.rows(`select indexdef from pg_indexes where tablename = 'plants'`)
  t.strictSame(indexes, [{ indexdef: 'CREATE UNIQUE INDEX plants_pkey ON public.plants USING btree (id)' }])
})

/** The bits of PostgreSQL's integers. */
const integerBits: Record<string, bigint> = { smallint: 16n, integer: 32n, bigint: 64n }

t.test('an integer beyond its column is refused by its rule, and one at its bounds is stored', async (t) => {
  const integers = fields.filter((field) => columns[field].type in integerBits)
  t.ok(integers.includes('id'))
  for (const field of integers) {
    const { name, type } = columns[field]
    const end = 2n ** ((integerBits[type] as bigint) - 1n)
    const { rule, minimum = -end, maximum = end - 1n }: Values = properties[field]
    // As text, since JSON.stringify would round.
    const send = (value: unknown) => {
      const plant = JSON.stringify({ id: ++lastId, ...full, [field]: 0 })
      return service.post(plant.replace(`"${field}":0`, `"${field}":${value}`))
    }
    for (const value of [-end - 1n, end]) {
      t.strictSame(await send(value), failure(422, `${field} must be ${rule}`), `${field} ${value}`)
    }
    for (const value of [minimum, maximum]) {
      t.equal((await send(value)).status, 200, `${field} ${value}`)
      const id = field === 'id' ? value : lastId
      const rows = await service.rows(`select from plants where id = ${id} and ${name} = ${value}`)
      t.equal(rows.length, 1, `${field} ${value}`)
    }
  }
})

t.test('each field is stored and comes back, with a key or without one, alone or in a batch', async (t) => {
  const plants = [full, other, bare, ...optional.map((field) => omit(full, field))]
  const create = async (plant: Values, init: RequestInit) => {
    const id = ++lastId
    const { status, body } = await service.post({ id, ...plant }, init)
    t.strictSame({ status, body }, { status: 200, body: toBody(plant) })
    const [row] = await service.rows('select * from plants where id = $1', [id])
    for (const field of content) t.equal(row[columns[field].name], plant[field] ?? null, field)
  }
  for (const init of [{}, keyed('stored')]) {
    for (const plant of plants) await create(plant, init)
    await Promise.all(
      Array.from({ length: 30 }, (_, index) => create(plants[index % plants.length] ?? {}, init))
    )
  }
})

t.test('a key that is sent again with another value, or without one, gets 422', async (t) => {
  const { error, message } = catalogue.ReusedKey
  for (const field of content) {
    const without = required.includes(field) ? [] : [omit(full, field)]
    const plants = [full, { ...full, [field]: other[field] }, ...without]
    for (const first of plants) {
      const id = ++lastId
      for (const plant of [first, ...plants]) {
        const { status, body } = await service.post({ id, ...plant }, keyed(field))
        const expected = plant === first ? [200, toBody(plant)] : [400, JSON.stringify({ error, message })]
        t.strictSame([status, body], expected, field)
      }
    }
  }
})

t.test('a table that lacks a column is not one to start with', async (t) => {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  const check = () => checkMigrated(selectRequired)(client)
  const names = fields.map((field) => columns[field].name)
  for (const name of [...names, 'write_id', 'created_at']) {
    await client.query(`alter table plants rename column ${name} to absent`)
    t.equal(await check(), 'the database is not migrated: run the migrations first', name)
    await client.query(`alter table plants rename column absent to ${name}`)
  }
  t.equal(await check(), undefined)
})

t.test('the README has a line for each field, and the changelog names it', async (t) => {
  const text = (path: string) => readFileSync(join(import.meta.dirname, '../..', path), 'utf8')
  for (const field of fields) {
    t.match(text('README.md'), `|\`${field}\`|`, field)
    if (field !== 'id') t.match(text('README.md'), `"${field}": …`, `what a success has: ${field}`)
    t.match(text('CHANGELOG.md'), `\`${field}\``, field)
  }
})
