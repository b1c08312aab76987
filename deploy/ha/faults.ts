/**
 * The highly available stack under load and faults: `node deploy/ha/faults.ts [--direct] [--short | part of a fault's name]`.
 * `--direct` is without its database proxy.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../dev/until.ts'
import { chooseFaults, type Fault, runFaults } from '../faults/run.ts'
import { createStack, settleMs } from '../faults/stack.ts'
import { createCluster, type Node, nodes, otherThan } from './cluster.ts'

const [choice] = process.argv.slice(2).filter((argument) => argument !== '--direct')
const files = process.argv.includes('--direct') ? 'compose.yaml:compose.direct.yaml' : 'compose.yaml'
const stack = createStack(import.meta.dirname, 'plant-store-ha', ['node', 'api'], { COMPOSE_FILE: files })
const cluster = createCluster(stack)

/** Strikes the node that is the primary; afterwards another one is, and the old one comes back as a standby. */
function primaryFault(
  name: string,
  strike: (node: Node) => Promise<unknown>,
  mend?: (node: Node) => Promise<unknown>
): Fault {
  let primary: Node
  return {
    name,
    async strike() {
      await cluster.isWhole()
      primary = await cluster.findPrimary()
      await strike(primary)
      await cluster.isReplaced(primary)
    },
    async mend() {
      await mend?.(primary)
      await cluster.isWhole(otherThan(primary))
    }
  }
}

const switchover = primaryFault('switchover', (node) => cluster.switchover(node, otherThan(node)))

const killed = primaryFault(
  'SIGKILL of the primary',
  (node) => stack.kill(node),
  (node) => stack.start(node)
)

const cutOff = primaryFault(
  'the primary is cut off from everything',
  async (node) => {
    await Promise.all(['cluster', 'database'].map((network) => cluster.cut(node, network)))
  },
  async (node) => {
    await Promise.all(['cluster', 'database'].map((network) => cluster.connect(node, network)))
  }
)

const cutOffButReachable = primaryFault(
  'the primary is cut off from etcd and the standbys, not from the service',
  (node) => cluster.cut(node, 'cluster'),
  (node) => cluster.connect(node, 'cluster')
)

const standbyKilled: Fault = (() => {
  let standby: Node
  return {
    name: 'SIGKILL of a standby',
    async strike() {
      standby = otherThan(await cluster.findPrimary())
      await stack.kill(standby)
    },
    async mend() {
      await stack.start(standby)
      await cluster.isWhole(otherThan(standby))
    }
  }
})()

const etcdKilled: Fault = (() => {
  const etcd = ['etcd1', 'etcd2', 'etcd3']
  let primary: Node
  return {
    name: 'SIGKILL of all etcd nodes, for longer than the lease',
    async strike() {
      primary = await cluster.findPrimary()
      await Promise.all(etcd.map((service) => stack.kill(service)))
      await sleep(30_000)
    },
    async mend() {
      await Promise.all(etcd.map((service) => stack.start(service)))
      await cluster.isWhole()
      if ((await cluster.findPrimary()) !== primary) throw new Error('the primary has changed without need')
    }
  }
})()

const replicaKilled: Fault = {
  name: 'SIGKILL of one replica of the service',
  breaksClients: true,
  strike: () => stack.kill('api', 2),
  mend: () => stack.start('api', 2)
}

const short = [switchover, killed, replicaKilled]
const all = [switchover, killed, cutOff, cutOffButReachable, standbyKilled, etcdKilled, replicaKilled]

await runFaults({
  stack,
  entry: { service: 'balancer', port: 3000 },
  deadlineMs: 35_000,
  faults: chooseFaults(choice, all, short),
  query: async (sql) => await cluster.query(await cluster.findPrimary(), sql),
  /** Every node, also those that were struck, ends up with the same rows. */
  async check() {
    const digest = `select count(*), md5(string_agg(p::text, '' order by id)) from plants as p`
    await cluster.isWhole()
    await until(
      'every node holds the same rows',
      () => Promise.all(nodes.map((node) => cluster.query(node, digest))),
      (digests) => new Set(digests.flat()).size === 1,
      settleMs
    )
  }
})
