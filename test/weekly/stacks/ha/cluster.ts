/** The database nodes of the stack, as Patroni sees them, and what can be done to them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../support/until.ts'
import { type Stack, settleMs } from '../stack.ts'

interface Member {
  name: Node
  role: string
  state: string
  timeline?: number
}

/** Database nodes. */
export type Node = (typeof nodes)[number]

export const nodes = ['node1', 'node2', 'node3'] as const

const patronictl = ['patronictl', '--config-file', '/etc/patroni/patroni.yaml']
/** The same as `patronictl list`, which takes a second of a processor's time. */
const list = ['curl', '--fail', '--silent', '--max-time', '30', 'http://127.0.0.1:8008/cluster']

/** Looks at once, and then each second: a command in a container takes a tenth of a second of a processor's time. */
function eachSecond<T>(look: () => Promise<T>) {
  let next = 0
  return async () => {
    await sleep(Math.max(0, next - performance.now()))
    next = performance.now() + 1_000
    return await look()
  }
}

/** Runs a command in a node's network, but in a container of its own: the node may not change its interfaces. */
export const inNetworkOf = (stack: Stack, node: string, ...command: string[]) =>
  stack.docker(
    ...['run', '--rm', '--network', `container:${stack.container(node)}`],
    ...['--cap-drop', 'ALL', '--cap-add', 'NET_ADMIN', '--user', 'root'],
    ...[`${stack.name}-node`, ...command]
  )

/** Returns the operations on the nodes of a stack. */
export function createCluster(stack: Stack) {
  const isPrimary = ({ role, state }: Member) => role === 'leader' && state === 'running'

  async function members(witness: Node): Promise<Member[]> {
    return JSON.parse(await stack.exec(witness, ...list)).members
  }

  /** Returns the node that holds the leader lease, as another node sees it. */
  async function findPrimary(witness: Node = 'node1'): Promise<Node> {
    const look = eachSecond(async () => (await members(witness)).find(isPrimary))
    const leader = await until('there is a primary', look, Boolean, settleMs)
    return leader.name
  }

  function switchover(from: Node, to?: Node) {
    const candidate = to ? ['--candidate', to] : []
    return stack.exec(from, ...patronictl, 'switchover', 'plants', '--leader', from, ...candidate, '--force')
  }

  async function setLink(node: Node, network: string, state: 'up' | 'down') {
    const format = `{{(index .NetworkSettings.Networks "${stack.name}_${network}").MacAddress}}`
    const address = await stack.docker('inspect', '--format', format, stack.container(node))
    const links: { ifname: string; address: string }[] = JSON.parse(
      await inNetworkOf(stack, node, 'ip', '-json', 'link')
    )
    const link = links.find((each) => each.address === address)
    if (link === undefined) throw new Error(`${node} has no interface on the network ${network}`)
    await inNetworkOf(stack, node, 'ip', 'link', 'set', 'dev', link.ifname, state)
  }

  return {
    findPrimary,
    /** Returns when one node is the primary, the others follow it on its timeline, and it waits for both. */
    isWhole: (witness: Node = 'node1') =>
      until(
        'the cluster is whole',
        eachSecond(() => members(witness)),
        (all) => {
          const leader = all.find(isPrimary)
          const followers = all.filter(
            ({ role, state }) => role === 'quorum_standby' && state === 'streaming'
          )
          return (
            followers.length === nodes.length - 1 &&
            followers.every(({ timeline }) => timeline === leader?.timeline)
          )
        },
        settleMs
      ),
    /** Returns when another node than this one is the primary. */
    isReplaced: (node: Node) =>
      until(
        `${node} is replaced`,
        eachSecond(() => findPrimary(otherThan(node))),
        (primary) => primary !== node,
        settleMs
      ),
    switchover,
    /** Switches over from the node that any of them considers the primary now. */
    async switchoverNow() {
      const views = await Promise.allSettled(nodes.map(members))
      const all = views.flatMap((view) => (view.status === 'fulfilled' ? view.value : []))
      const leader = all.find(isPrimary)
      if (leader === undefined) throw new Error('no switchover without a primary')
      await switchover(leader.name)
    },
    /** Unplugs a node from a network: the other end does not learn of it, and names still resolve. */
    cut: (node: Node, name: string) => setLink(node, name, 'down'),
    connect: (node: Node, name: string) => setLink(node, name, 'up'),
    /** Runs a query on a node, and returns its lines. */
    query: (node: Node, sql: string) => stack.psql(node, 'postgres', sql)
  }
}

/** Returns another node. */
export const otherThan = (node: Node) => nodes.find((other) => other !== node) as Node
