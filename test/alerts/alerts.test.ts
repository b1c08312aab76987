/** Every alert is silent while all is well, and fires on the faults that it is for: in a real Prometheus, on real pages. */
import { spawn, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  createDatabase,
  lockTable,
  openSession,
  query,
  untilBlocked
} from '../../harness/postgres/database.ts'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { startProxy } from '../../harness/postgres/proxy.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import { startProcess } from '../../harness/service/process.ts'
import { headers, patientSettings, post, token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { startBalancer } from '../balancer/balancer.ts'
import { startPrometheus } from './prometheus.ts'
import { startRepeating } from './repeat.ts'
import { writeTable } from './table.ts'

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }
const skip =
  ['prometheus', 'haproxy'].some((command) => spawnSync(command, ['--version'], { env }).error) &&
  'prometheus or haproxy is not on the PATH'

const nowSeconds = () => Math.floor(Date.now() / 1_000)
const disk = '{device="/dev/loop0",device_error="",fstype="ext4",mountpoint="/var/lib/postgresql"}'
const slot = 'server="db:5432",slot_name="backup",slot_type="physical"'

/** Pages of programs that are no part of this test, as they write them. */
const pages = {
  backup: (hoursAgo: number) => `plant_store_backup_time_seconds ${nowSeconds() - hoursAgo * 3_600}\n`,
  certificate: (days: number) =>
    `plant_store_certificate_expiry_time_seconds ${nowSeconds() + days * 86_400}\n`,
  /** How many standbys follow, and how much one of them has not replayed. */
  patroni: (streaming: number[], lag: number) =>
    [
      'patroni_xlog_location{scope="plants",name="node1"} 5000000000\n',
      `patroni_xlog_replayed_location{scope="plants",name="node2"} ${5_000_000_000 - lag}\n`,
      ...streaming.map(
        (is, index) => `patroni_postgres_streaming{scope="plants",name="node${index + 1}"} ${is}\n`
      )
    ].join(''),
  node: (free: number) =>
    `node_filesystem_avail_bytes${disk} ${free}\nnode_filesystem_size_bytes${disk} 5.7381888e+07\n`,
  postgresql: (active: number, status: string) =>
    `pg_up 1\npg_replication_slots_active{${slot}} ${active}\npg_replication_slot_wal_status{${slot},wal_status="${status}"} 1\n`,
  wanted: (replicas: number, balancer: string) =>
    `plant_store_replicas_wanted ${replicas}\nplant_store_balancer_wanted{instance="${balancer}"} 1\nplant_store_receiver_wanted 1\n`,
  probe: (success: number, secondsAgo: number) =>
    `plant_store_probe_success{instance="http://127.0.0.1:3000"} ${success}\nplant_store_probe_time_seconds ${nowSeconds() - secondsAgo}\n`
}

/** The alerts that a slow machine can cause. */
const ofSlowMachines = [
  'PlantStoreEventLoopSlow',
  'PlantStoreLatencyBudgetFast',
  'PlantStoreLatencyBudgetSlow'
]

let lastId = 0
const plant = () => ({ id: ++lastId, name: 'n' })
const { repeat, hold, end } = startRepeating()

/** A service on this database, with its metrics at an address of its own. */
async function launch(t: Test, databaseUrl: string, settings: Record<string, string> = {}) {
  const metrics = settings.METRICS_PORT ?? String(await freePort())
  const variables = { DATABASE_URL: databaseUrl, METRICS_PORT: metrics, ...settings }
  const service = await startProcess(t, variables)
  return { ...service, plants: `${service.url}/plants`, target: `127.0.0.1:${metrics}` }
}

/** A service that cannot write its log, and may open few files. */
async function launchWithoutLog(t: Test, databaseUrl: string) {
  const [port, metrics] = [String(await freePort()), String(await freePort())]
  const variables = {
    ...patientSettings,
    DATABASE_URL: databaseUrl,
    AUTH_TOKENS: `tester:${token}`,
    HOST: '127.0.0.1',
    PORT: port,
    METRICS_PORT: metrics,
    MAX_CONNECTIONS: '36'
  }
  const source = join(import.meta.dirname, '../../src/server.ts')
  const command = `ulimit -n 64; exec ${JSON.stringify(process.execPath)} ${JSON.stringify(source)} >"$LOG"`
  const child = spawn('bash', ['-c', command], {
    env: { PATH: process.env.PATH, LOG: '/dev/full', ...variables },
    stdio: 'ignore'
  })
  t.teardown(() => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${port}`
  await until('it listens', async () => (await fetch(`${url}/livez`)).ok)
  const target = `127.0.0.1:${metrics}`
  return { pid: child.pid as number, url, plants: `${url}/plants`, target, page: `http://${target}/metrics` }
}

t.test('each alert is silent, and then fires', { skip }, async (t) => {
  t.teardown(end)
  const [main, locked, broken, strict] = [
    await createDatabase(t),
    await createDatabase(t),
    await createDatabase(t),
    await createDatabase(t)
  ]
  const proxy = await startProxy(t, Number(new URL(main).port))
  const proxied = Object.assign(new URL(main), { host: `127.0.0.1:${proxy.port}` }).href
  const files = t.testdir({ tokens: `tester:${token}\n`, url: `${broken}\n` })
  const callers = Array.from({ length: 12 }, (_, index) => `caller-${index}:${token}-${index}`)
  const flakyMetrics = String(await freePort())

  let flaky = await launch(t, main, { METRICS_PORT: flakyMetrics })
  const [resetting, refusing, away, full, faulty, poor] = await Promise.all([
    launch(t, main),
    launch(t, strict),
    launch(t, proxied, { WRITE_DEADLINE_MS: String(scaled(6_000)) }),
    launch(t, locked, { AUTH_TOKENS: callers.join(), WRITE_QUEUE_ROWS: '500' }),
    launch(t, '', {
      DATABASE_URL: '',
      DATABASE_URL_FILE: join(files, 'url'),
      AUTH_TOKENS: '',
      AUTH_TOKENS_FILE: join(files, 'tokens')
    }),
    launchWithoutLog(t, main)
  ])
  const balancer = await startBalancer(t, [Number(new URL(full.url).port)], 2, 40)
  const targets = [flaky, resetting, refusing, away, full, faulty].map(({ target }) => target)
  const balancers = [
    { targets: [balancer.metrics], labels: { instance: 'balancer:8405' } },
    { targets: [balancer.metrics], labels: { __meta_dns_name: 'balancer-tls' } }
  ]
  const prometheus = await startPrometheus(
    t,
    { 'plant-store': [{ targets }], haproxy: balancers },
    {
      backup: pages.backup(1),
      certificate: pages.certificate(60),
      patroni: pages.patroni([0, 1, 1], 1_000),
      node: pages.node(57_000_000),
      postgresql: pages.postgresql(1, 'reserved'),
      wanted: pages.wanted(targets.length, `balancer-tls:${balancer.metrics.split(':')[1]}`),
      probe: pages.probe(1, -3_600)
    }
  )
  const rules = await prometheus.rules()
  const alerts = rules.filter(({ type }) => type === 'alerting').map(({ name }) => name)
  const as = (caller: number) => ({
    headers: { authorization: `Bearer ${token}-${caller}`, 'content-type': 'application/json' }
  })

  // All is well.
  void repeat(200, () => post(resetting.plants, plant()))
  void repeat(500, () => post(away.plants, plant()))
  for (const { name } of rules.filter(({ type }) => type === 'recording')) {
    const isNumber = (values: string[]) => values.length > 0 && values[0] !== 'NaN'
    await until(`${name} has a value`, () => prometheus.values(name), isNumber)
  }
  const early = new Set<string>()
  for (let look = 0; look < 8; look++) {
    const firing = await prometheus.firing()
    for (const name of firing) early.add(name)
    t.strictSame(
      firing.filter((name) => !ofSlowMachines.includes(name)),
      ['PlantStoreWatchdog']
    )
    await sleep(500)
  }

  const began = performance.now()
  /** When each began to fire, in seconds. */
  const seen = new Map<string, number[]>()
  let firing: string[] = []
  const look = async () => {
    const now = await prometheus.firing()
    const seconds = Math.round((performance.now() - began) / 1_000)
    for (const name of now.filter((name) => !firing.includes(name)))
      seen.set(name, [...(seen.get(name) ?? []), seconds])
    firing = now
  }
  const fire = (names: string[], times = 1) =>
    until(
      'they fire',
      async () => {
        await look()
        return names.filter((name) => (seen.get(name)?.length ?? 0) < times)
      },
      ({ length }) => length === 0,
      scaled(120_000)
    )
  const beSilent = (names: string[]) =>
    until(
      'they are silent',
      async () => {
        await look()
        return names.filter((name) => firing.includes(name))
      },
      ({ length }) => length === 0
    )

  // All faults at once.
  await prometheus.setPage('backup', pages.backup(31))
  await prometheus.setPage('certificate', pages.certificate(0.5))
  await prometheus.setPage('patroni', pages.patroni([0, 0, 1], 300_000_000))
  await prometheus.setPage('node', pages.node(241_664))
  await prometheus.setPage('postgresql', pages.postgresql(0, 'lost'))
  await prometheus.setPage('probe', pages.probe(0, 121))
  proxy.fallSilent()
  proxy.cut()
  await writeFile(join(files, 'tokens'), '?\n')
  await writeFile(join(files, 'url'), '?\n')
  await query(broken, 'alter table plants rename to gone')
  void repeat(500, () => post(faulty.plants, plant()))
  const refuse = `begin raise using errcode = case new.name when 'full' then '53100' else 'P0001' end; end`
  await query(
    strict,
    `create function refuse() returns trigger language plpgsql as $$ ${refuse} $$;
     create trigger refuse before insert on plants for each row execute function refuse()`
  )
  for (const name of ['full', 'bad']) void repeat(200, () => post(refusing.plants, { ...plant(), name }))
  // Its statements wait for a lock when their sessions end.
  const terminate = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'plant-store' and wait_event_type = 'Lock'`
  const locker = await openSession(t, main, 'select')
  void repeat(1_000, async () => {
    await locker.query('begin; lock table plants in access exclusive mode')
    await untilBlocked(main)
    await query(main, terminate)
    await locker.query('rollback')
  })

  const lock = await lockTable(t, locked)
  let isLocked = true
  const create = (url: string, caller: number) => post(url, plant(), as(caller)).catch(() => {})
  // Before the replica is full, which then refuses at once.
  hold(balancer.url, 30)
  const waiting = Array.from({ length: 6 }, async () => {
    while (isLocked) await create(`${balancer.url}/plants`, 0)
  })
  await untilBlocked(locked)
  const creates = callers.flatMap((_, caller) =>
    Array.from({ length: 60 }, () => create(full.plants, caller))
  )

  await prometheus.setTargets('plant-store', [{ targets: [...targets, poor.target] }])
  // More than it keeps of a log that cannot be written.
  const named = { ...headers, 'x-request-id': 'x'.repeat(100) }
  let isKept = true
  const refused = Array.from({ length: 4 }, async () => {
    while (isKept) await post(poor.plants, {}, { headers: named })
  })
  const lost = async () =>
    parseMetrics(await (await fetch(poor.page)).text()).value('plant_store_log_lines_lost_total')
  await until('lines are lost', lost, (count) => count > 0)
  isKept = false
  await Promise.all(refused)
  const guess = { ...headers, authorization: 'Bearer guessed-guessed-guessed' }
  void repeat(300, () => post(poor.plants, plant(), { headers: guess }))
  hold(poor.url, 30)
  // Twice or more in each second: one stall in a hundred ticks does not move the p99.
  void repeat(100, async () => {
    process.kill(poor.pid, 'SIGSTOP')
    await sleep(250)
    process.kill(poor.pid, 'SIGCONT')
  })

  await prometheus.setTargets('haproxy', balancers.slice(0, 1))
  const byPage = ['PlantStoreBackupOld', 'PlantStoreCertificateExpiring']
  const vanished = ['PlantStoreBalancerDown', 'PlantStoreCertificateLastDay', ...byPage]
  await fire(['PlantStoreQueueFilling', 'PlantStoreShedding', 'PlantStoreBalancerQueue', ...vanished])
  // Their metrics are lost.
  await prometheus.removePages('backup', 'certificate')
  await prometheus.setTargets('haproxy', balancers)
  await beSilent(vanished)
  isLocked = false
  await lock.query('rollback')
  await Promise.all([...creates, ...waiting])
  for (let start = 0; start < 3; start++) {
    const [before = ''] = await prometheus.values(`process_start_time_seconds{instance="${flaky.target}"}`)
    flaky.kill('SIGKILL')
    await flaky.ended
    // The page tells the start in whole seconds: two starts in one of them look like one.
    await until('the next second has come', () => Date.now() / 1_000 > Number(before) + 1)
    flaky = await launch(t, main, { METRICS_PORT: flakyMetrics })
    await until(
      'its start is known',
      () => prometheus.values(`process_start_time_seconds{instance="${flaky.target}"}`),
      ([now = '']) => now > before
    )
  }
  const last = [
    'PlantStoreDown',
    'PlantStoreReplicaMissing',
    'PlantStoreAbsent',
    'PlantStoreBalancerWithoutReplica',
    'PlantStoreBalancerDown'
  ]
  await fire(byPage, 2)
  await fire(alerts.filter((name) => !last.includes(name)))
  end()

  flaky.kill('SIGKILL')
  full.kill('SIGKILL')
  await fire(['PlantStoreDown', 'PlantStoreReplicaMissing', 'PlantStoreBalancerWithoutReplica'])
  balancer.kill()
  await prometheus.setTargets('plant-store', [])
  await fire(['PlantStoreBalancerDown'], 2)
  await fire(alerts)
  t.comment(
    `Fired while all was well: ${[...early].join(', ') || 'none'}.\n${writeTable(alerts, await prometheus.version(), seen)}`
  )
})
