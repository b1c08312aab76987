/** The stack of deploy/pgbouncer: the service through PgBouncer in transaction mode, under load and faults. */
import t from 'tap'
import { until } from '../../support/until.ts'
import { type Fault, faultsOf, runFaults, startStack } from './faults.ts'

/** Longer than a statement's third of the deadline. */
const lockSeconds = 25

t.test('the service through PgBouncer', async (t) => {
  const stack = await startStack(t, 'pgbouncer')
  const { killed, restarted, rotated } = faultsOf(stack)
  /** How many statements were cancelled by request so far: only the service requests it. */
  const countCancelled = async () =>
    (await stack.compose('logs', '--no-color', 'db')).split(
      'canceling statement due to user request'
    ).length - 1
  const locked: Fault = {
    name: 'the table is locked until statements are cancelled',
    async strike() {
      const before = await countCancelled()
      await stack.query(
        `begin; lock table plants in access exclusive mode; select pg_sleep(${lockSeconds}); commit`
      )
      if ((await countCancelled()) === before)
        throw new Error('no cancel request went through PgBouncer')
    }
  }
  const rotations = [rotated('db'), rotated('pgbouncer'), rotated('api')]
  const faults = [
    ...rotations,
    killed('pgbouncer'),
    restarted('pgbouncer'),
    killed('db'),
    restarted('db'),
    locked
  ]
  await runFaults(t, stack, ['api-1', 'api-2'], faults)

  await t.test('replicas with four connections each share the three of PgBouncer', async () => {
    const sql = `select count(*) from pg_stat_activity where usename = 'plants_service' and application_name = 'plant-store'`
    // A connection that was dropped may still be there for a moment.
    await until(
      'PostgreSQL has no more connections than PgBouncer may open',
      async () => Number(await stack.query(sql)),
      (count) => count >= 1 && count <= 3
    )
  })
})
