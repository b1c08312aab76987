/** The stack of deploy/ha: a majority left is a wait, and a minority acknowledges nothing. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createPlant } from '../../support/post.ts'
import { docker } from '../../support/stack.ts'
import { until } from '../../support/until.ts'
import { type Fault, faultsOf, kill, runFaults, start, startStack, takeIds } from './faults.ts'

const nodes = ['node1', 'node2', 'node3']
const replicas = ['api-1', 'api-2', 'api-3']
const patronictl = ['patronictl', '--config-file', '/etc/patroni/patroni.yaml']
/** The same as `patronictl list`, which takes a second of a processor's time. */
const list = ['curl', '--fail', '--silent', '--max-time', '30', 'http://127.0.0.1:8008/cluster']

interface Member {
  name: string
  role: string
  state: string
  timeline?: number
}

const isPrimary = ({ role, state }: Member) => role === 'leader' && state === 'running'
const otherThan = (node: string) => nodes.find((other) => other !== node) as string

t.test('the highly available stack', async (t) => {
  const stack = await startStack(t, 'ha', 'ha.yaml')
  const token = await stack.token()

  /** The cluster as a node sees it; a look costs a tenth of a second of a processor's time. */
  async function members(witness: string): Promise<Member[]> {
    await sleep(500)
    return JSON.parse(await stack.exec(witness, ...list)).members
  }
  const findPrimary = async (witness = 'node1') =>
    (await until('there is a primary', async () => (await members(witness)).find(isPrimary))).name
  /** Returns when one node is the primary and two follow it on its timeline, synchronously. */
  const isWhole = (witness = 'node1') =>
    until(
      'the cluster is whole',
      () => members(witness),
      (all) => {
        const timeline = all.find(isPrimary)?.timeline
        const followers = all.filter(
          ({ role, state }) => role === 'quorum_standby' && state === 'streaming'
        )
        return followers.filter((follower) => follower.timeline === timeline).length === 2
      }
    )
  const query = (node: string, sql: string) => stack.psql(node, 'postgres', sql)

  /** Takes a node's interface of a network up or down, from a container of its own: the node may not do so. */
  async function setLink(node: string, network: string, state: 'up' | 'down') {
    const inNode = (...command: string[]) =>
      docker([
        ...['run', '--rm', '--network', `container:${stack.container(node)}`, '--user=root'],
        ...['--cap-drop=ALL', '--cap-add=NET_ADMIN', `${stack.name}-node`, 'ip', ...command]
      ])
    const format = `{{(index .NetworkSettings.Networks "${stack.name}_${network}").MacAddress}}`
    const address = await docker(['inspect', '--format', format, stack.container(node)])
    const links: { ifname: string; address: string }[] = JSON.parse(await inNode('-json', 'link'))
    const link = links.find((each) => each.address === address)
    await inNode('link', 'set', 'dev', link?.ifname as string, state)
  }

  /** Strikes the primary; another node takes its place, and it comes back as a standby. */
  function ofPrimary(
    name: string,
    strike: (node: string) => Promise<unknown>,
    repair?: (node: string) => Promise<unknown>
  ): Fault {
    let primary: string
    return {
      name,
      async strike() {
        await isWhole()
        primary = await findPrimary()
        await strike(primary)
        await until(
          'another node is the primary',
          async () => (await findPrimary(otherThan(primary))) !== primary
        )
      },
      async repair() {
        await repair?.(primary)
        await isWhole(otherThan(primary))
      }
    }
  }
  const setLinks = (networks: string[], state: 'up' | 'down') => (node: string) =>
    Promise.all(networks.map((network) => setLink(node, network, state)))
  const cutOff = (name: string, ...networks: string[]) =>
    ofPrimary(name, setLinks(networks, 'down'), setLinks(networks, 'up'))

  const { rotated } = faultsOf(stack)
  const faults: Fault[] = [
    rotated('api'),
    ofPrimary('switchover', (node) =>
      stack.exec(node, ...patronictl, 'switchover', 'plants', '--leader', node, '--force')
    ),
    ofPrimary(
      'SIGKILL of the primary',
      (node) => kill(stack, node),
      (node) => start(stack, node)
    ),
    cutOff('the primary is cut off from everything', 'cluster', 'database'),
    cutOff('the primary is cut off from etcd and the standbys, not from the service', 'cluster'),
    {
      name: 'SIGKILL of a replica of the service',
      isRepeating: true,
      strike: () => kill(stack, 'api', 2),
      repair: () => start(stack, 'api', 2)
    },
    {
      name: 'one node of three is left: it acknowledges nothing, and says so',
      isRepeating: true,
      async strike() {
        await isWhole()
        const primary = await findPrimary()
        const others = nodes.filter((node) => node !== primary)
        await Promise.all(others.map((node) => kill(stack, node)))
        const plant = { id: takeIds(1)[0] as number, name: 'n' }
        const response = await createPlant(stack.url, token, plant)
        if (!response.startsWith('400 {"error":503,')) throw new Error(`a create got ${response}`)
        await Promise.all(others.map((node) => start(stack, node)))
        await isWhole()
      }
    }
  ]
  stack.query = async (sql) => query(await findPrimary(), sql)
  await runFaults(t, stack, replicas, faults)

  await t.test('every node ends up with the same rows', async () => {
    const digest = `select count(*), md5(string_agg(p::text, '' order by id)) from plants as p`
    const digests = () => Promise.all(nodes.map((node) => query(node, digest)))
    await until('every node holds the same rows', digests, (all) => new Set(all.flat()).size === 1)
  })
})
