/**
 * Promise 9: whatever state the database is in, each create has its response by the deadline, a 503 says truthfully whether
 * the plant may be stored, and the service creates again afterwards by itself.
 */
import t, { type Test } from 'tap'
import {
  addTrigger,
  createRole,
  lockTable,
  openSession,
  query,
  setServer
} from '../support/postgres/database.ts'
import { startProxy } from '../support/postgres/proxy.ts'
import { startServer } from '../support/postgres/server.ts'
import { type FailureName, failure, type Reply, success } from '../support/responses.ts'
import { headers, type Service, send, startService } from '../support/service.ts'
import { hasLength, is, until } from '../support/until.ts'

const deadlineMs = 4_000
/** A busy machine is slow; what must not happen is a response long after the deadline, or none. */
const marginMs = 60_000
const plant = { name: 'n' }

const server = await startServer(t)
const proxy = await startProxy(t, server.port)
// The service's own role: its sessions can be limited without those of the test.
const role = await createRole(t, server.url, 'secret')
const env = { WRITE_DEADLINE_MS: String(deadlineMs) }
const services = {
  /** One service for all states, so that each state also shows that it has recovered from the ones before. */
  direct: await startService(t, { ...env, DATABASE_URL: databaseUrl(server.port) }),
  /** Another, which reaches the database by the proxy. */
  proxied: await startService(t, { ...env, DATABASE_URL: databaseUrl(proxy.port) })
}

function databaseUrl(port: number): string {
  return Object.assign(new URL(server.url), { username: role.name, password: 'secret', port }).href
}

interface State {
  state: string
  /** Brings the database into the state; returns what heals it. */
  enter(t: Test): Promise<() => unknown>
  /** The service that is asked. */
  by?: keyof typeof services
  /** The failures that may be told: OutcomeUnknown only where an attempt can be open at the deadline. */
  told: FailureName[]
  /** How many of the three plants are stored in the end; undefined where that is open. */
  rows?: number
  /** It is an outage: after the deadline, creates are refused at once until it is over, and operators see it. */
  isOutage?: boolean
  /** What PostgreSQL says of it. */
  sqlstate?: string
}

const none: FailureName[] = ['DeadlineExceeded', 'Unavailable']
const either: FailureName[] = [...none, 'OutcomeUnknown']

const states: State[] = [
  {
    state: 'down before the first create',
    enter: down('SIGINT'),
    told: none,
    rows: 0,
    isOutage: true
  },
  { state: 'gone at once', enter: down('SIGQUIT'), told: either, rows: 0, isOutage: true },
  { state: 'hanging', enter: server.freeze, told: either, isOutage: true },
  {
    state: 'without a connection left',
    enter: noConnections,
    told: either,
    rows: 0,
    isOutage: true,
    sqlstate: '53300'
  },
  {
    state: 'read-only',
    enter: setting('default_transaction_read_only', 'on', 'off'),
    told: either,
    rows: 0,
    isOutage: true,
    sqlstate: '25006'
  },
  { state: 'with a locked table', enter: locked, told: either },
  { state: 'losing every response', by: 'proxied', enter: losses, told: either },
  { state: 'without its synchronous standby', enter: noStandby, told: either },
  { state: 'without its standby, and silent about it', enter: silentlyNoStandby, told: either }
]

function down(signal: NodeJS.Signals) {
  return async () => {
    await server.down(signal)
    return () => server.up()
  }
}

function setting(name: string, value: string, usual: string) {
  return async () => {
    await setServer(server.url, name, value)
    return () => setServer(server.url, name, usual)
  }
}

async function noConnections() {
  await query(server.url, `alter role ${role.name} connection limit 0`)
  const end = `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role.name}'`
  await until('the service has no session', () => query(server.url, end), hasLength(0))
  return () => query(server.url, `alter role ${role.name} connection limit -1`)
}

async function locked(t: Test) {
  const holder = await lockTable(t, server.url)
  return () => holder.query('rollback')
}

async function losses() {
  // Of a write, and of the look-up that follows it.
  proxy.lose(1_000_000, /INSERT 0 |SELECT \d/)
  return () => proxy.lose(-proxy.left())
}

async function noStandby(t: Test) {
  const heal = await setting('synchronous_standby_names', 'away', '')()
  // The process that makes commits wait may lag behind the setting.
  const waiting = `select from pg_stat_activity where wait_event = 'SyncRep'`
  const commit = () =>
    openSession(t, server.url, `select pg_logical_emit_message(true, 'test', '')`)
  await until(
    'commits wait',
    () => {
      commit().catch(() => {})
      return query(server.url, waiting)
    },
    ({ length }) => length > 0
  )
  return heal
}

/** PostgreSQL calls a commit that was cancelled in its wait for the standby a success, and a trigger suppresses the warning. */
async function silentlyNoStandby(t: Test) {
  const drop = await addTrigger(
    t,
    server.url,
    `perform set_config('client_min_messages', 'error', true);`
  )
  const heal = await noStandby(t)
  return async () => {
    await heal()
    await drop()
  }
}

let lastId = 0
/** The ids of all creates that were told that nothing was stored. */
const toldNone: number[] = []

/** Creates a plant; returns the response, which must come in time. */
async function create(service: Service, id = ++lastId): Promise<Reply> {
  const signal = AbortSignal.timeout(deadlineMs + marginMs)
  const reply = await service.post({ id, ...plant }, { headers, signal })
  if (reply.headers['write-outcome'] === 'none') toldNone.push(id)
  return reply
}

/** Checks that it is one of these whole responses. */
function checkTold(t: Test, reply: Reply, names: FailureName[]) {
  const name = names.find((name) => name === reply.headers['error-name']) ?? names[0]
  t.strictSame(reply, failure(name as FailureName), `is told ${reply.headers['error-name']}`)
}

/** Creates until one succeeds; until then, creates may get a response that promises nothing. */
async function recovers(t: Test, service: Service) {
  const reply = await until(
    'a create succeeds',
    () => create(service),
    ({ status }) => status === 200
  )
  t.strictSame(reply, success(plant), 'creates again by itself')
  t.strictSame(await query(server.url, 'select name from plants where id = $1', [lastId]), [plant])
}

const readUnavailable = async (service: Service) =>
  (await service.metrics()).value('plant_store_database_unavailable')
const messages = (service: Service) => service.log().map(({ level, msg }) => `${level} ${msg}`)

/** Resolves when the log has such a line behind the first `from`: it may come later than the metric. */
const logs = (service: Service, from: number, line: RegExp) =>
  until(`the log has ${line}`, () =>
    messages(service)
      .slice(from)
      .some((message) => line.test(message))
  )

/** Checks that operators see the outage, and that further creates are refused at once. */
async function checkOutage(t: Test, service: Service, from: number, sqlstate?: string) {
  await until('the metric shows the outage', () => readUnavailable(service), is(1))
  await logs(service, from, /^50 the database has been unavailable/)
  t.strictSame(await create(service), failure('Unavailable'), 'a further create does not wait')
  const requests = () =>
    service
      .log()
      .slice(from)
      .filter(({ failure }) => failure === 503)
  const lines = await until('its requests are logged', requests, ({ length }) => length > 3)
  t.match(lines[0], { level: 40, caller: 'tester' })
  if (sqlstate) t.match(JSON.stringify(lines), sqlstate, 'the reason')
  // All replicas share the database: an outage must not take all of them out of service.
  for (const probe of ['livez', 'readyz'])
    t.equal((await send(`${service.url}/${probe}`, { method: 'GET' })).status, 200, probe)
}

/** Returns when operators see that it is over. */
async function untilOver(service: Service, from: number) {
  await until('the metric shows the end', () => readUnavailable(service), is(0))
  await logs(service, from, /^30 the database is back/)
}

for (const { state, enter, by = 'direct', told, rows, isOutage = false, sqlstate } of states) {
  t.test(
    `database ${state}: creates get ${told.join(' or ')}, and 200 when it is healed`,
    async (t) => {
      const service = services[by]
      const logged = messages(service).length
      const heal = await enter(t)
      const ids = [++lastId, ++lastId, ++lastId]
      const replies = await Promise.all(ids.map((id) => create(service, id)))
      for (const reply of replies) checkTold(t, reply, told)
      if (isOutage) await checkOutage(t, service, logged, sqlstate)
      await heal()
      await recovers(t, service)
      const select = 'select from plants where id = any($1)'
      if (rows !== undefined) t.equal((await query(server.url, select, [ids])).length, rows, 'rows')
      if (isOutage) await untilOver(service, logged)
    }
  )
}

t.test('what was told "none" is never stored, not even later', async (t) => {
  t.ok(toldNone.length > 0)
  for (const service of Object.values(services)) await service.end()
  const sessions = `select from pg_stat_activity where usename = $1`
  await until('no attempt is left', () => query(server.url, sessions, [role.name]), hasLength(0))
  t.strictSame(await query(server.url, 'select id from plants where id = any($1)', [toldNone]), [])
})
