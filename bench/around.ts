/**
 * `npm run bench -- around`: what a plant costs with each of the things that stand around a replica: TLS to the database, a
 * synchronous standby, slow flushes, tracing, PgBouncer and HAProxy as this repository ships them, and further replicas; in
 * turns. Prints the table of docs/capacity.md. PgBouncer and HAProxy need Docker, and are left out without it. Options:
 * --seconds, --starts, --connections (to each replica; HAProxy takes 200 from one address).
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { execute } from '../test/support/execute.ts'
import { haproxyConfig, haproxyContainer } from '../test/support/haproxy.ts'
import { createCertificate } from '../test/support/postgres/certificates.ts'
import { query, setServer } from '../test/support/postgres/database.ts'
import { freePort, startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { hasLength, is, until } from '../test/support/until.ts'
import { type Defer, withDirectory } from './directory.ts'
import {
  type Column,
  cpuUs,
  describeMachine,
  describeStarts,
  formatTable,
  inTurns,
  loadByWrk,
  medianOf,
  noiseOf,
  say,
  settleMs,
  summarizeAll,
  throwIfVoid,
  treeCpuUs
} from './measure.ts'
import { ready } from './postgres.ts'
import { migrate, ownProgram, startServer } from './server.ts'

const warmUpSeconds = 3
/** What each start does besides its load. */
const secondsPerStart = 7

/** Something that stands around the replicas. */
interface Surroundings {
  readonly name: string
  /** How many replicas are loaded, 1 by default. */
  readonly replicas?: number
  /** The database's URL, if it is not the server's own. */
  readonly databaseUrl?: string
  /** Whether the sessions of the database have TLS. */
  readonly hasTls?: boolean
  /** The settings of each replica. */
  readonly settings?: Record<string, string>
  /** Where the load goes, if not to the replicas themselves. */
  readonly url?: string
  /** The first process of what stands there; it gets a column of its own. */
  readonly pid?: number
  /** Starts what must not run beside the others. Returns what ends it, and its first process if it has one. */
  start?(): Promise<{ pid?: number; stop(): Promise<void> }>
}

/** µs of CPU for each plant, and how fast they were stored. */
interface Figures {
  readonly plantsPerSecond: number
  /** Of several replicas, the median of their medians, and the longest p99. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly serviceUs: number
  readonly postgresUs: number
  readonly ownUs: number
  readonly errors: number
}

const shown: Column<Figures>[] = [
  ['plantsPerSecond', 'plants/s', 0],
  ['p50Ms', 'p50 ms', 1],
  ['p99Ms', 'p99 ms', 1],
  ['serviceUs', 'service µs', 1],
  ['postgresUs', 'PostgreSQL µs', 1],
  ['ownUs', 'its own µs', 1]
]

const { values } = parseArgs({
  args: process.argv.slice(3),
  options: {
    seconds: { type: 'string', default: '10' },
    starts: { type: 'string', default: '3' },
    connections: { type: 'string', default: '64' }
  }
})
const [seconds, starts, connections] = [values.seconds, values.starts, values.connections].map(
  Number
) as [number, number, number]
if (![seconds, starts, connections].every((n) => n > 0))
  throw new Error('usage: npm run bench -- around [--seconds N] [--starts N] [--connections N]')

await withDirectory(async (directory, defer) => {
  const { primary, standby } = await startDatabase(directory, defer)
  const { databaseUrl } = primary
  // This fails without an engine, too.
  const hasDocker = await execute('docker', ['version']).then(
    () => true,
    () => false
  )
  if (!hasDocker) say('PgBouncer and HAProxy are left out: there is no Docker')
  const kinds: Surroundings[] = [
    { name: 'nothing' },
    { name: 'TLS to the database', hasTls: true, databaseUrl: `${databaseUrl}?sslmode=require` },
    { name: 'a synchronous standby', start: standby },
    { name: 'flushes that wait for 2 ms', start: () => slowFlush(databaseUrl, 2) },
    { name: 'flushes that wait for 10 ms', start: () => slowFlush(databaseUrl, 10) },
    await withTracing('tracing of 1 % of the requests', '0.01', defer),
    await withTracing('tracing of each request', '1', defer),
    ...(hasDocker ? [await withPgBouncer(databaseUrl, directory, defer)] : []),
    ...(hasDocker ? [await withHaproxy(directory, defer)] : []),
    { name: 'two replicas', replicas: 2 },
    { name: 'four replicas', replicas: 4 }
  ]
  const minutes = Math.ceil((kinds.length * starts * (seconds + secondsPerStart)) / 60)
  say(`about ${minutes} minutes and a GiB of disk`)
  const lines = kinds.map((kind) => ({ kind, rounds: [] as Figures[] }))
  for (const [{ kind, rounds }, start] of inTurns(lines, starts)) {
    const figures = await measure(kind, primary, directory)
    rounds.push(figures)
    const [service, postgres] = [figures.serviceUs.toFixed(1), figures.postgresUs.toFixed(1)]
    say(`start ${start} of ${starts}, ${kind.name}: ${service} + ${postgres} µs`)
  }
  await report(databaseUrl, lines)
})

interface Primary {
  readonly databaseUrl: string
  readonly pid: number
}

/** Starts PostgreSQL with the service's table, and makes a copy of it that `standby` starts as its synchronous standby. */
async function startDatabase(directory: string, defer: Defer) {
  const [own, copy] = [join(directory, 'primary'), join(directory, 'standby')]
  await mkdir(own)
  const settings = { fsync: 'on', synchronous_commit: 'on', wal_keep_size: '8GB' }
  const first = await startPostgres({ directory: own, settings })
  defer(first.stop)
  await query(first.url('postgres'), 'create database own')
  await migrate(ownProgram(), first.url('own'))
  await writeCertificate(join(own, 'cluster'))
  await first.stop()
  await execute('cp', ['-a', own, copy])
  const server = await startPostgres({ directory: own, settings: { ...settings, ssl: 'on' } })
  defer(server.stop)
  const url = server.url('postgres')
  await writeFile(join(copy, 'cluster/standby.signal'), '')
  const standby = async () => {
    const started = await startPostgres({
      directory: copy,
      settings: {
        ...settings,
        primary_conninfo: `${url}?application_name=standby&sslmode=disable`,
        synchronous_standby_names: ''
      }
    })
    defer(started.stop)
    await setServer(url, 'synchronous_standby_names', 'standby')
    const state = `select from pg_stat_replication where sync_state = 'sync'`
    await until('the standby is synchronous', () => query(url, state), hasLength(1))
    const stop = async () => {
      await setServer(url, 'synchronous_standby_names', '')
      await started.stop()
    }
    return { pid: started.process.pid ?? 0, stop }
  }
  return { primary: { databaseUrl: server.url('own'), pid: server.process.pid ?? 0 }, standby }
}

/** Puts a certificate where PostgreSQL looks for it by default; its key must belong to the user that runs the server. */
async function writeCertificate(cluster: string): Promise<void> {
  const { cert, key } = createCertificate('localhost')
  for (const [name, text] of Object.entries({ 'server.crt': cert, 'server.key': key })) {
    await writeFile(join(cluster, name), text, { mode: 0o600 })
    await execute('chown', ['--reference', cluster, join(cluster, name)])
  }
}

/**
 * Lets each flush of the WAL wait first: PostgreSQL's own delay, whatever else is active. Commits that come meanwhile share the
 * flush. On a disk that is as slow they would wait for the next one, so it costs them at least what this shows.
 */
async function slowFlush(url: string, ms: number) {
  await setServer(url, 'commit_siblings', '0')
  await setServer(url, 'commit_delay', `${ms * 1_000}`)
  return { stop: () => setServer(url, 'commit_delay', '0') }
}

/** Tracing of a part of the requests, by a collector in this process that drops what it gets. */
async function withTracing(name: string, ratio: string, defer: Defer): Promise<Surroundings> {
  const collector = createServer((request, response) => {
    request.resume().on('end', () => response.end())
  })
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve))
  defer(async () => collector.close())
  const { port } = collector.address() as AddressInfo
  const settings = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: ratio
  }
  return { name, settings }
}

/** PgBouncer by deploy/pgbouncer's image and settings, in front of this database. */
async function withPgBouncer(databaseUrl: string, directory: string, defer: Defer) {
  const files = join(import.meta.dirname, '../deploy/pgbouncer')
  const { hostname, port, username, password } = new URL(databaseUrl)
  const own = await freePort()
  const text = readFileSync(join(files, 'pgbouncer.ini'), 'utf8')
    .replace(
      /^\* = .*$/m,
      `* = host=${hostname} port=${port} user=${username} password=${password}`
    )
    .replace(/^listen_addr = .*$/m, 'listen_addr = 127.0.0.1')
    .replace(/^listen_port = .*$/m, `listen_port = ${own}`)
    .replace(/^auth_type = .*$/m, 'auth_type = any\nserver_tls_sslmode = disable')
  const config = join(directory, 'pgbouncer.ini')
  await writeFile(config, text)
  await chmod(config, 0o644)
  const image = 'plant-store-bench-pgbouncer'
  await execute('docker', ['build', '--quiet', `--tag=${image}`, files])
  const volume = `--volume=${config}:/etc/pgbouncer/pgbouncer.ini:ro`
  const command = ['pgbouncer', '/etc/pgbouncer/pgbouncer.ini']
  const pid = await runContainer(defer, [volume, image, ...command])
  const url = new URL(databaseUrl)
  url.port = `${own}`
  await ready(url.href)
  return { name: 'PgBouncer', databaseUrl: url.href, pid }
}

/** HAProxy as the stack has it, in front of one replica. */
async function withHaproxy(directory: string, defer: Defer): Promise<Surroundings> {
  const [port, metricsPort, replica] = [await freePort(), await freePort(), await freePort()]
  await writeFile(join(directory, 'haproxy.cfg'), haproxyConfig([replica]))
  const pid = await runContainer(defer, haproxyContainer({ directory, port, metricsPort }))
  const url = `http://127.0.0.1:${port}/plants`
  return { name: 'HAProxy', settings: { PORT: `${replica}` }, url, pid }
}

/** Runs a container in this machine's network until the end of the benchmark. Returns its first process. */
async function runContainer(defer: Defer, args: string[]): Promise<number> {
  const name = `plant-store-bench-${randomBytes(4).toString('hex')}`
  defer(() => execute('docker', ['rm', '--force', '--volumes', name]))
  await execute('docker', ['run', '--detach', `--name=${name}`, '--network=host', ...args])
  return Number(await execute('docker', ['inspect', '--format={{.State.Pid}}', name]))
}

/** Throws unless all sessions of the replicas that were started since then have TLS, or none: some clients take it unasked. */
async function checkTls(url: string, since: Date, hasTls: boolean): Promise<void> {
  const [{ sessions, encrypted }] = await query(
    url,
    `select count(*)::int as sessions, count(*) filter (where ssl)::int as encrypted
     from pg_stat_ssl join pg_stat_activity using (pid)
     where application_name = 'plant-store' and backend_start >= $1`,
    [since]
  )
  // A pooler may have kept all of its sessions from an earlier start.
  if (encrypted !== (hasTls ? sessions : 0) || (hasTls && sessions === 0))
    throw new Error(`${encrypted} of ${sessions} sessions have TLS`)
}

/** Returns when a balancer has found its replica: until then it answers with 503 itself. */
async function untilPassedOn(url: string): Promise<void> {
  const readError = async () => ((await (await fetch(url)).json()) as { error: number }).error
  await until('the balancer has found the replica', readError, is(405))
}

/** Starts the replicas of one kind, and loads them all at the same time. */
async function measure(kind: Surroundings, primary: Primary, directory: string): Promise<Figures> {
  const { replicas = 1, databaseUrl = primary.databaseUrl, settings = {} } = kind
  const started = await kind.start?.()
  const pid = started?.pid ?? kind.pid
  const [{ now }] = await query(primary.databaseUrl, 'select now()')
  const servers = await Promise.all(
    Array.from({ length: replicas }, async (_, index) => {
      const own = join(directory, `replica${index}`)
      await mkdir(own, { recursive: true })
      return startServer(ownProgram(), databaseUrl, own, settings)
    })
  )
  try {
    if (kind.url !== undefined) await untilPassedOn(kind.url)
    const loadAll = (time: number) =>
      Promise.all(servers.map(({ url }) => loadByWrk(kind.url ?? url, connections, time)))
    await loadAll(warmUpSeconds)
    await sleep(settleMs)
    await checkTls(primary.databaseUrl, now, kind.hasTls === true)
    await query(primary.databaseUrl, 'truncate plants')
    await query(primary.databaseUrl, 'checkpoint')
    const sum = (parts: number[]) => parts.reduce((total, part) => total + part, 0)
    const read = () => ({
      serviceUs: sum(servers.map((server) => cpuUs(server.pid))),
      postgresUs: treeCpuUs(primary.pid),
      ownUs: pid === undefined ? Number.NaN : treeCpuUs(pid)
    })
    const before = read()
    const seen = await loadAll(seconds)
    const after = read()
    const plants = sum(seen.map((one) => one.plants))
    const [{ count }] = await query(primary.databaseUrl, 'select count(*)::int from plants')
    return {
      plantsPerSecond: sum(seen.map((one) => one.plants / one.seconds)),
      p50Ms: medianOf(seen.map((one) => one.p50Ms)),
      p99Ms: Math.max(...seen.map((one) => one.p99Ms)),
      serviceUs: (after.serviceUs - before.serviceUs) / plants,
      postgresUs: (after.postgresUs - before.postgresUs) / plants,
      ownUs: (after.ownUs - before.ownUs) / plants,
      errors: sum(seen.map((one) => one.errors)) + Math.max(0, plants - count)
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()))
    await started?.stop()
  }
}

/** Prints the table and the noise; throws if a request failed. */
async function report(databaseUrl: string, lines: { kind: Surroundings; rounds: Figures[] }[]) {
  const table = formatTable([
    ['around the service', ...shown.map(([, title]) => title)],
    ...lines.map(({ kind, rounds }) => [kind.name, ...summarizeAll(rounds, shown)])
  ])
  const method = `${describeStarts(starts)}, ${seconds} s each, ${connections} connections to each replica.`
  say(`\n${await describeMachine(databaseUrl)}. ${method}\n\n${table}\n`)
  const noise = (figure: keyof Figures) =>
    noiseOf(lines.map(({ rounds }) => rounds.map((round) => round[figure])))
  say(
    `Starts differ from their median by at most ${noise('plantsPerSecond')} in plants/s, ${noise('serviceUs')} in the CPU of the service and ${noise('postgresUs')} in that of PostgreSQL.`
  )
  throwIfVoid(lines.flatMap(({ rounds }) => rounds))
}
