/** The stack of deploy/citus: the service on rows that two workers share, under load and faults. CITUS_IMAGE names its image. */
import t from 'tap'
import { createPlant } from '../../support/post.ts'
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
        (await Promise.all(workers.map((each) => query(each, 'select gid from pg_prepared_xacts')))).flat(),
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
