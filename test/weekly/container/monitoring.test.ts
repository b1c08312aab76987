/** The profile observability: the alerts read metrics that are there, and what stops in the night calls somebody. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createPlant } from '../../support/post.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { root } from '../../support/process.ts'
import { copyStack, docker } from '../../support/stack.ts'
import { until } from '../../support/until.ts'

const PROMETHEUS_PORT = String(await freePort())
const stack = await copyStack(t, { PROMETHEUS_PORT })
await stack.start('--wait', 'balancer', 'prometheus', 'node-exporter', 'postgres-exporter')

/** What Prometheus responds to a path of its interface. */
async function ask<T>(path: string): Promise<T> {
  const response = await fetch(`http://127.0.0.1:${PROMETHEUS_PORT}/api/v1/${path}`)
  return ((await response.json()) as { data: T }).data
}
/** The alerts that fire, or will if it goes on: test/weekly/alerts has how long each waits. */
const raised = async () => {
  const { alerts } = await ask<{ alerts: { labels: { alertname: string } }[] }>('alerts')
  return alerts.map(({ labels }) => labels.alertname)
}
const told = ['PlantStoreDatabaseDown', 'PlantStoreReplicaLost']
const isQuiet = () =>
  until('neither is told', raised, (names) => !told.some((name) => names.includes(name)))

t.test('each metric that an alert reads is there', async (t) => {
  const rules = readFileSync(join(root, 'ops/prometheus/rules.yml'), 'utf8').replaceAll(
    /^ *(#|summary:).*/gm,
    ''
  )
  const read = new Set(rules.match(/\b(pg|node|process|plant_store)_\w+/g))
  read.delete('plant_store_backup_time_seconds') // after a first base backup
  for (const name of read) if (name.startsWith('plant_store_jwt')) read.delete(name) // with an identity provider
  t.ok(read.size > 10)
  // A slot has metrics as soon as it is there, a request after the first one.
  await stack.query(`select pg_create_physical_replication_slot('backup', true)`)
  const response = await createPlant(stack.url, await stack.token(), { id: 1, name: 'Fern' })
  t.equal(response, '200 {"name":"Fern"}')
  const missing = async () => {
    const known = await ask<string[]>('label/__name__/values')
    return [...read].filter((name) => !known.includes(name))
  }
  await until('Prometheus has read them', missing, (names) => names.length === 0)
  await stack.query(`select pg_drop_replication_slot('backup')`)
})

t.test('a replica and the database stop while nothing is created: both are told', async () => {
  await isQuiet()
  const [, replica = ''] = await stack.running('api')
  await docker(['stop', '--time=120', replica])
  await stack.compose('stop', 'db')
  await until('both are told', raised, (names) => told.every((name) => names.includes(name)))
  await stack.compose('start', 'db')
  await docker(['start', replica])
  await isQuiet()
})
