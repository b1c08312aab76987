/** The nodes of the stack, as Citus sees them. */
import { until } from '../../../support/until.ts'
import { type Stack, settleMs } from '../stack.ts'

/** Database nodes. */
export type Node = 'coordinator' | (typeof workers)[number]

const workers = ['worker1', 'worker2'] as const

/** Returns the operations on the nodes of a stack. */
export function createCluster(stack: Stack) {
  /** Runs statements on a node, each a transaction of its own unless they say otherwise, and returns their lines. */
  const query = (node: Node, ...statements: string[]) => stack.psql(node, 'plants', ...statements)

  return {
    query,
    /** Returns when no transaction is in doubt on any worker: every acknowledged row can be seen. */
    isDecided: () =>
      until(
        'no transaction is in doubt',
        async () => {
          const select = 'select gid from pg_prepared_xacts'
          return (await Promise.all(workers.map((worker) => query(worker, select)))).flat()
        },
        (prepared) => prepared.length === 0,
        settleMs
      ),
    /** Throws unless the rows of the table are on both workers, and none on the coordinator. */
    async isSpread() {
      const [bytes, ...holders] = await query(
        'coordinator',
        `select pg_relation_size('plants')`,
        `select nodename from run_command_on_placements('plants', 'select count(*) from %s')
         group by nodename having sum(result::bigint) > 0 order by nodename`
      )
      if (bytes !== '0') throw new Error(`the coordinator holds ${bytes} bytes of the table itself`)
      if (String(holders) !== String(workers)) throw new Error(`the rows are on ${holders}`)
    },
    /** Leaves a transaction in doubt that has written an id, like a coordinator that dies in the middle of a commit. */
    async leaveInDoubt(id: number) {
      const [shard, name] = await query(
        'coordinator',
        `select get_shard_id_for_distribution_column('plants', ${id})`,
        `select nodename from pg_dist_shard_placement
         where shardid = get_shard_id_for_distribution_column('plants', ${id})`
      )
      const worker = workers.find((each) => each === name)
      if (worker === undefined) throw new Error(`the id ${id} is on no worker`)
      await query(
        worker,
        'set citus.enable_manual_changes_to_shards = on',
        'begin',
        `insert into plants_${shard} (id, name, write_id) values (${id}, 'in doubt', gen_random_uuid())`,
        // As Citus names them: group of the coordinator, process, transaction, connection.
        `prepare transaction 'citus_0_1_4000000000_1'`
      )
    }
  }
}
