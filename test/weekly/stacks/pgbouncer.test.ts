/** The stack of deploy/pgbouncer: the service through PgBouncer in transaction mode, under load and faults. */
import t from 'tap'
import { until } from '../../support/until.ts'
import { type Fault, runFaults, startStack } from './stack.ts'

// Longer than any of these faults lasts, also on a slow machine.
const settings = { WRITE_DEADLINE_MS: '60000', STOP_GRACE_PERIOD: '120s' }
/** Longer than a statement's third of the deadline. */
const lockSeconds = 25

t.test('the service through PgBouncer', async (t) => {
  const stack = await startStack(t, 'pgbouncer', ['pgbouncer', 'api'], settings)
  const query = (sql: string) => stack.psql('db', 'plants', sql)
  /** How many statements were cancelled by request so far: only the service requests it. */
  const countCancelled = async () =>
    (await stack.compose('logs', '--no-color', 'db')).split('canceling statement due to user request')
      .length - 1
  const locked: Fault = {
    name: 'the table is locked until statements are cancelled',
    async strike() {
      const before = await countCancelled()
      await query(
        `begin; lock table plants in access exclusive mode; select pg_sleep(${lockSeconds}); commit`
      )
      if ((await countCancelled()) === before) throw new Error('no cancel request went through PgBouncer')
    }
  }
  const faults = [
    stack.killed('PgBouncer', 'pgbouncer'),
    stack.restarted('PgBouncer', 'pgbouncer'),
    stack.killed('PostgreSQL', 'db'),
    stack.restarted('PostgreSQL', 'db'),
    locked
  ]
  await runFaults(t, stack, ['api-1', 'api-2'], faults, query)

  await t.test('replicas with four connections each share the three of PgBouncer', async () => {
    const sql = `select count(*) from pg_stat_activity where usename = 'plants_service' and application_name = 'plant-store'`
    // A connection that was dropped may still be there for a moment.
    await until(
      'PostgreSQL has no more connections than PgBouncer may open',
      async () => Number(await query(sql)),
      (count) => count >= 1 && count <= 3
    )
  })
})
