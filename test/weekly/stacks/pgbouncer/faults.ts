/** The service through PgBouncer under load and faults: `node test/stacks/pgbouncer/faults.ts [part of a name | --seed 7 --minutes 30 | --short]`. */
import { freePort } from '../../../support/postgres/embedded-postgres.ts'
import { until } from '../../../support/until.ts'
import { chooseFaults, type Fault, runFaults } from '../run.ts'
import { deadlineMs, settings } from '../settings.ts'
import { createStack } from '../stack.ts'
import { allRun, createProcessKinds, createStrikes } from '../strikes.ts'

/** Longer than a statement's third of the deadline. */
const lockSeconds = 10

const stack = createStack('pgbouncer', ['pgbouncer', 'api'], { ...settings, PORT: String(await freePort()) })

const query = (sql: string) => stack.psql('db', 'plants', sql)

/** Returns how many statements were cancelled by request so far: only the service requests it. */
async function countCancelled(): Promise<number> {
  const log = await stack.compose('logs', '--no-color', 'db')
  return log.split('canceling statement due to user request').length - 1
}

/** The replicas have up to four connections each; PgBouncer has `default_pool_size`. */
async function sharesConnections() {
  const sql = `select count(*) from pg_stat_activity where usename = 'plants_service' and application_name = 'plant-store'`
  // A connection that was dropped may still be there for a moment.
  await until(
    'PostgreSQL has no more connections than PgBouncer may open',
    async () => Number(await query(sql)),
    (count) => count >= 1 && count <= 3
  )
}

const { killed, restarted } = createStrikes(stack)

const locked: Fault = {
  name: 'the table is locked until statements are cancelled',
  async strike() {
    const before = await countCancelled()
    await query(`begin; lock table plants in access exclusive mode; select pg_sleep(${lockSeconds}); commit`)
    if ((await countCancelled()) === before) throw new Error('no cancel request went through PgBouncer')
  }
}

const short = [killed('PgBouncer', 'pgbouncer'), restarted('PostgreSQL', 'db')]
const all = [...short, restarted('PgBouncer', 'pgbouncer'), killed('PostgreSQL', 'db')]

const replicas = ['api-1', 'api-2']
/** Only replicas exist more than once. */
const isAvailable = (hits: string[]) => hits.every((hit) => hit === hits[0] && replicas.includes(hit))
const kinds = [
  ...createProcessKinds(stack, ['pgbouncer', 'balancer', ...replicas]),
  // A database that is away while others start loses its address, which PgBouncer keeps (README.md).
  ...createProcessKinds(stack, ['db']).filter(({ name }) => /SIGSTOP|processor/.test(name))
]
const forms = [{ title: 'PgBouncer', balancer: 'balancer', replicas, isAvailable }]

await runFaults({
  stack,
  forms,
  deadlineMs,
  faults: chooseFaults(
    { all, short, last: [locked] },
    { stack, forms, kinds, isWhole: () => allRun(stack, kinds) }
  ),
  query,
  check: sharesConnections
})
