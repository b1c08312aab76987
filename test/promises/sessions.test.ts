/** Sessions of the database: how a statement is cancelled, and which sessions are used again. */
import t, { type Test } from 'tap'
import { createCertificate } from '../support/postgres/certificates.ts'
import { createDatabase, lockTable, query } from '../support/postgres/database.ts'
import { startDouble } from '../support/postgres/double.ts'
import { startProxy } from '../support/postgres/proxy.ts'
import { success } from '../support/responses.ts'
import { startService } from '../support/service.ts'
import { hasLength, until } from '../support/until.ts'

t.jobs = 2

const plant = { name: 'n' }
const certificate = createCertificate('localhost')
/** The URL of a database by another port of this machine. */
const byPort = (url: string, port: number) =>
  Object.assign(new URL(url), { hostname: '127.0.0.1', port }).href

/** Returns the service's sessions in a database, all or those that wait for a lock. */
async function sessions(url: string, condition = 'true'): Promise<number[]> {
  const rows = await query(
    url,
    `select pid from pg_stat_activity
     where application_name = 'plant-store' and datname = current_database() and ${condition}`
  )
  return rows.map(({ pid }) => pid)
}
const isSome = ({ length }: { length: number }) => length > 0
const blocked = (url: string) => sessions(url, `wait_event_type = 'Lock'`)

async function stage(t: Test, encrypted: boolean, deadlineMs: number) {
  const url = await createDatabase(t)
  const double = await startDouble(t, Number(new URL(url).port), certificate)
  const DATABASE_URL = byPort(url, double.port) + (encrypted ? '?sslmode=require' : '')
  const service = await startService(t, { DATABASE_URL, WRITE_DEADLINE_MS: String(deadlineMs) })
  return { url, double, service }
}

for (const encrypted of [false, true])
  t.test(
    `a session ${encrypted ? 'with' : 'without'} TLS is cancelled in the same way`,
    async (t) => {
      const { url, double, service } = await stage(t, encrypted, 3_000)
      const { cancels } = double
      await lockTable(t, url)
      const reply = service.post({ id: 1, ...plant })
      await until('a statement waits', () => blocked(url), isSome)
      await until('a request to cancel it comes', () => cancels.clear + cancels.encrypted)
      t.equal((await reply).status, 400)
      await until('no statement is left behind', () => blocked(url), hasLength(0))
      t.equal(cancels[encrypted ? 'clear' : 'encrypted'], 0, 'none comes in the other way')
    }
  )

t.test(
  'under TLS a session names the host that it asks for, as proxies may need; an address is no name',
  async (t) => {
    const { double, url } = await stage(t, true, 120_000)
    t.strictSame([...double.names], [], 'of 127.0.0.1')
    const byName = Object.assign(new URL(byPort(url, double.port)), { hostname: 'localhost' })
    const service = await startService(t, { DATABASE_URL: `${byName}?sslmode=require` })
    t.strictSame([...double.names], ['localhost'])
    t.strictSame(await service.post({ id: 1, ...plant }), success(plant))
  }
)

t.test('a session whose request to cancel is late is not used again', async (t) => {
  const { url, double, service } = await stage(t, false, 24_000)
  let lastId = 1
  const holder = await lockTable(t, url)
  const release = double.holdCancels()
  const reply = service.post({ id: 1, ...plant })
  const [pid] = await until('a statement waits', () => blocked(url), isSome)
  await until('a request to cancel it is on its way', () => double.cancels.clear)
  await holder.query('rollback')
  // On a machine that is too slow for the second that a server has to react, the session is given
  // up for that.
  await reply
  await until('its session has ended', async () => !(await sessions(url)).includes(pid as number))
  release()
  await until(
    'it creates',
    () => service.post({ id: ++lastId, ...plant }),
    ({ status }) => status === 200
  )
})

t.test('when a session is lost, all others are replaced, and the log says so', async (t) => {
  const url = await createDatabase(t)
  const proxy = await startProxy(t, Number(new URL(url).port))
  const service = await startService(t, { DATABASE_URL: byPort(url, proxy.port) })
  let lastId = 0
  const create = () => service.post({ id: ++lastId, ...plant })
  const burst = () => Promise.all(Array.from({ length: 64 }, create)).then(() => sessions(url))
  const before = await until('it has several sessions', burst, ({ length }) => length > 1)
  const line = 'a database connection failed; replacing all connections'
  const lines = () => service.log().filter(({ msg }) => msg === line)
  t.strictSame(lines(), [])

  proxy.lose(1)
  t.strictSame(await create(), success(plant))
  await until('it is logged', lines, hasLength(1))
  t.match(lines(), [{ level: 40, err: { message: String } }])
  const areGone = (pids: number[]) => pids.every((pid) => !before.includes(pid))
  await until('no session from before is left', () => sessions(url), areGone)
  t.strictSame(await create(), success(plant))
})

/** Databases that take the place of the right one, and what the log says of them. */
const wrong: [title: string, make: (t: Test) => Promise<string>, cause: string][] = [
  [
    'would garble plants',
    (t) => createDatabase(t, { migrated: false, encoding: 'SQL_ASCII' }),
    "the database's encoding must be UTF8; it is SQL_ASCII"
  ],
  [
    'would lose plants in a crash',
    async (t) => {
      const url = await createDatabase(t)
      await query(url, 'alter table plants set unlogged')
      return url
    },
    'the table plants is unlogged, so that a crash empties it'
  ]
]

for (const [title, make, cause] of wrong)
  t.test(`a new session on a database that ${title} is not used`, async (t) => {
    const [url, other] = [await createDatabase(t), await make(t)]
    const nameOf = (database: string) => new URL(database).pathname.slice(1)
    const server = Object.assign(new URL(url), { pathname: '/postgres' }).href
    const service = await startService(t, { DATABASE_URL: url, WRITE_DEADLINE_MS: '3000' })
    let lastId = 0
    const create = () => service.post({ id: ++lastId, ...plant })
    t.strictSame(await create(), success(plant))
    /** Gives the name in the URL to one of the two databases, and ends the sessions. */
    const swap = (from: string, to: string) =>
      until('the databases are swapped', async () => {
        await query(
          server,
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = any ($1)`,
          [[from, to]]
        )
        await query(server, `alter database ${from} rename to ${to}`)
        return true
      })
    await swap(nameOf(url), `${nameOf(url)}_right`)
    await swap(nameOf(other), nameOf(url))
    await until(
      'a create is told that nothing is stored',
      create,
      ({ headers }) => headers['error-name'] === 'Unavailable'
    )
    await until('the log has the cause', () => service.text().includes(cause))
    await swap(nameOf(url), nameOf(other))
    await swap(`${nameOf(url)}_right`, nameOf(url))
    await until('it creates again', create, ({ status }) => status === 200)
  })
