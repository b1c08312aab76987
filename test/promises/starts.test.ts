/** A database or an address that cannot serve ends a start in one line, before anything is served; a good start waits. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import t, { type Test } from 'tap'
import { listen } from '../support/listen.ts'
import {
  createDatabase,
  createRole,
  migrate,
  query,
  setServer
} from '../support/postgres/database.ts'
import { freePort } from '../support/postgres/embedded-postgres.ts'
import { startServer } from '../support/postgres/server.ts'
import { migrateFile, run, serverFile, start } from '../support/process.ts'
import { type Env, hidden, refuses, type Says, saysMissing } from '../support/refusal.ts'
import { failure, success } from '../support/responses.ts'
import { linesOf, post, send, startService, token } from '../support/service.ts'

const nowhere = `postgres://gardener:${hidden}@127.0.0.1:1/plants`
const noServer = 'the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1'
const service = {
  HOST: '127.0.0.1',
  PORT: '0',
  DATABASE_URL: nowhere,
  AUTH_TOKENS: `shop:${token}`
}
/** Long enough for an attempt under load, short enough to wait for. */
const briefly = { STARTUP_TIMEOUT_MS: '4000' }

t.jobs = 4

/** Starts that end at once. */
const refused: [title: string, env: (t: Test) => Promise<Env>, says: Says][] = [
  [
    'a database in another encoding',
    async (t) => ({
      DATABASE_URL: await createDatabase(t, { migrated: false, encoding: 'SQL_ASCII' })
    }),
    ["the database's encoding must be UTF8; it is SQL_ASCII"]
  ],
  [
    'synchronous_commit=off',
    (t) => withDatabase(t, 'alter database NAME set synchronous_commit = off'),
    ['synchronous_commit must be remote_write, on or remote_apply; it is off']
  ],
  [
    'array_nulls=off',
    (t) => withDatabase(t, 'alter database NAME set array_nulls = off'),
    ['array_nulls must be on; it is off']
  ],
  [
    'PostgreSQL 14',
    async (t) => ({ DATABASE_URL: await startOldServer(t) }),
    /PostgreSQL must be version 15 or later; it is 14\./
  ],
  [
    'a PORT that is taken',
    async (t) => ({ ...(await withDatabase(t)), PORT: await takePort(t) }),
    /EADDRINUSE.* 127\.0\.0\.1:\d+/
  ],
  [
    'a METRICS_PORT that is taken',
    async (t) => ({ ...(await withDatabase(t)), METRICS_PORT: await takePort(t) }),
    /EADDRINUSE.* 127\.0\.0\.1:\d+/
  ]
]

for (const [title, env, says] of refused)
  t.test(`${title}: the service does not start`, async (t) => {
    await refuses(
      t,
      serverFile,
      { ...service, STARTUP_TIMEOUT_MS: '120000', ...(await env(t)) },
      says
    )
  })

const givesUp: [title: string, url: (t: Test) => Promise<string>, says: Says][] = [
  ['is unreachable', async () => nowhere, [noServer]],
  ['never responds', (t) => listenSilently(t), ['the database cannot be reached: timeout expired']]
]
for (const [title, url, says] of givesUp)
  t.test(`the service gives up after STARTUP_TIMEOUT_MS on a database that ${title}`, async (t) => {
    await refuses(t, serverFile, { ...service, ...briefly, DATABASE_URL: await url(t) }, says)
  })

/** What is done to a database that the service waits for, one after the other, and what it then says is missing. */
const awaited: [title: string, sql: string, missing: RegExp][] = [
  [
    'a wrong password',
    `alter role ROLE password 'another'`,
    /password authentication failed for user "role_/
  ],
  ['no rights', `alter role ROLE password '${hidden}'`, /permission denied|on public.plants/],
  [
    'an empty search_path',
    `grant select, insert on plants to ROLE; alter role ROLE set search_path = ''`,
    /^the table plants is in the schema public, where the role role_\w+ does not look: its search_path is "", and/
  ],
  [
    'another search_path',
    'alter role ROLE set search_path = garden, pg_catalog',
    /its search_path is garden, pg_catalog, and/
  ],
  [
    'no usage of the schema',
    'alter role ROLE reset search_path; revoke usage on schema public from public',
    /in the schema public, where .* and it needs the right of usage of the schema$/
  ],
  [
    'no insert',
    'grant usage on schema public to public; revoke insert on plants from ROLE; grant select on plants to ROLE',
    /permission denied|insert .* on public.plants/
  ],
  [
    'no select',
    'revoke select on plants from ROLE; grant insert on plants to ROLE',
    /permission denied|select .* on public.plants/
  ],
  [
    'no policy',
    'grant select on plants to ROLE; alter table plants enable row level security',
    /row security of plants refuses every create, as no policy lets this role (insert|select)/
  ],
  [
    'no policy for select',
    'create policy may_insert on plants for insert with check (true)',
    /row security of plants refuses every create, as no policy lets this role select/
  ],
  [
    'a policy for select that is for others',
    'create role "other_ROLE"; create policy may_read on plants for select to "other_ROLE" using (true)',
    /as no policy lets this role select/
  ],
  [
    'a policy for insert that only restricts',
    `drop policy may_read on plants; drop role "other_ROLE"; drop policy may_insert on plants;
     create policy may_read on plants for select to ROLE using (true);
     create policy restricts on plants as restrictive for insert with check (true)`,
    /as no policy lets this role insert/
  ],
  [
    'an unlogged table',
    'alter table plants disable row level security, set unlogged',
    /the table plants is unlogged, so that a crash empties it: run alter table plants set logged/
  ],
  [
    'an unlogged partition',
    `alter table plants rename to "Part";
     create table plants (like "Part" including all) partition by range (id);
     alter table plants attach partition "Part" for values from (1) to (9);
     grant select, insert on plants to ROLE`,
    /the table "Part" is unlogged, so that a crash empties it: run alter table "Part" set logged/
  ],
  [
    'a key that is checked late',
    `alter table plants detach partition "Part"; drop table plants; alter table "Part" rename to plants;
     alter table plants set logged;
     alter table plants drop constraint plants_pkey, add constraint plants_pkey primary key (id) deferrable`,
    /the unique rule plants_pkey of plants is deferrable/
  ],
  [
    'a column is absent',
    `alter table plants drop constraint plants_pkey, add constraint plants_pkey primary key (id);
     alter table plants rename tag to label`,
    /does not fit this release.*: column "tag" .*does not exist$/
  ],
  [
    'a column has another type',
    'alter table plants rename label to tag; alter table plants alter tag type integer using null',
    /"?tag/
  ],
  [
    'it is read-only',
    'alter table plants alter tag type text; alter role ROLE set default_transaction_read_only = on',
    /read-only/
  ]
]
const mended = 'alter role ROLE reset default_transaction_read_only'

t.test(
  'a service waits for its database, says what is missing, and serves only then',
  async (t) => {
    const database = await createDatabase(t, { migrated: false })
    const role = await createRole(t, database, hidden)
    const url = new URL(database)
    const port = await freePort()
    Object.assign(url, { hostname: '127.0.0.1', port, username: role.name, password: hidden })
    const env = { ...service, DATABASE_URL: url.href, STARTUP_TIMEOUT_MS: '600000' }
    const running = start(t, serverFile, env)
    const isNowhere = /^the database cannot be reached: connect ECONNREFUSED/
    const open = () => forward(t, port, Number(new URL(database).port))
    const change = (sql: string) => query(database, sql.replaceAll('ROLE', role.name))
    // Between two states nothing listens, so that no attempt sees half of each.
    const look = async (missing: RegExp) => {
      const close = await open()
      await saysMissing(running, missing)
      close()
      await saysMissing(running, isNowhere)
    }
    await saysMissing(running, isNowhere)
    await look(/^the database is not migrated: run the migrations first$/)
    await migrate(t, database)
    for (const [title, sql, missing] of awaited) {
      await change(sql)
      await look(missing)
      t.pass(title)
    }
    t.notMatch(running.text(), /listening at|Metrics at/, 'nothing is served before')
    await open()
    await change(mended)
    const [, address] = await running.output(/Server listening at (http:[^"]+)/)
    t.strictSame(await post(`${address}/plants`, { id: 1, name: 'n' }), success({ name: 'n' }))
    t.notMatch(running.text(), hidden)
  }
)

t.test('fsync=off: the service starts, and warns once of what a crash would cost', async (t) => {
  const server = await startServer(t)
  for (const name of ['fsync', 'full_page_writes']) await setServer(server.url, name, 'off')
  const running = await startService(t, { DATABASE_URL: server.url })
  const warnings = running.log().filter(({ settings }) => settings)
  t.match(warnings, [{ level: 40, settings: ['fsync', 'full_page_writes'] }])
  t.equal(warnings.length, 1)
})

t.test('the migrations say what they wait for, and give up', async (t) => {
  const env = { DATABASE_URL: nowhere, ...briefly }
  t.equal(await refuses(t, migrateFile, env, [`waiting: ${noServer}`, noServer]), '')
})

const interfaces = Object.values(networkInterfaces()).flatMap((all) => all ?? [])
const skip = !interfaces.some(({ address }) => address === '::1') && 'this machine has no IPv6'

t.test('HOST and METRICS_HOST of :: serve IPv4 and IPv6', { skip }, async (t) => {
  const { url, metricsUrl } = await startService(t, { HOST: '::', METRICS_HOST: '::' })
  for (const address of ['127.0.0.1', '[::1]']) {
    const { port } = new URL(url)
    t.strictSame(await post(`http://${address}:${port}/no`, ''), failure('NotFound'), address)
    const { status } = await send(`http://${address}:${new URL(metricsUrl()).port}/metrics`, {})
    t.equal(status, 200, address)
  }
})

t.test('clear text to another machine is warned of, unless the URL asks for it', async (t) => {
  // An address of documentation (RFC 5737), which is nowhere.
  const url = `postgres://gardener:${hidden}@192.0.2.1/plants`
  const env = { ...service, STARTUP_TIMEOUT_MS: '1' }
  const warning = (log: string) =>
    linesOf(log).filter(({ msg, host, level }) => level === 40 && /not encrypted/.test(msg) && host)
  const fromService = await refuses(
    t,
    serverFile,
    { ...env, DATABASE_URL: url },
    /192\.0\.2\.1|timeout/
  )
  t.match(warning(fromService), [{ host: '192.0.2.1' }])
  const fromMigrations = await run(t, migrateFile, { ...env, DATABASE_URL: url })
  t.match(fromMigrations.stderr, /^plant-store: the connection to 192\.0\.2\.1 is not encrypted/)
  const asked = { ...env, DATABASE_URL: `${url}?sslmode=disable` }
  t.strictSame(warning(await refuses(t, serverFile, asked, /./)), [])
})

/** Makes a database, changed by a statement. */
async function withDatabase(t: Test, sql?: string): Promise<{ DATABASE_URL: string }> {
  const url = await createDatabase(t)
  if (sql !== undefined) await query(url, sql.replace('NAME', new URL(url).pathname.slice(1)))
  return { DATABASE_URL: url }
}

/** A server that accepts connections, and says nothing. */
const listenSilently = (t: Test) => listen(t, () => {})

/** Returns a port of 127.0.0.1 that is taken until teardown. */
const takePort = async (t: Test) => new URL(await listenSilently(t)).port

/** Stands before the tests' server, and calls it version 14, whichever way it is asked. */
async function startOldServer(t: Test): Promise<string> {
  const url = new URL(await createDatabase(t))
  const port = Number(url.port)
  const old = await listen(t, (socket) => {
    const server = socket.pipe(connect(port, '127.0.0.1').on('error', () => {}))
    server.on('data', (bytes) => {
      const text = bytes.toString('latin1').replace(/\b1[5-9](?=\.\d|0\d{3}\b)/g, '14')
      socket.write(text, 'latin1')
    })
  })
  url.port = new URL(old).port
  return url.href
}

/** Forwards a port of 127.0.0.1 to another, until teardown or until it is told to accept no more. */
async function forward(t: Test, from: number, to: number) {
  const server = createServer((socket) => {
    const inner = connect(to, '127.0.0.1')
    for (const end of [socket, inner]) end.on('error', () => {})
    socket.pipe(inner).pipe(socket)
  }).listen(from, '127.0.0.1')
  await once(server, 'listening')
  const close = () => void server.close()
  t.teardown(close)
  return close
}
