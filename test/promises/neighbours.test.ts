/** Promise 8: what one create meets is told to it alone, and the creates that shared its transaction are stored. */
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  createDatabase,
  createRole,
  lockTable,
  openSession,
  query,
  untilBlocked
} from '../support/postgres/database.ts'
import { isOldest } from '../support/postgres/embedded-postgres.ts'
import { type Server, startServer } from '../support/postgres/server.ts'
import { failure, type Reply, replay, success } from '../support/responses.ts'
import { keyed, type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** How many good creates come together with a bad one: half of them before it. */
const neighbours = 24

/** What the table's triggers do with a row of this name. */
const before: Record<string, string> = {
  raises: `raise 'not this one'`,
  'raises a class of its own': `raise sqlstate 'ZZ001'`,
  'raises data too large': `raise sqlstate '54000'`,
  'raises a check': `raise sqlstate '23514'`,
  'writes too little to another table': 'insert into audit default values',
  'divides by zero': 'perform 1 / 0',
  'raises an internal error': `raise sqlstate 'XX001'`,
  'raises an I/O error': `raise sqlstate '58030'`,
  'lacks a right': `raise sqlstate '42501'`,
  'finds no table': 'perform 1 from nowhere',
  'recurses without end': 'perform recurse()',
  'swallows the row': 'return null',
  'assigns the id': 'new.id := -new.id',
  sleeps: 'perform pg_sleep(0.3)',
  'waits for a lock': 'perform pg_advisory_xact_lock(1)',
  // These last until the gate is opened.
  endless: 'while exists (select from gate) loop perform pg_sleep(0.01); end loop',
  'raises a serialization failure': `if exists (select from gate) then raise sqlstate '40001'; end if`,
  'raises a deadlock': `if exists (select from gate) then raise sqlstate '40P01'; end if`,
  'raises a broken connection': `if exists (select from gate) then raise sqlstate '08006'; end if`,
  'raises a full disk': `if exists (select from gate) then raise sqlstate '53100'; end if`
}

const cases = Object.entries(before).map(([name, statement]) => `when '${name}' then ${statement};`)
const setUp = `
  create table gate as select 1;
  create table audit (required text not null);
  create function recurse() returns void language plpgsql as $$ begin perform recurse(); end $$;
  create function rule() returns trigger language plpgsql as $$
    begin case new.name ${cases.join('\n')} else null; end case; return new; end $$;
  create trigger rule before insert on plants for each row execute function rule();
  create function late() returns trigger language plpgsql as $$ begin raise 'too late'; end $$;
  create constraint trigger late after insert on plants deferrable initially deferred
    for each row when (new.name = 'deferred') execute function late();
  insert into plants (id, name, tag, write_id) values
    (1, 'theirs', '', gen_random_uuid()), (2, 'unique', '', gen_random_uuid()),
    -- Random, so that compression leaves it too large for its page.
    (3, (select string_agg(md5(random()::text), '') from generate_series(1, 1000)), '', gen_random_uuid());
  create unique index on plants (name) where name = 'unique';
  alter table plants add constraint checked check (name <> 'checked') not valid, alter column tag set not null;
  alter table plants enable row level security;
  create policy may_read on plants for select using (true);
  create policy may_insert on plants for insert with check (name <> 'of a policy')`

const server = await startServer(t)
await query(server.url, setUp)
await damage(server)
const role = await createRole(t, server.url, 'secret')
await query(
  server.url,
  `grant select on gate to ${role.name}; grant insert on audit to ${role.name}`
)
const serviceUrl = Object.assign(new URL(server.url), {
  username: role.name,
  password: 'secret'
}).href
const withOption = (option: string) => ({ DATABASE_URL: `${serviceUrl}?options=-c%20${option}` })
const [service, serializable, limited] = await Promise.all([
  startService(t, { DATABASE_URL: serviceUrl }),
  startService(t, withOption('default_transaction_isolation%3Dserializable')),
  startService(t, withOption(`${isOldest ? 'statement_timeout' : 'transaction_timeout'}%3D1s`))
])

/** Overwrites the pages of the longest text: whoever reads it gets an error. */
async function damage({ directory, url, down, up }: Server) {
  const toast = `select pg_relation_filepath(reltoastrelid) as path from pg_class where relname = 'plants'`
  const [{ path }] = await query(url, toast)
  await down()
  const file = await open(join(directory, 'cluster', path), 'r+')
  await file.write(Buffer.alloc((await file.stat()).size), 0)
  await file.close()
  await up()
}

const refused = failure('RefusedPlant')
const internal = failure('Internal')
const duplicate = failure('DuplicatePlant')
/** At the deadline a row may be in an attempt, or between two. */
const late = [failure('DeadlineExceeded'), failure('OutcomeUnknown')]

let lastId = 1_000
type Plant = { id: number; name: string; tag?: string }
const good = (): Plant => ({ id: ++lastId, name: 'good', tag: 'green' })
const named = (name: string): Plant => ({ ...good(), name })

/** Sends creates together. */
const send = ({ post }: Service, plants: Plant[]) => plants.map((plant) => post(plant))

/** Asserts that every good one has got 200, and is stored. */
async function assertStored(t: Test, plants: Plant[], replies: Promise<Reply>[]) {
  const others = (await Promise.all(replies)).filter(({ status }) => status !== 200)
  t.strictSame(others.slice(0, 3), [], 'each good one gets 200')
  const ids = plants.map(({ id }) => id)
  const rows = await query(server.url, `select from plants where id = any ($1) and tag = 'green'`, [
    ids
  ])
  t.equal(rows.length, plants.length, 'each good one is stored')
}

type Hold = (t: Test, bad: Plant) => Promise<() => Promise<unknown>>

interface Case {
  bad: Plant
  /** What the bad one gets. */
  reply: Reply
  service?: Service
  /** Begins what the bad one waits for; returns what ends it, which is called when all good ones have their response. */
  hold?: Hold | undefined
}

const told = (bad: Plant, reply: Reply, service?: Service): Case => ({
  bad,
  reply,
  ...(service && { service })
})
const createdAs = (name: string, hold?: Hold): Case => ({
  bad: named(name),
  reply: success({ name, tag: 'green' }),
  ...(hold && { hold })
})
/** Holds something in a transaction that ends so. */
const inTransaction =
  (sql: (bad: Plant) => string, end: 'commit' | 'rollback'): Hold =>
  async (t, bad) => {
    const holder = await openSession(t, server.url, `begin; ${sql(bad)}`)
    return () => holder.query(end)
  }
const insertTheirs = ({ id }: Plant) =>
  `insert into plants values (${id}, 'theirs', '', gen_random_uuid())`
/** What is behind the gate lasts until all good ones have their response. */
const behindGate = async () => () => query(server.url, 'delete from gate')

/** A bad row beside good ones. */
const table: Record<string, Case> = {
  'an id that is taken: 409': told({ ...good(), id: 1 }, duplicate),
  'an id that is taken by a damaged row: 409, as nobody reads it': told(
    { ...good(), id: 3 },
    duplicate
  ),
  'a check: 422': told(named('checked'), refused),
  'no value where the table requires one: 422': told(
    { id: ++lastId, name: 'without a tag' },
    refused
  ),
  'a unique name that is taken: 422': told(named('unique'), refused),
  'row security that refuses it: 500': told(named('of a policy'), internal),
  'a deferred constraint: 422': told(named('deferred'), refused),
  'a trigger that raises: 422': told(named('raises'), refused),
  'a trigger that raises a class of its own: 422': told(
    named('raises a class of its own'),
    refused
  ),
  'a trigger that says too large: 422': told(named('raises data too large'), refused),
  'a trigger that raises a check: 422': told(named('raises a check'), refused),
  'a trigger that writes too little to another table: 500': told(
    named('writes too little to another table'),
    internal
  ),
  'a trigger that divides by zero: 500': told(named('divides by zero'), internal),
  'a trigger that meets an internal error: 500': told(named('raises an internal error'), internal),
  'a trigger that meets an I/O error: 500': told(named('raises an I/O error'), internal),
  'a trigger that lacks a right: 500': told(named('lacks a right'), internal),
  'a trigger that finds no table: 500': told(named('finds no table'), internal),
  'a trigger that swallows the row: 500': told(named('swallows the row'), internal),
  'a trigger that assigns the id: 200': createdAs('assigns the id'),
  'a trigger that sleeps: 200': createdAs('sleeps'),
  'a trigger that waits for a lock: 200 when that is gone': createdAs(
    'waits for a lock',
    inTransaction(() => 'select pg_advisory_xact_lock(1)', 'commit')
  ),
  'an id that another transaction inserts: 409 when that has committed': {
    ...told(good(), duplicate),
    hold: inTransaction(insertTheirs, 'commit')
  },
  'an id that another transaction gives up: 200': {
    ...createdAs('given up'),
    hold: inTransaction(insertTheirs, 'rollback')
  },
  'a trigger without end: 200 when it has one': createdAs('endless', behindGate),
  'a trigger that says try again: 200 when it does not': createdAs(
    'raises a serialization failure',
    behindGate
  ),
  'a trigger that meets a deadlock: 200 when it does not': createdAs(
    'raises a deadlock',
    behindGate
  ),
  'a trigger that loses a connection of its own: 200 when it does not': createdAs(
    'raises a broken connection',
    behindGate
  ),
  'a trigger that has no space: 200 when it has': createdAs('raises a full disk', behindGate),
  'transactions that are serializable, an id that is taken: 409': told(
    { ...good(), id: 1 },
    duplicate,
    serializable
  ),
  'transactions that are serializable, an id that another one inserts: 409': {
    ...told(good(), duplicate, serializable),
    hold: inTransaction(insertTheirs, 'commit')
  },
  'transactions that may last a second, a trigger without end: 200 when it has one': {
    ...createdAs('endless', behindGate),
    service: limited
  }
}

for (const [title, { bad, reply, hold, ...own }] of Object.entries(table))
  t.test(`beside ${title}`, async (t) => {
    const asked = own.service ?? service
    const release = await hold?.(t, bad)
    const plants = Array.from({ length: neighbours }, good)
    const replies = send(asked, plants.toSpliced(neighbours / 2, 0, bad))
    const [ofBad] = replies.splice(neighbours / 2, 1)
    let isTold = false
    void ofBad?.then(() => (isTold = true))
    await assertStored(t, plants, replies)
    if (release) t.notOk(isTold, 'the bad one waits')
    await release?.()
    t.strictSame(await ofBad, reply, 'the bad one')
    await query(server.url, 'insert into gate select 1 where not exists (select from gate)')
    const rows = await query(server.url, 'select from plants where abs(id) = $1', [bad.id])
    t.equal(rows.length, reply.status === 200 || reply === duplicate ? 1 : 0, 'its rows')
  })

t.test('bad ones that never end: 503 by the deadline, and each good one 200', async (t) => {
  const hasty = await startService(t, { DATABASE_URL: serviceUrl, WRITE_DEADLINE_MS: '15000' })
  const holder = await openSession(t, server.url, 'begin')
  const locked = good()
  await holder.query(insertTheirs(locked))
  const endless = [
    'endless',
    'raises a serialization failure',
    'raises a broken connection',
    'raises a full disk'
  ]
  const bad = [locked, ...endless.map(named)]
  const ofBad = send(hasty, bad)
  const plants = Array.from({ length: neighbours }, good)
  await assertStored(t, plants, send(hasty, plants))
  for (const [index, reply] of (await Promise.all(ofBad)).entries())
    t.ok(
      late.some(({ body }) => body === reply.body),
      `${bad[index]?.name}: ${reply.body}`
    )
})

t.test('a table that is locked for a while: 200 for all when it is free', async (t) => {
  const holder = await lockTable(t, server.url)
  const plants = Array.from({ length: neighbours }, good)
  const replies = send(service, plants)
  await untilBlocked(server.url)
  await holder.query('rollback')
  await assertStored(t, plants, replies)
})

t.test('a crowd of ids that are locked and of rows without end: each good one 200', async (t) => {
  const locked = Array.from({ length: 20 }, good)
  const endless = Array.from({ length: 20 }, () => named('endless'))
  const holder = await openSession(t, server.url, `begin; ${locked.map(insertTheirs).join('; ')}`)
  const plants = Array.from({ length: 10 * (locked.length + endless.length) }, good)
  const mixed = [...locked, ...endless].flatMap((bad, n) => [
    bad,
    ...plants.slice(10 * n, 10 * n + 10)
  ])
  const replies = send(service, mixed)
  const of = (isWanted: (plant: Plant) => boolean) =>
    replies.filter((_, n) => isWanted(mixed[n] as Plant))
  await assertStored(
    t,
    plants,
    of((plant) => plants.includes(plant))
  )
  await holder.query('commit')
  await query(server.url, 'delete from gate')
  t.strictSame(await Promise.all(of((plant) => locked.includes(plant))), Array(20).fill(duplicate))
  const created = success({ name: 'endless', tag: 'green' })
  t.strictSame(await Promise.all(of((plant) => endless.includes(plant))), Array(20).fill(created))
})

t.test('clients that repeat bad rows in a loop: each good one 200', async (t) => {
  let isOver = false
  const loop = async (name: string, reply: Reply) => {
    while (!isOver) t.strictSame(await service.post(named(name)), reply)
  }
  const loops = [
    loop('raises', refused),
    loop('checked', refused),
    loop('raises an internal error', internal)
  ]
  for (let round = 0; round < 10; round++) {
    const plants = Array.from({ length: 20 }, good)
    await assertStored(t, plants, send(service, plants))
  }
  isOver = true
  await Promise.all(loops)
})

t.test(
  'a partition that nobody has made is no fault of the plant: 500, and the log names the table',
  async (t) => {
    const own = await startService(t)
    await own.rows(`
    alter table plants rename to old;
    create table plants (like old including all) partition by range (id);
    create table plants_1 partition of plants for values from (1) to (1000)`)
    t.match(await own.post({ id: 1, name: 'n' }), success({ name: 'n' }))
    t.match(await own.post({ id: 1_000, name: 'n' }), internal)
    const line = await until('it is logged', () => own.log().find(({ level }) => level === 50))
    t.match(
      JSON.stringify(line),
      /"errorName":"Internal".*"the table has no partition for the id".*"table":"plants"/
    )
  }
)

/** Triggers that fail for a statement that has inserted no rows, or too many. */
const expectRows = `
  create table audit (total numeric not null, rows int not null);
  create function audit() returns trigger language plpgsql as $$ begin
    insert into audit select sum(id), count(*) from added; return null; end $$;
  create function expect() returns trigger language plpgsql as $$ begin
    if (select count(*) from added) not between 1 and 1000 then raise 'a statement without rows'; end if;
    return null; end $$;
  create trigger audit after insert on plants referencing new table as added
    for each statement execute function audit();
  create trigger expect after insert on plants referencing new table as added
    for each statement execute function expect();
  create function early() returns trigger language plpgsql as $$ begin
    insert into early default values; return null; end $$;
  create table early (at timestamptz not null default now());
  create trigger early before insert on plants for each statement execute function early();
  alter table plants add constraint checked check (name <> 'checked') not valid`

t.test(
  'triggers for each statement that expect rows: nothing but a plant fires them',
  async (t) => {
    const url = await createDatabase(t)
    await query(url, expectRows)
    const own = await startService(t, { DATABASE_URL: url })
    t.strictSame(await query(url, 'select from early'), [], 'the start fires none')
    const plants = Array.from({ length: neighbours }, good)
    const bad = named('checked')
    const replies = send(own, plants.toSpliced(neighbours / 2, 0, bad))
    const [ofBad] = replies.splice(neighbours / 2, 1)
    for (const reply of await Promise.all(replies)) t.match(reply, { status: 200 })
    t.strictSame(await ofBad, refused)
    const holder = await lockTable(t, url)
    const later = send(own, [good(), good()])
    await untilBlocked(url)
    await holder.query('rollback')
    for (const reply of await Promise.all(later)) t.match(reply, { status: 200 })
    const [{ rows }] = await query(url, 'select sum(rows)::int as rows from audit')
    t.equal(rows, neighbours + 2)
    t.strictSame(await query(url, 'select from audit where rows = 0'), [])
    t.strictSame(
      await own.post(plants[0]),
      duplicate,
      'a taken id is taken, although the trigger raises'
    )
  }
)

t.test(
  "row security that is switched on while the service serves is never the client's fault",
  async (t) => {
    const url = await createDatabase(t)
    const role = await createRole(t, url, 'secret')
    const asRole = Object.assign(new URL(url), { username: role.name, password: 'secret' })
    const own = await startService(t, { DATABASE_URL: asRole.href })
    const plant = good()
    const stored = success({ name: plant.name, tag: 'green' })
    t.strictSame(await own.post(plant, keyed('a')), stored)
    /** What an operator adds, and what the log then says. */
    const steps: [sql: string, says: RegExp][] = [
      ['alter table plants enable row level security', /row security refuses the row/],
      ['create policy may_insert on plants for insert with check (true)', /row security/],
      [`create policy may_read on plants for select using (id <> ${plant.id})`, /row security/]
    ]
    for (const [sql, says] of steps) {
      await query(url, sql)
      const before = own.log().length
      t.strictSame(await own.post(plant, keyed('a')), internal, sql)
      const line = await until('it is logged', () =>
        own
          .log()
          .slice(before)
          .find(({ level }) => level === 50)
      )
      t.match(JSON.stringify(line), says)
    }
    await query(url, 'alter policy may_read on plants using (true)')
    t.strictSame(await own.post(plant, keyed('a')), replay({ name: plant.name, tag: 'green' }))
  }
)

t.test('a long plant whose id was locked for a while is stored', async (t) => {
  const service = await startService(t, { BODY_LIMIT_BYTES: String(2 ** 25) })
  const holder = await openSession(t, service.databaseUrl, 'begin')
  const insert = 'insert into plants (id, name, write_id) values (1, $1, gen_random_uuid())'
  await holder.query(insert, ['theirs'])
  const name = 'n'.repeat(2 ** 22)
  const reply = service.post({ id: 1, name })
  await until(
    'it has waited for the lock',
    async () => (await service.metrics()).values('plant_store_database_errors_total'),
    (errors) => Number(errors['55P03']) > 0
  )
  await holder.query('rollback')
  const { status, body } = await reply
  t.strictSame([status, body.length], [200, name.length + '{"name":""}'.length])
})
