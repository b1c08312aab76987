/** The network's faults that a schedule can draw: partitions, loss, resets and slow links of database nodes. */
import type { Kind } from '../schedule.ts'
import type { Stack } from '../stack.ts'
import { inNetworkOf, nodes } from './cluster.ts'
import { endSidecar, startSidecar } from './sidecar.ts'

type Direction = 'in' | 'out' | 'both'

/** Passes each chunk on 20 to 300 ms late, and in order. */
const proxy = `
  const { connect, createServer } = require('node:net')
  const { setTimeout: sleep } = require('node:timers/promises')
  const pass = (from, to) => {
    let last = Promise.resolve()
    from.on('data', (chunk) => {
      const late = sleep(20 + 280 * Math.random())
      last = last.then(() => late).then(() => to.write(chunk))
    })
    from.on('error', () => {}).on('close', () => to.destroy())
  }
  createServer((client) => {
    const server = connect(5432, '127.0.0.1')
    pass(client, server)
    pass(server, client)
  }).listen(15432, () => console.log('listening'))`

/** Returns the kinds for a stack's nodes. */
export function createNetworkKinds(stack: Stack): Kind[] {
  const shell = (node: string, script: string) => inNetworkOf(stack, node, 'sh', '-ec', script)

  /** Filters what a node gets and sends, by rules of nftables. */
  const filter = (
    node: string,
    tag: string,
    rules: { prerouting?: string[]; input?: string[]; output?: string[] }
  ) => {
    const commands = Object.entries(rules).flatMap(([hook, lines]) => [
      `add chain inet ${tag} ${hook} { type ${hook === 'prerouting' ? 'nat' : 'filter'} hook ${hook} priority 0; }`,
      ...lines.map((line) => `add rule inet ${tag} ${hook} ${line}`)
    ])
    return shell(node, `nft '${[`add table inet ${tag}`, ...commands].join('; ')}'`)
  }
  const unfilter = (node: string, tag: string) =>
    shell(node, `nft add table inet ${tag} && nft delete table inet ${tag}`)

  /** Drops the packets between a node and these addresses. */
  const drop = (node: string, tag: string, addresses: string[], direction: Direction) => {
    const set = `{ ${addresses.join(', ')} }`
    return filter(node, tag, {
      ...(direction !== 'out' && { input: [`ip saddr ${set} drop`] }),
      ...(direction !== 'in' && { output: [`ip daddr ${set} drop`] })
    })
  }

  const subnets = async (networks: string[]) =>
    JSON.parse(
      await stack.docker('network', 'inspect', ...networks.map((network) => `${stack.name}_${network}`))
    ).map(({ IPAM }: { IPAM: { Config: { Subnet: string }[] } }) => IPAM.Config[0]?.Subnet)

  async function addresses(node: string): Promise<string[]> {
    const [{ NetworkSettings: settings }] = JSON.parse(await stack.docker('inspect', stack.container(node)))
    return Object.values(settings.Networks as Record<string, { IPAddress: string }>).map(
      ({ IPAddress }) => IPAddress
    )
  }

  const needs = (node: string) => [stack.container(node)]
  const lasting = { group: 'network', longest: 30, needs }
  const isolated = (networks: string[], direction: Direction, name: string): Kind => ({
    ...{ ...lasting, name, targets: [...nodes] },
    strike: async (node, tag) => drop(node, tag, await subnets(networks), direction),
    heal: unfilter
  })

  const links = nodes.flatMap((from) => nodes.filter((to) => to !== from).map((to) => `${from} to ${to}`))
  const ends = (link: string) => link.split(' to ') as [string, string]
  const parted = (direction: Direction, name: string): Kind => ({
    ...{ ...lasting, name, targets: links },
    // A node that is down has no address.
    needs: (link) => ends(link).flatMap(needs),
    hits: (link) => [ends(link).sort().join('-')],
    strike: async (link, tag) => drop(ends(link)[1], tag, await addresses(ends(link)[0]), direction),
    heal: (link, tag) => unfilter(ends(link)[1], tag)
  })

  const spoiled = (name: string, rule: string): Kind => ({
    ...{ ...lasting, name, targets: [...nodes] },
    strike: (node, tag) => filter(node, tag, { input: [rule] }),
    heal: unfilter
  })

  const eachLink = (command: string) =>
    `for link in $(ls /sys/class/net | grep -v '^lo$'); do tc qdisc ${command.replace('LINK', '"$link"')}; done`

  /** Breaks the connections to a node's PostgreSQL, and leads the next ones through a proxy that delays what they carry. */
  const late: Kind = {
    ...{ ...lasting, name: 'has late packets', targets: [...nodes] },
    strike: async (node, tag) => {
      const command = ['node', '--eval', proxy]
      await startSidecar(stack, node, tag, { shares: 'network', image: 'api', command, begins: 'listening' })
      await filter(node, tag, {
        prerouting: ['tcp dport 5432 redirect to :15432'],
        input: ['iifname != lo tcp dport 5432 reject with tcp reset']
      })
    },
    heal: async (node, tag) => {
      await endSidecar(stack, tag)
      await unfilter(node, tag)
    }
  }

  return [
    late,
    isolated(['cluster', 'database'], 'both', 'is cut off from everything'),
    isolated(['cluster', 'database'], 'in', 'hears nothing'),
    isolated(['cluster', 'database'], 'out', 'is heard by nobody'),
    isolated(['cluster'], 'both', 'is cut off from etcd and the other nodes'),
    isolated(['database'], 'both', 'is cut off from the service'),
    parted('both', 'is cut'),
    parted('in', 'loses everything one way'),
    spoiled('loses a tenth of what it gets', 'iifname != lo numgen random mod 10 == 0 drop'),
    spoiled(
      'has its connections reset',
      'iifname != lo meta l4proto tcp numgen random mod 500 == 0 reject with tcp reset'
    ),
    {
      ...{ ...lasting, name: 'has slow links', targets: [...nodes], group: 'links' },
      strike: (node) => shell(node, eachLink('replace dev LINK root tbf rate 512kbit burst 8kb latency 1s')),
      heal: (node) => shell(node, eachLink('delete dev LINK root 2>/dev/null || true'))
    }
  ]
}
