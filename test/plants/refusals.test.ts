/** What the database refuses: whose fault it is, what a client learns of it, and where the operator finds the cause. */
import t, { type Test } from 'tap'
import { createDatabase } from '../../harness/postgres/database.ts'
import { failure, headers, type Service, startService, success } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'

const refused = failure(422, 'the plant breaks a rule of this store')
const broken = failure(500, 'internal error', { 'write-outcome': 'none' })

/** Returns the line of the newest create, without what differs from run to run. */
async function lastLine(service: Service, message: string) {
  const find = () => service.log().findLast(({ msg }) => msg === message)
  return until('the line is there', find, Boolean)
}

const reportsOf = async (service: Service) =>
  [
    ...(await service.metrics()).matchAll(
      /^plant_store_database_errors_total\{sqlstate="(\w+)"\} ([1-9]\d*)$/gm
    )
  ].map(([, code, count]) => [code, Number(count) > 0])

async function startWith(t: Test, sql: string) {
  const service = await startService(t)
  t.strictSame(await service.post({ id: 1, name: 'n' }), success({ name: 'n' }))
  await service.rows(sql)
  return service
}

const own: [title: string, sql: string, code: string, cause: object][] = [
  [
    'a required column that the service does not write',
    'alter table plants add column region text; update plants set region = 0; alter table plants alter region set not null',
    '23502',
    {
      code: '23502',
      table: 'plants',
      column: 'region',
      routine: /^(ExecConstraints|ReportNotNullViolationError)$/
    }
  ],
  ['a column that is gone', 'alter table plants drop column tag', '42703', { code: '42703' }],
  ['a changed type', 'alter table plants alter tag type integer using null', '42804', { code: '42804' }],
  [
    'a rule',
    'create rule other as on insert to plants do instead nothing',
    '0A000',
    { code: '0A000', routine: 'RewriteQuery' }
  ]
]
for (const [title, sql, code, cause] of own)
  t.test(`${title} is the operator's: 500, and nothing is stored`, async (t) => {
    const service = await startWith(t, sql)
    t.strictSame(await service.post({ id: 2, name: 'thyme' }), broken)
    const line = await lastLine(service, 'internal error')
    t.match(line, { level: 50, err: { cause } })
    t.strictSame(await reportsOf(service), [[code, true]])
    t.notMatch(JSON.stringify(line), 'thyme')
    t.strictSame(await service.rows('select id from plants'), [{ id: '1' }])
  })

t.test('an id that the operator has made narrower: what fits is stored, the rest is refused', async (t) => {
  const service = await startWith(t, 'alter table plants alter id type integer')
  t.strictSame(await service.post({ id: 2, name: 'n' }), success({ name: 'n' }))
  const keyed = { headers: { ...headers, 'idempotency-key': 'key' } }
  for (const _ of ['first', 'repeat'])
    t.match(await service.post({ id: 3, name: 'n' }, keyed), { status: 200, body: '{"name":"n"}' })
  t.strictSame(await service.post({ id: 2 ** 31, name: 'n' }), refused)
})

t.test('with array_nulls off, which the start refuses, no plant is stored with NULL as a text', async (t) => {
  const url = await createDatabase(t)
  const service = await startService(t, { DATABASE_URL: `${url}?options=-c%20array_nulls%3Doff` })
  const { body } = await service.post({ id: 1, name: 'n' })
  // A column of another type than text refuses NULL.
  t.ok([broken, refused].map(({ body }) => body).includes(body), body)
  t.strictSame(await service.rows('select id from plants'), [])
})

const rules: [title: string, sql: string, cause: object][] = [
  [
    'a constraint',
    `alter table plants add constraint "short names" check (length(name) < 5)`,
    {
      code: '23514',
      schema: 'public',
      table: 'plants',
      constraint: 'short names',
      routine: 'ExecConstraints'
    }
  ],
  [
    'a trigger',
    `create function "no thyme"() returns trigger language plpgsql as $$ begin raise 'not %', new.name; end $$;
     create trigger t before insert on plants for each row execute function "no thyme"()`,
    { code: 'P0001', routine: 'exec_stmt_raise', function: '"no thyme"' }
  ],
  [
    'a column that the service does not write, of a trigger',
    `create table audit (at timestamptz not null);
     create function note() returns trigger language plpgsql as $$ begin insert into audit values (null); return new; end $$;
     create trigger t before insert on plants for each row execute function note()`,
    { code: '23502', table: 'audit', column: 'at' }
  ],
  [
    'a domain',
    `create domain short as text check (length(value) < 5); alter table plants alter name type short`,
    { code: '23514', dataType: 'short', constraint: 'short_check' }
  ],
  [
    'a domain that has no null',
    `update plants set tag = ''; create domain present as text not null; alter table plants alter tag type present`,
    { code: '23502', dataType: 'present' }
  ]
]
for (const [title, sql, cause] of rules)
  t.test(`${title} refuses a plant: 422, and its line names the rule, not the plant`, async (t) => {
    const service = await startWith(t, sql)
    t.strictSame(await service.post({ id: 2, name: 'thyme' }), refused)
    const line = await lastLine(service, 'the plant breaks a rule of this store')
    t.match(line, { level: 30, failure: 422, cause })
    t.notMatch(JSON.stringify(line).replace('no thyme', ''), 'thyme')
    t.strictSame(await reportsOf(service), [[(cause as { code: string }).code, true]])
  })

for (const code of ['53100', '58030'])
  t.test(`too few resources (${code}) have a state of their own, also afterwards`, async (t) => {
    const deadlineMs = scaled(4_000)
    const service = await startService(t, { WRITE_DEADLINE_MS: String(deadlineMs) })
    const state = async () => {
      const page = await service.metrics()
      const value = (name: string) => new RegExp(`^plant_store_${name} (\\d+)$`, 'm').exec(page)?.[1]
      return [value('database_exhausted'), value('database_away'), value('queue_rows')]
    }
    t.strictSame(await state(), ['0', '0', '0'])
    await service.rows(
      `create function full_disk() returns trigger language plpgsql as $$ begin raise sqlstate '${code}'; end $$;
       create trigger t before insert on plants for each row execute function full_disk()`
    )
    const response = service.post({ id: 1, name: 'n' })
    if (code === '53100') {
      await until('a create waits', state, ([exhausted, , waiting]) => exhausted === '1' && waiting === '1')
      t.match(await response, { body: /"error":503/ })
      await service.rows('drop trigger t on plants')
      t.strictSame(await service.post({ id: 2, name: 'n' }), success({ name: 'n' }))
    } else t.strictSame(await response, broken)
    t.strictSame(await reportsOf(service), [[code, true]])
    t.strictSame(await state(), ['1', '0', '0'], 'for 15 s')
  })
