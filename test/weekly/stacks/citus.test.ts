/** The stack of deploy/citus: the service on rows that two workers share, under load and faults. CITUS_IMAGE names its image. */
import t, { type Test } from 'tap'
import { createPlant } from '../../support/post.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { docker } from '../../support/stack.ts'
import { until } from '../../support/until.ts'
import { type Fault, faultsOf, runFaults, startStack, takeIds } from './faults.ts'

/** Shorter than a statement's third of the deadline, and longer. */
const [shortPauseMs, longPauseMs] = [5_000, 25_000]
const workers = ['worker1', 'worker2']

t.test('the service on Citus', async (t) => {
  const stack = await startStack(t, 'citus', 'citus.yaml')
  const { killed, restarted, paused, rotated } = faultsOf(stack)
  const token = await stack.token()
  const query = (node: string, ...statements: string[]) => stack.psql(node, 'plants', ...statements)
  /** Returns when no transaction is in doubt on any worker: every acknowledged row can be seen. */
  const isDecided = () =>
    until(
      'no transaction is in doubt',
      async () =>
        (
          await Promise.all(workers.map((each) => query(each, 'select gid from pg_prepared_xacts')))
        ).flat(),
      (prepared) => prepared.length === 0
    )

  /** As a coordinator leaves it that dies in the middle of a commit. */
  const inDoubt: Fault = {
    name: 'a transaction in doubt holds an id',
    async strike() {
      const [id = 0] = takeIds(1)
      const [shard, worker = ''] = await query(
        'db',
        `select get_shard_id_for_distribution_column('plants', ${id})`,
        `select nodename from pg_dist_shard_placement
         where shardid = get_shard_id_for_distribution_column('plants', ${id})`
      )
      await query(
        worker,
        'set citus.enable_manual_changes_to_shards = on',
        'begin',
        `insert into plants_${shard} (id, name, write_id) values (${id}, 'in doubt', gen_random_uuid())`,
        // As Citus names them: group of the coordinator, process, transaction, connection.
        `prepare transaction 'citus_0_1_4000000000_1'`
      )
      const response = await createPlant(stack.url, token, { id, name: 'held' })
      if (response !== '200 {"name":"held"}') throw new Error(`the id in doubt got ${response}`)
    }
  }
  stack.query = async (sql) => {
    await isDecided()
    return query('db', sql)
  }
  const faults = [
    rotated('db'),
    rotated('worker1'),
    rotated('api'),
    killed('worker1'),
    killed('db'),
    restarted('worker2'),
    paused('worker2', shortPauseMs),
    paused('worker1', longPauseMs),
    inDoubt
  ]
  await runFaults(t, stack, ['api-1', 'api-2'], faults)

  /** Starts a replica whose sessions are at a node, until teardown; returns its URL. */
  const startAt = async (t: Test, node: string) => {
    const port = await freePort()
    const name = `${stack.name}-at-${node}`
    const start = `
      url=$(sed 's/@db:/@${node}:/' /run/secrets/database-url)
      DATABASE_URL=$url DATABASE_URL_FILE= exec node dist/server.js`
    const place = [`--name=${name}`, `--publish=127.0.0.1:${port}:3000`, '--entrypoint=sh']
    t.teardown(() => docker(['rm', '--force', name]))
    await stack.compose('run', '--detach', '--no-deps', ...place, 'api', '-c', start)
    const url = `http://127.0.0.1:${port}`
    const isReady = () =>
      fetch(`${url}/readyz`)
        .then(({ ok }) => ok)
        .catch(() => false)
    await until(`the replica at ${node} is ready`, isReady)
    return url
  }

  await t.test('replicas with sessions at two nodes are one store', async (t) => {
    const urls = await Promise.all(workers.map((node) => startAt(t, node)))
    const load = await stack.startClients(t, { urls, clients: 8, pauseMs: 100 })
    for (const node of workers) {
      const sessions = `select pid from pg_stat_activity where application_name = 'plant-store'`
      t.ok((await query(node, sessions)).length > 0, `sessions are at ${node}`)
    }
    await load.assertServed()
  })

  await t.test(
    'both workers hold rows, the coordinator none, also when the table is distributed again',
    async (t) => {
      const isSpread = async () => {
        const [bytes, ...holders] = await query(
          'db',
          `select pg_relation_size('plants')`,
          `select nodename from run_command_on_placements('plants', 'select count(*) from %s')
         group by nodename having sum(result::bigint) > 0 order by nodename`
        )
        t.strictSame([bytes, holders], ['0', workers])
      }
      await isSpread()
      await stack.compose('run', '--rm', '--no-deps', '-T', 'distribute')
      await isSpread()
    }
  )
})
