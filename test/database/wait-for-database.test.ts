/** Waiting for the database: what is reported of each thing that it can lack. */
import { once } from 'node:events'
import { connect, Socket } from 'node:net'
import type pg from 'pg'
import t from 'tap'
import { listen } from '../../harness/http/listen.ts'
import { createDatabase, lockTable, query } from '../../harness/postgres/database.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { type Check, checkMigrated, checkStatements, settingChecks } from '../../src/database/checks.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { waitForDatabase } from '../../src/database/wait-for-database.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'
import { databaseChecks } from '../../src/plants/statements.ts'

/** Long enough for one try under load. */
const timeoutMs = 4_000
/** AuthenticationOk and ReadyForQuery (PostgreSQL manual, "Message Formats"). */
const welcome = Buffer.from('R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I', 'latin1')

const wait = (url: string, ms = timeoutMs) => waitForDatabase(() => parseDatabaseUrl(url), ms, databaseChecks)

// Before the others: they take the time, too.
await t.test('what is missing is reported at once, when it changes, and every minute', async (t) => {
  const causes = ['a', 'a', 'b', 'a', 'a', 'a', 'a']
  let tries = 0
  const { now } = performance
  // From the fifth on, each try takes 40 s.
  t.intercept(performance, 'now', { value: () => now.call(performance) + Math.max(0, tries - 4) * 40_000 })
  const reported: [tries: number, missing: string][] = []
  const database = parseDatabaseUrl(await createDatabase(t))
  await waitForDatabase(
    () => database,
    2 ** 31 - 1,
    [async () => causes[tries++]],
    (missing) => void reported.push([tries, missing])
  )
  t.strictSame(reported, [
    [1, 'a'],
    [3, 'b'],
    [4, 'a'],
    [6, 'a']
  ])
})

t.jobs = 8

t.test('a migrated database passes at once', async (t) => {
  t.equal(await wait(await createDatabase(t), 30_000), undefined)
})

t.test('a database that is migrated meanwhile ends the wait', async (t) => {
  const url = await createDatabase(t)
  await query(url, 'alter table plants rename to seeds')
  const waiting = wait(url, 30_000)
  await query(url, 'select pg_sleep(0.4)')
  await query(url, 'alter table seeds rename to plants')
  t.equal(await waiting, undefined)
})

t.test('a server that never responds to a query is given up, and its socket closed', async (t) => {
  let closed: Promise<unknown> | undefined
  const url = await listen(t, (socket) => {
    closed ??= once(socket, 'close')
    socket.once('data', () => socket.write(welcome)).resume()
  })
  await t.rejects(wait(url), new StartupFault(['the database could not be checked: Query read timeout']))
  await closed
})

t.test('a server that accepts and then closes is given up', async (t) => {
  const url = await listen(t, (socket) => {
    socket.once('data', () => socket.write(welcome, () => socket.once('data', () => socket.destroy())))
  })
  const fault = 'the database could not be checked: Connection terminated unexpectedly'
  await t.rejects(wait(url), new StartupFault([fault]))
})

t.test('an attempt with too little time left does not change what is reported', async (t) => {
  const refusal = Buffer.from('E\0\0\0\x26SFATAL\0C57P03\0Mit is starting up\0\0', 'latin1')
  const url = await listen(t, (socket) => {
    socket.once('data', () => setTimeout(() => socket.end(refusal), 500))
  })
  const { host } = new URL(url)
  // Each host has half of what is left: the last attempt ends before the deadline, and without the refusal.
  const waiting = wait(`postgres://127.0.0.1:1,${host}/plants?sslmode=disable`)
  const fault = `127.0.0.1:1 connect ECONNREFUSED 127.0.0.1:1; ${host} it is starting up`
  await t.rejects(waiting, new StartupFault([`the database cannot be reached: ${fault}`]))
})

t.test('what is found in the last moment is reported', async (t) => {
  const url = await createDatabase(t)
  await query(url, 'alter table plants rename to seeds')
  const timeoutMs = scaled(5_000)
  const began = performance.now()
  const current = () => {
    const isLate = performance.now() - began > timeoutMs * 0.6
    return parseDatabaseUrl(isLate ? url : 'postgres://127.0.0.1:1/plants')
  }
  const fault = new StartupFault(['the database is not migrated: run the migrations first'])
  await t.rejects(waitForDatabase(current, timeoutMs, databaseChecks), fault)
})

t.test('a check that waits for a lock is given up at the server, too', async (t) => {
  const url = await createDatabase(t)
  const lock = await lockTable(t, url)
  await t.rejects(wait(url), new StartupFault(['the database could not be checked: Query read timeout']))
  const waiting = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  await until('no session waits', () => query(url, waiting), hasLength(0))
  await lock.query('rollback')
})

t.test('a refusal without a message, as of several addresses, is reported by its code', async (t) => {
  class Refused extends Socket {
    override connect() {
      return this.destroy(Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }))
    }
  }
  const fault = new StartupFault(['the database cannot be reached: ECONNREFUSED'])
  await t.rejects(
    waitForDatabase(() => ({ stream: () => new Refused() }), 1000, []),
    fault
  )
})

t.test('a wrong password is given up, and not shown', async (t) => {
  const url = new URL(await createDatabase(t))
  url.password = 'thyme'
  const fault = `the database cannot be reached: password authentication failed for user "${url.username}"`
  await t.rejects(wait(url.href), new StartupFault([fault]))
})

t.test('a table that lacks a column is not migrated', async (t) => {
  const url = await createDatabase(t)
  await query(url, 'alter table plants drop column write_id')
  const fault = 'the database is not migrated: run the migrations first'
  await t.rejects(wait(url), new StartupFault([fault]))
})

t.test('any other error of a check is reported as it is', async (t) => {
  const url = await createDatabase(t)
  const fault = new StartupFault(['the database could not be checked: division by zero'])
  const checks = [checkMigrated('select 1 / 0')]
  await t.rejects(
    waitForDatabase(() => parseDatabaseUrl(url), timeoutMs, checks),
    fault
  )
})

t.test('an encoding other than UTF8 is refused at once', async (t) => {
  const url = await createDatabase(t, { migrated: false, encoding: 'SQL_ASCII' })
  const fault = "the database's encoding must be UTF8; it is SQL_ASCII"
  await t.rejects(wait(url, 2 ** 31 - 1), new StartupFault([fault]))
})

const settings: [setting: string, value: string, rule: string][] = [
  ['synchronous_commit', 'off', 'synchronous_commit must be remote_write, on or remote_apply'],
  ['synchronous_commit', 'local', 'synchronous_commit must be remote_write, on or remote_apply'],
  ['array_nulls', 'off', 'array_nulls must be on']
]
for (const [setting, value, rule] of settings)
  t.test(`${setting} = ${value} is refused at once`, async (t) => {
    const url = await createDatabase(t)
    await query(url, `alter database ${new URL(url).pathname.slice(1)} set ${setting} = ${value}`)
    await t.rejects(wait(url, 2 ** 31 - 1), new StartupFault([`${rule}; it is ${value}`]))
  })

t.test('a server before PostgreSQL 15 is refused at once', async (t) => {
  const [checkVersion] = settingChecks as [Check, Check]
  const tell = (version: string) => {
    const client = { query: async () => ({ rows: [{ server_version: version }] }) }
    return checkVersion(client as unknown as pg.Client, () => Promise.reject())
  }
  for (const good of ['15.0', '18.4', '20beta1']) t.equal(await tell(good), undefined)
  for (const old of ['14.19', '9.6.24'])
    await t.rejects(tell(old), new StartupFault([`PostgreSQL must be version 15 or later; it is ${old}`]))
})

/** A trigger for this event that sets a column. */
const setRegion = (event: string) =>
  `create function place() returns trigger language plpgsql as $$ begin new.region := 'here'; return new; end $$;
     create trigger place ${event} on plants for each row execute function place()`
const misfits: [sql: string, missing: string, remedy: string][] = [
  ...['after insert', 'before update'].map((event): [string, string, string] => [
    `${setRegion(event)}; alter table plants add region text not null`,
    'column region of public.plants is required, but not written: alter table public.plants alter region set default …',
    "alter table public.plants alter region set default ''"
  ]),
  [
    `${setRegion('before insert')}; alter table plants disable trigger place, add region text not null`,
    'column region of public.plants is required, but not written: alter table public.plants alter region set default …',
    "alter table public.plants alter region set default ''"
  ],
  [
    'create domain code as text not null; alter table plants add column "a code" code',
    'column "a code" of public.plants is required, but not written: alter table public.plants alter "a code" set default …',
    `alter table public.plants alter "a code" set default ''`
  ],
  [
    `create domain code as text not null; create domain "code 2" as code; alter table plants add region "code 2";
     ${setRegion('before insert')}`,
    'column region of public.plants is required, but not written: alter table public.plants alter region set default …',
    `alter table plants alter region set default ''`
  ],
  ...['insert', 'update'].map((event): [string, string, string] => [
    `create rule "The rule" as on ${event} to plants do instead nothing`,
    'rule "The rule" of public.plants excludes creates: drop rule "The rule" on public.plants',
    'drop rule "The rule" on public.plants'
  ]),
  [
    'alter table plants set unlogged',
    'table plants loses plants in a crash: alter table plants set logged',
    'alter table plants set logged'
  ],
  [
    `alter table plants rename to seeds; create table plants (like seeds including all) partition by hash (id);
     create unlogged table part partition of plants for values with (modulus 1, remainder 0)`,
    'table part loses plants in a crash: alter table part set logged',
    'alter table part set logged'
  ],
  [
    'alter table plants alter tag type integer using null',
    'the table does not fit this release; undo the change to it: column "tag" is of type integer but expression is of type text',
    'alter table plants alter tag type text'
  ]
]
for (const [sql, missing, remedy] of misfits)
  t.test(`${sql}: a start waits, says the remedy, and then passes`, async (t) => {
    const url = await createDatabase(t)
    await query(url, sql)
    const told: string[] = []
    await waitForDatabase(
      () => parseDatabaseUrl(url),
      scaled(60_000),
      databaseChecks,
      (line) => {
        told.push(line)
        void query(url, remedy)
      }
    )
    t.strictSame(told, [missing])
  })

t.test('columns with a default, an identity, a null or a trigger pass, and a rule that is off', async (t) => {
  const url = await createDatabase(t)
  await query(
    url,
    `create domain area as text default 'x'; ${setRegion('before insert')};
     alter table plants add a text not null default '', add b int generated always as identity, add c text, add region text not null,
       add d bigint generated always as (id + 1) stored not null, add e area not null;
     create rule off as on insert to plants do instead nothing; alter table plants disable rule off`
  )
  t.equal(await wait(url, 30_000), undefined)
})

t.test('the statements are tried without a row, a lock or a trigger of a row', async (t) => {
  const url = await createDatabase(t)
  await query(
    url,
    `create function forbid() returns trigger language plpgsql as $$ begin raise 'a row'; end $$;
     create trigger forbid before insert on plants for each row execute function forbid();
     create table audit (at timestamptz);
     create function note() returns trigger language plpgsql as $$ begin insert into audit values (now()); return null; end $$;
     create trigger note after insert on plants execute function note()`
  )
  t.equal(await wait(url, 30_000), undefined)
  t.strictSame(
    await query(url, 'select from audit'),
    [],
    'what a trigger of the statement does is rolled back'
  )
})

t.test('behind a pooler, the statements are tried while other sessions keep servers busy', async (t) => {
  const url = new URL(await createDatabase(t))
  const port = Number(url.port)
  let sessions = 0
  const pooler = new URL(
    await listen(t, (socket) => {
      sessions++
      const server = connect(port, '127.0.0.1').on('error', () => {})
      socket.pipe(server)
      server.on('end', () => socket.end())
      server.on('data', (bytes) => {
        // BackendKeyData: a number that is not the server's.
        const at = bytes.indexOf('K\0\0\0\x0c')
        if (at >= 0) bytes.writeInt32BE(-1, at + 5)
        socket.write(bytes)
      })
    })
  )
  url.port = pooler.port
  t.equal(await wait(url.href, 30_000), undefined)
  t.equal(sessions, 4)
  const losing = [checkStatements([{ text: `do $$ begin raise sqlstate '26000'; end $$` }])]
  const missing =
    'the pooler loses prepared statements: set max_prepared_statements above 0 in PgBouncer 1.21 or later, or pool_mode to session'
  await t.rejects(
    waitForDatabase(() => parseDatabaseUrl(url.href), 2_000, losing),
    new StartupFault([missing])
  )
})

t.test('a statement that fails for another reason is reported as it is', async (t) => {
  const url = await createDatabase(t)
  const checks = [checkStatements([{ text: 'select 1 / 0' }])]
  await t.rejects(
    waitForDatabase(() => parseDatabaseUrl(url), timeoutMs, checks),
    new StartupFault(['the database could not be checked: division by zero'])
  )
})

const all = await query(
  await createDatabase(t),
  `select column_name as name from information_schema.columns where table_name = 'plants' order by ordinal_position`
)
/** The columns of the table, but some. */
const columnsBut = (...others: string[]) =>
  all.flatMap(({ name }) => (others.includes(name) ? [] : [name])).join(', ')

const [{ emit }] = await query(
  process.env.TEST_DATABASE_URL as string,
  `select 'function ' || oid::regprocedure as emit from pg_proc
   where proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype`
)
/** Roles by what they lack: of the schema s, with the table, and the role r. */
const withRights: [title: string, revoked: string, missing: (schema: string, role: string) => string[]][] = [
  ['nothing', 'select', () => []],
  ['the schema', 'revoke usage on schema s from r', (s, r) => [`usage on schema ${s} to ${r}`]],
  [
    'all of the table',
    'revoke all on s.plants from r',
    (s, r) => [
      `insert (${columnsBut('created_at')}) on ${s}.plants to ${r}`,
      `select (${columnsBut()}) on ${s}.plants to ${r}`
    ]
  ],
  [
    'some columns',
    'revoke all on s.plants from r; grant select, insert (id) on s.plants to r',
    (s, r) => [`insert (${columnsBut('created_at', 'id')}) on ${s}.plants to ${r}`]
  ],
  [
    'a column to be read',
    `revoke select on s.plants from r; grant select (${columnsBut('write_id')}) on s.plants to r`,
    (s, r) => [`select (write_id) on ${s}.plants to ${r}`]
  ],
  ['the function', `revoke execute on ${emit} from public`, (_, r) => [`execute on ${emit} to ${r}`]]
]
for (const [index, [title, revoked, missing]] of withRights.entries()) {
  t.test(`a role that lacks ${title} is given up; the reported SQL grants the right`, async (t) => {
    const owner = await createDatabase(t)
    // Names that need quotes.
    const role = `"Role ${index} of ${new URL(owner).pathname.slice(1)}"`
    const schema = '"a-b"'
    const run = (sql: string) => query(owner, sql.replaceAll(/\br\b/g, role).replaceAll(/\bs\b/g, schema))
    t.teardown(() => run('drop owned by r; drop role r'))
    await run(`create role r login password 'thyme'; create schema s; alter table plants set schema s`)
    await run('grant usage on schema s to r; grant select, insert on s.plants to r')
    await run(`alter role r set search_path = "$user", "a-b", public; ${revoked}`)
    const url = new URL(owner)
    url.username = encodeURIComponent(role.slice(1, -1))
    url.password = 'thyme'

    const grants = missing(schema, role).map((right) => `grant ${right};`)
    if (grants.length > 0) {
      const fault = `the role lacks rights; run: ${grants.join(' ')}`
      await t.rejects(wait(url.href), new StartupFault([fault]))
      await query(owner, grants.join(' '))
    }
    t.equal(await wait(url.href, 30_000), undefined)
  })
}
