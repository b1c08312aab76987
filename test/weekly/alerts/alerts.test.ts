/** The alerts by promtool: each case of cases.yml; a week of health, in which none fires; and one that is less healthy. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { execute } from '../../support/execute.ts'
import { writeCases } from './promtool.ts'

const rules = join(import.meta.dirname, '../../ops/prometheus/rules.yml')
const skip = spawnSync('promtool', ['--version']).error !== undefined && 'promtool is not on the PATH'

const days = 7
const [hour, day] = [60, 24 * 60]
const week = days * day
/** In minutes: promtool reads no more than 10,000 samples for a query. */
const step = 2

/** A gauge's value in a minute; undefined where there is none, as of a replica that has ended. */
type Gauge = (minute: number) => number | undefined
/** Series by their names and labels, without those that all have. */
type Series = Record<string, Gauge>

const always =
  (value: number): Gauge =>
  () =>
    value

/** A counter: adds up what is counted in each minute. */
function count(perMinute: (minute: number) => number): Gauge {
  const sums: number[] = []
  let sum = 0
  for (let minute = 0; minute <= week; minute++) {
    sum += perMinute(minute)
    sums.push(sum)
  }
  return (minute) => sums[minute]
}

/** A number that looks random, and is the same in each run: from 0 to 1. */
const random = (minute: number, of: number) =>
  (Math.abs(Math.sin(minute * 12.9898 + of * 78.233)) * 43_758.5453) % 1

const isWithin = (minute: number, from: number, length: number) => minute >= from && minute < from + length
const isOfNight = (minute: number) => isWithin(minute % day, 3 * hour, 20)

/** From the third day's noon, four replicas for five hours: intended, as .env says. */
const isScaled = (minute: number) => isWithin(minute, 2 * day + 12 * hour, 5 * hour)
/** An update on the fifth day: for some minutes the new replicas serve beside the old. */
const update = 4 * day + 10 * hour

/** Creates a minute: 300 a second at noon, a tenth of that at night. */
const creates = (minute: number) =>
  Math.round(18_000 * (0.55 - 0.45 * Math.cos((2 * Math.PI * minute) / day)))

/** The minutes in which each replica is there. */
const replicas: Record<string, (minute: number) => boolean> = {
  a: (minute) => minute < update + 4,
  b: (minute) => minute < update + 4,
  c: isScaled,
  d: isScaled,
  e: (minute) => minute >= update,
  f: (minute) => minute >= update
}

/** What a replica reports while it is there: light load, a few refusals, a short queue now and then. */
function readReplica(of: number): Series {
  const own = (minute: number) => creates(minute) / 2
  const rarely = (share: number) => (minute: number) => (random(minute, of) < share ? 1 : 0)
  const seconds = 'plant_store_http_request_duration_seconds'
  const creates200 = 'interface="true",route="/plants",failure="0"'
  return {
    'up{}': always(1),
    'process_start_time_seconds{}': always(of === 4 || of === 5 ? update * 60 : 0),
    [`${seconds}_count{${creates200}}`]: count(own),
    // The backup at night costs time: one create of 200 takes more than a second.
    [`${seconds}_bucket{${creates200},le="1.0"}`]: count((minute) =>
      Math.round(own(minute) * (isOfNight(minute) ? 0.995 : 0.9995))
    ),
    [`${seconds}_count{interface="true",route="/plants",failure="503"}`]: count(rarely(0.05)),
    [`${seconds}_count{interface="true",route="/plants",failure="422"}`]: count(rarely(0.5)),
    'plant_store_http_failures_total{name="Overloaded"}': count(rarely(0.05)),
    'plant_store_http_failures_total{name="InvalidToken"}': count(rarely(0.3)),
    'plant_store_http_failures_total{name="RefusedPlant"}': count(rarely(0.5)),
    'plant_store_http_failures_total{name="Internal"}': always(0),
    'plant_store_batch_duration_seconds_count{outcome="database"}': count(rarely(0.001)),
    'plant_store_pool_resets_total{}': count(rarely(0.001)),
    'plant_store_database_away{}': always(0),
    'plant_store_database_exhausted{}': always(0),
    'plant_store_tokens_file_error{}': always(0),
    'plant_store_database_url_file_error{}': always(0),
    'plant_store_log_lines_lost_total{}': always(0),
    'plant_store_queue_rows{}': (minute) => (isOfNight(minute) ? 1_500 : 20) * random(minute, of),
    'plant_store_queue_rows_limit{}': always(5_000),
    'plant_store_queue_bytes{}': (minute) => 100_000 * random(minute, of),
    'plant_store_queue_bytes_limit{}': always(64_000_000),
    'plant_store_http_connections{}': (minute) => 50 + creates(minute) / 100,
    'plant_store_http_connections_limit{}': always(2_500),
    'nodejs_eventloop_lag_p99_seconds{}': (minute) => (minute % 500 === 0 ? 0.2 : 0.012),
    'process_open_fds{}': always(400),
    'process_max_fds{}': always(8_192)
  }
}

/** What the rest of the stack reports. */
const others: Record<string, Series> = {
  'job="haproxy",instance="balancer:8405"': {
    'up{}': always(1),
    'haproxy_backend_active_servers{proxy="api"}': (minute) => (isScaled(minute) ? 4 : 2),
    // As the old replicas leave.
    'haproxy_backend_current_queue{proxy="api"}': (minute) => (minute === update + 4 ? 3 : 0),
    'haproxy_process_current_connections{}': (minute) => 100 + creates(minute) / 50,
    'haproxy_process_max_connections{}': always(4_000)
  },
  'job="haproxy",instance="balancer-tls:8405"': { 'up{}': always(1) },
  'job="node",instance="node-exporter:9100"': {
    'up{}': always(1),
    'node_filesystem_avail_bytes{mountpoint="/var/lib/postgresql"}': (minute) => 5e11 - 1e7 * minute,
    'node_filesystem_size_bytes{mountpoint="/var/lib/postgresql"}': always(1e12)
  },
  'job="postgresql",instance="postgres-exporter:9187"': {
    'up{}': always(1),
    'pg_up{}': always(1),
    'pg_replication_slots_active{slot_name="backup"}': (minute) => (minute % day === 200 ? 0 : 1),
    'pg_replication_slots_pg_wal_lsn_diff{slot_name="backup"}': (minute) => 32e6 * (0.5 + random(minute, 1)),
    'pg_replication_slot_wal_status{slot_name="backup",wal_status="reserved"}': always(1)
  },
  'job="backup",instance="127.0.0.1:9090"': {
    'up{}': always(1),
    // It takes an hour until it is proved, and counts from its beginning.
    'plant_store_backup_time_seconds{}': (minute) =>
      (Math.floor((minute - 4 * hour) / day) * day + 3 * hour) * 60
  },
  'job="certificate",instance="127.0.0.1:9090"': {
    'plant_store_certificate_expiry_time_seconds{}': always((week + 22 * day) * 60)
  },
  'job="wanted",instance="127.0.0.1:9090"': {
    'plant_store_replicas_wanted{}': (minute) => (isScaled(minute) ? 4 : 2),
    'plant_store_receiver_wanted{}': always(1)
  },
  'job="wanted",instance="balancer-tls:8405"': { 'plant_store_balancer_wanted{}': always(1) },
  'job="probe",instance="http://127.0.0.1:3000"': { 'plant_store_probe_success{}': always(1) },
  'job="probe",instance="127.0.0.1:9090"': {
    'plant_store_probe_time_seconds{}': (minute) => minute * 60 - 20
  }
}

/** Writes a series as promtool reads it. */
function write(
  end: number,
  name: string,
  labels: string,
  gauge: Gauge,
  isThere: (minute: number) => boolean
) {
  const values: string[] = []
  for (let minute = 0; minute <= end; minute += step) {
    const value = isThere(minute) ? gauge(minute) : undefined
    values.push(value === undefined ? (minute > 0 && isThere(minute - step) ? 'stale' : '_') : `${value}`)
  }
  const all = `service="plant-store",environment="production",${labels}`
  return {
    series: name.replace(/\{(.)?/, (_, first) => `{${all}${first === '}' ? '}' : `,${first}`}`),
    values: values.join(' ')
  }
}

/** Returns the alerts that fire on the first of its days, with promtool's words. */
async function findAlerts(t: Test, days: number, presence: typeof replicas): Promise<string[]> {
  const named = Object.entries(others).flatMap(([labels, series]) =>
    Object.entries(series).map(([name, gauge]) => write(days * day, name, labels, gauge, () => true))
  )
  const own = Object.entries(presence).flatMap(([instance, isThere], index) =>
    Object.entries(readReplica(index)).map(([name, gauge]) =>
      write(days * day, name, `job="plant-store",instance="${instance}:9464"`, gauge, isThere)
    )
  )
  const file = join(t.testdir({}), 'week.yml')
  const test = {
    interval: `${step}m`,
    input_series: [...named, ...own],
    promql_expr_test: [
      {
        expr: `count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[${days}d]))`,
        eval_time: `${days}d`,
        exp_samples: []
      }
    ]
  }
  const whole = {
    rule_files: [rules],
    evaluation_interval: `${step}m`,
    group_eval_order: ['plant-store-objectives', 'plant-store'],
    tests: [test]
  }
  writeFileSync(file, stringify(whole, { lineWidth: 0 }))
  const output = await execute('promtool', ['test', 'rules', file]).catch(
    ({ stdout, stderr }) => `${stdout}${stderr}`
  )
  t.match(output, /got:/, 'promtool has found the watchdog, which is not expected')
  return [...output.matchAll(/alertname="(\w+)"/g)].map(([, name]) => name as string).sort()
}

t.test('each alert fires and is silent as cases.yml says', { skip }, async (t) => {
  const file = join(t.testdir({}), 'cases.yml')
  writeCases(file)
  t.match(await execute('promtool', ['test', 'rules', file]), 'SUCCESS')
})

t.test('in a week with an update, a scale-in and nightly backups, none fires', { skip }, async (t) => {
  t.strictSame(await findAlerts(t, days, replicas), ['PlantStoreWatchdog'])
})

t.test('two days of it, with a replica that dies on the second', { skip }, async (t) => {
  const dead = { ...replicas, b: (minute: number) => minute < day }
  t.strictSame(await findAlerts(t, 2, dead), ['PlantStoreReplicaMissing', 'PlantStoreWatchdog'])
})
