/**
 * The shipped stack with its profile `observability`, in which times are short: nothing fires but the watchdog, and then each
 * alert, at its fault. Those on a cluster's standbys are in test/stacks/ha/faults.ts; image.test.ts loses lines of a log.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { docker, inspect } from '../../support/docker.ts'
import { createPlant } from '../../support/post.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { hasLength, until } from '../../support/until.ts'
import { askPrometheus, shorten } from './prometheus.ts'
import { startRepeating } from './repeating.ts'
import { copyStack } from './stack.ts'

const elsewhere = ['PlantStoreLogLost', 'PlantStoreReplicationLag', 'PlantStoreStandbyMissing']
/** The alerts that a slow machine can cause. */
const ofSlowMachines = /EventLoopSlow|LatencyBudget/

const ports = {
  PORT: await freePort(),
  TLS_PORT: await freePort(),
  PROMETHEUS_PORT: await freePort(),
  ALERTMANAGER_PORT: await freePort()
}
const stack = await copyStack(t, {
  ...Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, `${port}`])),
  COMPOSE_PROFILES: 'tls',
  MAX_CONNECTIONS: '36',
  SERVER_MAXCONN: '4',
  WRITE_QUEUE_ROWS: '40',
  WRITE_DEADLINE_MS: `${Math.min(30_000, 6_000)}`
})
const observers = ['prometheus', 'alertmanager', 'node-exporter', 'postgres-exporter', 'probe']
const prometheus = askPrometheus(`127.0.0.1:${ports.PROMETHEUS_PORT}`)

/** Changes a file of the checkout. */
async function edit(path: string, change: (text: string) => string) {
  const file = join(stack.cwd, path)
  await writeFile(file, change(await readFile(file, 'utf8')))
}

/** Disks, limits and times that a test can exhaust. */
async function makeSmall() {
  // A scrape may take as long as the pause to the next one, and one that fails is no fault.
  const seconds = Math.ceil(2_000 / 1_000)
  await edit('ops/prometheus/rules.yml', (text) => shorten(text, 3 * seconds))
  await edit('ops/prometheus/prometheus.yml', (text) =>
    text.replaceAll('_interval: 15s', `_interval: ${seconds}s`)
  )
  await edit('ops/haproxy/haproxy.cfg', (text) => text.replace('maxconn 4000', 'maxconn 100'))
  await edit('.env', (text) => `${text}MAX_SLOT_WAL_KEEP_SIZE=32MB\n`)
  const volume = 'driver_opts: { type: tmpfs, device: tmpfs, o: "size=500m,mode=1777" }'
  await writeFile(
    join(stack.cwd, 'docker-compose.override.yml'),
    `services: { api: { ulimits: { nofile: 64 } } }\nvolumes: { data: { ${volume} } }\n`
  )
}

/** Why an image is not here and cannot be pulled, if so. */
async function findMissing() {
  const images = (await stack.compose('config', '--images', ...observers)).split('\n')
  for (const image of images.filter((image) => image !== stack.image))
    await docker(['image', 'inspect', image]).catch(() => docker(['pull', image]))
}
const skip = await findMissing().then(
  () => false,
  ({ message }: Error) => message.slice(0, 200)
)

const run = (script: string) =>
  stack.compose('run', '--rm', '-T', '--no-deps', '--entrypoint', 'sh', 'setup', '-ec', script)
const addressOf = async (id: string) => {
  const [{ NetworkSettings }] = await inspect(id)
  return `http://${NetworkSettings.Networks[`${stack.env.COMPOSE_PROJECT_NAME}_front`].IPAddress}:3000`
}

/** Ends the process by which the engine forwards a published port, as a flood of connections can. */
const killForwarding = (port: number) =>
  docker([
    ...[
      'run',
      '--rm',
      '--pid=host',
      '--user=0:0',
      '--network=none',
      '--entrypoint=node',
      stack.image,
      '--eval'
    ],
    `const { readdirSync, readFileSync } = require('node:fs')
     const read = (pid) => { try { return readFileSync('/proc/' + pid + '/cmdline', 'utf8').split('\\0') } catch { return [''] } }
     const isOurs = (args) => args[0].endsWith('docker-proxy') && args[args.indexOf('-host-port') + 1] === '${port}'
     const found = readdirSync('/proc').filter((name) => /^\\d+$/.test(name) && isOurs(read(name)))
     for (const pid of found) process.kill(Number(pid), 'SIGKILL')
     process.exitCode = found.length > 0 ? 0 : 1`
  ])

let nextId = 1
const createAt = (origin: string, token: string, name = 'n') =>
  createPlant(origin, token, { id: nextId++, name })

/** When each alert began to fire, in seconds. */
const seen = new Map<string, number>()
const began = performance.now()
async function look() {
  const firing = await prometheus.firing()
  for (const name of firing)
    if (!seen.has(name)) seen.set(name, Math.round((performance.now() - began) / 1_000))
  return firing
}

async function fire(t: Test, names: string[]) {
  const missing = async () => {
    await look()
    return names.filter((name) => !seen.has(`PlantStore${name}`))
  }
  await until('they fire', missing, hasLength(0))
  t.pass(names.join())
}

const sql = (...statements: string[]) => stack.query(statements.join('; '))
const rule = `create function judge() returns trigger language plpgsql as $$ begin
  case new.name
    when 'bad' then raise using errcode = 'P0001';
    when 'full' then raise using errcode = '53100';
    when 'none' then return null;
    when 'slow' then perform pg_sleep(1.2);
    else
  end case;
  return new;
end $$; create trigger judge before insert on plants for each row execute function judge()`
const terminate = `select pg_terminate_backend(pid) from pg_stat_activity
  where pid <> pg_backend_pid() and datname = 'plants' and state <> 'idle'`
const fill =
  'dd if=/dev/zero of=/var/lib/postgresql/fill bs=1M count=$(($(df -m --output=avail /var/lib/postgresql | tail -n 1) - 60))'

interface Place {
  token: string
  replicas: string[]
  /** Their containers, and the balancer's. */
  ids: string[]
  balancer: string
}
type Repeating = ReturnType<typeof startRepeating>

/** Faults that do not mind one another, and the alerts that each causes; those of a row are ended before the next begins. */
const faults: [string[], (place: Place, repeating: Repeating) => Promise<unknown>][][] = [
  [
    [['PortDead'], () => killForwarding(ports.PORT)],
    [['BalancerDown'], () => stack.compose('stop', 'balancer-tls')],
    [['BackupSlotLagging'], () => sql(`select pg_create_physical_replication_slot('backup', true)`)],
    [['BackupOld'], () => run('echo plant_store_backup_time_seconds 1 >/pages/backup.prom')],
    [
      ['CertificateExpiring', 'CertificateLastDay'],
      () => run('echo plant_store_certificate_expiry_time_seconds 1 >/pages/certificate.prom')
    ],
    [
      ['TokensFileBroken', 'DatabaseUrlFileBroken'],
      () =>
        run('cd /secrets/api; for file in tokens database-url; do cp $file $file.old; echo "?" >$file; done')
    ],
    [
      ['InternalErrors', 'ErrorBudgetFast', 'ErrorBudgetSlow', 'Refusals', 'Unauthorized'],
      async ({ token, replicas: [first = ''] }, { repeat }) => {
        for (const name of ['none', 'bad', 'bad', 'bad']) void repeat(50, () => createAt(first, token, name))
        void repeat(100, () => createAt(first, 'guessed-guessed-guessed'))
      }
    ],
    [
      ['LatencyBudgetFast', 'LatencyBudgetSlow'],
      async ({ token, replicas: [, second = ''] }, { repeat }) => {
        for (let client = 0; client < 4; client++) void repeat(50, () => createAt(second, token, 'slow'))
      }
    ]
  ],
  [
    // Of the slot.
    [
      ['BackupSlotLost'],
      () =>
        stack.compose(
          'exec',
          '-T',
          'db',
          'sh',
          '-ec',
          `for _ in 1 2 3; do psql -qU plants -c "select pg_logical_emit_message(false, '', repeat('x', 20000000))" -c 'select pg_switch_wal()'; done
            # A checkpoint keeps what is not summarized yet.
            until psql -qtAU plants -c checkpoint -c 'select wal_status from pg_replication_slots' | grep -q lost; do sleep 1; done`
        )
    ],
    [
      ['DatabaseExhausted'],
      async ({ token, replicas: [first = ''] }, { repeat }) =>
        void repeat(50, () => createAt(first, token, 'full'))
    ],
    [
      ['BalancerConnectionsRunningOut', 'ConnectionsRunningOut', 'FilesRunningOut'],
      async ({ balancer, replicas: [first = ''] }, { hold }) => {
        hold(balancer, 85)
        hold(first, 32)
      }
    ],
    [
      ['EventLoopSlow'],
      async ({ ids: [, second = ''] }, { repeat }) => {
        void repeat(100, async () => {
          await docker(['pause', second])
          await sleep(250)
          await docker(['unpause', second])
        })
      }
    ]
  ],
  [
    [
      ['QueueFilling', 'Shedding', 'BalancerQueue'],
      async ({ token, balancer, replicas: [, second = ''] }, { repeat }) => {
        void repeat(0, () =>
          sql('begin', 'lock table plants in access exclusive mode', 'select pg_sleep(600)')
        )
        for (let client = 0; client < 24; client++) void repeat(100, () => createAt(second, token))
        for (let client = 0; client < 12; client++) void repeat(100, () => createAt(balancer, token))
      }
    ]
  ],
  [
    [
      ['Repeating', 'ConnectionsLost'],
      async ({ token, replicas: [, second = ''] }, { repeat }) => {
        for (let client = 0; client < 4; client++) void repeat(100, () => createAt(second, token, 'slow'))
        // Also the one with the lock.
        void repeat(500, () => sql(terminate))
      }
    ]
  ],
  [
    [
      ['Restarting'],
      async ({ ids: [, second = ''] }) => {
        // With a broken file it would not start.
        await run('cd /secrets/api; for file in tokens database-url; do mv $file.old $file; done')
        for (let start = 0; start < 3; start++) {
          const started = () => prometheus.values(`sum(process_start_time_seconds{job="plant-store"})`)
          const [before] = await started()
          await docker(['restart', '--time=0', second])
          await until('its start is known', started, ([now]) => Number(now) > Number(before))
        }
      }
    ],
    [['DatabaseDiskFilling'], () => stack.compose('exec', '-T', 'db', 'sh', '-c', fill)]
  ],
  [
    [['Down', 'ReplicaMissing'], ({ ids: [first = ''] }) => docker(['pause', first])],
    [
      ['DatabaseAway', 'Blind'],
      async ({ token, replicas: [, second = ''] }, { repeat }) => {
        await stack.compose('pause', 'db')
        void repeat(500, () => createAt(second, token))
      }
    ]
  ],
  [[['Absent', 'BalancerWithoutReplica'], () => stack.compose('kill', 'api')]]
]

async function showEverything(t: Test) {
  const recorded = (await prometheus.rules()).filter(({ type }) => type === 'recording')
  t.ok(recorded.length > 10)
  for (const { name } of recorded)
    await until(
      `${name} has a value`,
      () => prometheus.values(name),
      ({ length }) => length > 0
    )
  await until('each rule is evaluated', prometheus.rules, (all) => all.every(({ health }) => health === 'ok'))
  const { panels } = JSON.parse(await readFile(join(stack.cwd, 'ops/grafana/dashboard.json'), 'utf8'))
  const queries = panels.flatMap(({ targets = [] }: { targets?: { expr: string }[] }) => targets)
  t.ok(queries.length > 30)
  const variables = { environment: 'production', instance: '.*', __rate_interval: '1m', __range: '1h' }
  for (const { expr } of queries)
    await prometheus.values(
      expr.replace(/\$(\w+)/g, (_: string, name: keyof typeof variables) => variables[name])
    )
  const page = `http://127.0.0.1:${ports.PROMETHEUS_PORT}/user/runbook.html`
  t.match(await (await fetch(page)).text(), '<h3 id="plantstoreabsent">')
}

t.test('nothing fires in health, and each alert at its fault', { skip }, async (t) => {
  await makeSmall()
  await stack.compose('build')
  const token = await stack.token()
  await stack.compose('up', '--detach', '--wait')
  await stack.compose('up', '--detach', '--wait', ...observers)
  const replicas = await stack.running('api')
  const ids = [...replicas, ...(await stack.running('balancer'))]
  const [first = '', second = '', balancer = ''] = await Promise.all(ids.map(addressOf))
  const place = { token, replicas: [first, second], ids, balancer }

  let repeating = startRepeating()
  t.teardown(() => repeating.end())
  void repeating.repeat(100, () => createAt(balancer, token))
  const others = async () => {
    const firing = await look()
    return firing.filter((name) => name !== 'PlantStoreWatchdog' && !ofSlowMachines.test(name))
  }
  await until('each job is scraped', () => prometheus.values('up == 1'), hasLength(10))
  await until('nothing fires', others, hasLength(0))
  seen.clear()
  for (let count = 0; count < 20; count++) {
    t.strictSame(await others(), [])
    await sleep(500)
  }
  await t.test('each rule and each panel has what it asks for', showEverything)
  repeating.end()
  await sql(rule)

  for (const row of faults) {
    repeating = startRepeating()
    await Promise.all(row.map(([, strike]) => strike(place, repeating)))
    await fire(
      t,
      row.flatMap(([names]) => names)
    )
    repeating.end()
  }
  const names = (await prometheus.rules()).filter(({ type }) => type === 'alerting').map(({ name }) => name)
  t.strictSame(names.filter((name) => !seen.has(name)).sort(), elsewhere)
  const sources = await Promise.all(
    ['ops/prometheus/rules.yml', 'ops/grafana/dashboard.json'].map((path) =>
      readFile(join(stack.cwd, path), 'utf8')
    )
  )
  const metrics =
    sources.join().match(/\b(haproxy|node(?!_exporter)|nodejs|pg|plant_store|process)_\w+(?=[ {[])/g) ?? []
  t.ok(metrics.length > 100)
  const met = new Set(await prometheus.metrics())
  // It belongs to the profile `backup`.
  met.add('plant_store_receiver_wanted')
  const unmet = [...new Set(metrics)].filter((name) => !met.has(name))
  t.strictSame(unmet, [], 'each metric exists')
  t.comment([...seen].map(([name, seconds]) => `${name}: ${seconds} s`).join('\n'))
})

t.test('Alertmanager has them, each for its receiver', { skip }, async (t) => {
  const receivedBy = async (receiver: string): Promise<string[]> => {
    const url = `http://127.0.0.1:${ports.ALERTMANAGER_PORT}/api/v2/alerts?receiver=${receiver}`
    const alerts: { labels: { alertname: string } }[] = JSON.parse(await (await fetch(url)).text())
    return alerts.map(({ labels }) => labels.alertname)
  }
  const own = { pager: 'PlantStoreAbsent', team: 'PlantStoreBackupOld', watchdog: 'PlantStoreWatchdog' }
  for (const [receiver, name] of Object.entries(own)) {
    await until(
      receiver,
      () => receivedBy(receiver),
      (names) => names.includes(name)
    )
    const others = Object.values(own).filter((other) => other !== name)
    t.notOk(
      (await receivedBy(receiver)).some((other) => others.includes(other)),
      receiver
    )
  }
})
