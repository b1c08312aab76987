/** Waiting for the database: what is said of each thing that it can lack. */
import { once } from 'node:events'
import { Socket } from 'node:net'
import pg from 'pg'
import t from 'tap'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import {
  checkCommits,
  checkEncoding,
  checkMigrated,
  checkRights,
  waitForDatabase
} from '../../src/database/wait-for-database.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'
import { selectMissingRights, selectRequired } from '../../src/plants/statements.ts'
import { createDatabase } from '../support/database.ts'
import { listen } from '../support/listen.ts'

/** Long enough for one try under load. */
const timeoutMs = 4_000
/** AuthenticationOk and ReadyForQuery (PostgreSQL manual, "Message Formats"). */
const welcome = Buffer.from('R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I', 'latin1')

const wait = (url: string, ms = timeoutMs) =>
  waitForDatabase(() => parseDatabaseUrl(url), ms, [
    checkEncoding,
    checkCommits,
    checkMigrated(selectRequired),
    checkRights(selectMissingRights)
  ])

async function query(url: string, sql: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(sql)
  await client.end()
}

t.jobs = 8

t.test('a migrated database is waited for no longer than it takes to ask', async (t) => {
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

t.test('a server that lets in and never answers a query is given up, and its socket closed', async (t) => {
  let closed: Promise<unknown> | undefined
  const url = await listen(t, (socket) => {
    closed ??= once(socket, 'close')
    socket.once('data', () => socket.write(welcome)).resume()
  })
  await t.rejects(wait(url), new StartupFault(['the database cannot be reached: Query read timeout']))
  await closed
})

t.test('a server that lets in and hangs up is given up', async (t) => {
  const url = await listen(t, (socket) => {
    socket.once('data', () => socket.write(welcome, () => socket.once('data', () => socket.destroy())))
  })
  const fault = 'the database cannot be reached: Connection terminated unexpectedly'
  await t.rejects(wait(url), new StartupFault([fault]))
})

t.test('a refusal without a message, as of a host with several addresses, is told by its code', async (t) => {
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

t.test('a wrong password is given up, and not told', async (t) => {
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

t.test('a role that may not read the table is given up', async (t) => {
  const url = `${await createDatabase(t)}?options=-c%20role%3Dpg_monitor`
  const fault = 'the database cannot be reached: permission denied for table plants'
  await t.rejects(wait(url), new StartupFault([fault]))
})

t.test('an encoding other than UTF8 is refused at once', async (t) => {
  const url = await createDatabase(t, { migrated: false, encoding: 'SQL_ASCII' })
  const fault = "the database's encoding must be UTF8, it is SQL_ASCII"
  await t.rejects(wait(url, 2 ** 31 - 1), new StartupFault([fault]))
})

t.test('commits that do not wait for the disk or the standby are refused at once', async (t) => {
  for (const value of ['off', 'local']) {
    const url = await createDatabase(t)
    await query(url, `alter database ${new URL(url).pathname.slice(1)} set synchronous_commit = ${value}`)
    const fault = `synchronous_commit must be remote_write, on or remote_apply, it is ${value}`
    await t.rejects(wait(url, 2 ** 31 - 1), new StartupFault([fault]))
  }
})

t.test('a role that lacks a right is given up, and told which', async (t) => {
  const owner = await createDatabase(t)
  const url = new URL(owner)
  const role = `${url.pathname.slice(1)}_role`
  t.teardown(() => query(owner, `drop owned by ${role}; drop role ${role}`))
  await query(url.href, `create role ${role} login password 'thyme'`)
  await query(url.href, `grant select on plants to ${role}`)
  await query(
    url.href,
    'revoke execute on function pg_logical_emit_message(boolean, text, text, boolean) from public'
  )
  url.username = role
  url.password = 'thyme'
  const fault = 'the role may not insert into plants, execute pg_logical_emit_message'
  await t.rejects(wait(url.href), new StartupFault([fault]))
})
