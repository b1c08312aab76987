/** A container engine that is only a model: containers that go down and lose their address, and what a run may ask of it. */

import type { Random } from '../../harness/random/random.ts'
import type { Clock } from '../stacks/overlap.ts'

interface Container {
  state: 'running' | 'paused' | 'restarting' | 'exited'
  /** How often it has begun to run. */
  runs: number
  cpus: string
  /** What its network and disk suffer from; its network ends with it. */
  tables: Set<string>
  isSlow: boolean
  isFull: boolean
}

const image = /^\S+-node$/
const networks = ['cluster', 'database']

/** Makes the engine of a project's services. Each command takes a moment of the clock, in which others may run. */
export function createFakeEngine(services: string[], random: Random, clock: Clock) {
  const containers = new Map<string, Container>()
  for (const service of services)
    containers.set(service, {
      ...{ state: 'running', runs: 1, cpus: '2' },
      ...{ tables: new Set(), isSlow: false, isFull: false }
    })
  /** Containers that share something with one of these. */
  const sidecars = new Set<string>()
  const short = (name: string) => /-([a-z]+\d*-\d+)$/.exec(name)?.[1] ?? name
  const isUp = ({ state }: Container) => state === 'running' || state === 'paused'
  const spent = () => clock.sleep(random.integer(400))

  function find(name: string): Container {
    const container = containers.get(short(name))
    if (!container) throw new Error(`Error response from daemon: No such container: ${name}`)
    return container
  }

  function stop(container: Container, state: 'exited' | 'restarting') {
    container.state = state
    container.tables.clear()
    container.isSlow = false
  }

  function start(container: Container) {
    container.state = 'running'
    container.runs++
  }

  function refuse(reason: string): never {
    throw new Error(`Error response from daemon: ${reason}`)
  }

  const address = (name: string, network: string) =>
    isUp(find(name))
      ? `10.${networks.indexOf(network)}.0.${1 + [...containers.keys()].indexOf(short(name))}`
      : ''

  const commands: Record<string, (args: string[]) => unknown> = {
    async kill(args) {
      const container = find(args.at(-1) ?? '')
      if (!isUp(container)) refuse(`cannot kill container: container ${args.at(-1)} is not running`)
      stop(container, 'exited')
    },
    start([name = '']) {
      const container = find(name)
      if (container.state === 'paused') refuse('cannot start a paused container, try unpause instead')
      if (container.state === 'exited') start(container)
    },
    async restart([name = '']) {
      const container = find(name)
      if (container.state === 'paused') refuse(`container ${name} is paused`)
      stop(container, 'restarting')
      await clock.sleep(1_000 + random.integer(9_000))
      start(container)
    },
    pause([name = '']) {
      const container = find(name)
      if (container.state !== 'running') refuse(`container ${name} is not running`)
      if (random.oneIn(10))
        refuse(`cannot pause container ${name}: OCI runtime pause failed: unable to freeze`)
      container.state = 'paused'
    },
    unpause([name = '']) {
      const container = find(name)
      if (container.state !== 'paused') refuse(`container ${name} is not paused`)
      container.state = 'running'
    },
    update(args) {
      const container = find(args.at(-1) ?? '')
      if (container.state === 'restarting') refuse('cannot update container: no such cgroup')
      container.cpus = args[1] ?? ''
    },
    inspect(args) {
      const names = args.filter((arg) => !/^--format$|\{\{/.test(arg))
      if (args.some((arg) => arg.includes('.StartedAt')))
        return names.map((name) => `${find(name).state} ${find(name).runs}`).join('\n')
      if (args.includes('--format')) return find(names[0] ?? '').state
      return JSON.stringify(
        names.map((name) => ({
          NetworkSettings: {
            Networks: Object.fromEntries(
              networks.map((network) => [network, { IPAddress: address(name, network) }])
            )
          }
        }))
      )
    },
    network: ([, ...names]) =>
      JSON.stringify(names.map((_, index) => ({ IPAM: { Config: [{ Subnet: `10.${index}.0.0/16` }] } }))),
    run(args) {
      const [shared = ''] = args.filter((arg) => arg.includes('container:'))
      const name = shared.slice(shared.indexOf(':') + 1)
      const container = find(name)
      if (!isUp(container)) refuse(`cannot join namespace of a non running container: ${name}`)
      if (args.includes('--detach')) {
        const own = args[args.indexOf('--name') + 1] ?? ''
        if (sidecars.has(own)) refuse(`Conflict. The container name ${own} is already in use`)
        sidecars.add(own)
        return
      }
      const [, , script = ''] = args.slice(args.findIndex((arg) => image.test(arg)) + 1)
      changeNetwork(container, script)
    },
    logs([name = '']) {
      if (!sidecars.has(name)) refuse(`No such container: ${name}`)
      return 'attached, listening'
    },
    ps(args) {
      const [, name = ''] = /\^(.*)\$/.exec(args.at(-1) ?? '') ?? []
      return sidecars.has(name) ? name : ''
    },
    rm(args) {
      sidecars.delete(args.at(-1) ?? '')
    },
    exec([name = '', ...command]) {
      if (name.endsWith('holder-1')) {
        find(`${/node\d/.exec(command.join())}-1`).isFull = false
        return
      }
      const container = find(name)
      if (container.state !== 'running') refuse(`container ${name} is ${container.state}`)
      if (command[0] === 'curl') return JSON.stringify({ members: members() })
      if (command.includes('switchover')) return void (members().length > 1 || refuse('no candidate'))
      if (command[0] !== 'sh') refuse(`unknown: ${command}`)
      container.isFull = true
    }
  }

  function members() {
    const up = services.filter((service) => /^node\d/.test(service) && find(service).state === 'running')
    return up.map((service, index) => ({
      ...{ name: service.slice(0, -2), role: index === 0 ? 'leader' : 'quorum_standby' },
      state: 'running'
    }))
  }

  /** As `sh`, `nft` and `tc` do, with nft's own complaint about a set without elements. */
  function changeNetwork(container: Container, script: string) {
    if (/[{,]\s*[,}]/.test(script)) throw new Error('Error: syntax error, unexpected comma')
    const [, table] = /(?:add|delete) table inet (\w+)/.exec(script) ?? []
    if (script.includes('tc qdisc')) container.isSlow = script.includes('replace')
    else if (table === undefined) throw new Error(`unknown: ${script}`)
    else if (script.includes('delete table')) container.tables.delete(table)
    else if (container.tables.has(table)) throw new Error('Error: Could not process rule: File exists')
    else container.tables.add(table)
  }

  return {
    /** What stands in for `docker`. */
    async run([command = '', ...args]: string[]): Promise<string> {
      await spent()
      try {
        return String((await commands[command]?.(args)) ?? '')
      } catch (error) {
        throw new Error(`Command failed: docker ${[command, ...args].join(' ')}\n${(error as Error).message}`)
      } finally {
        await spent()
      }
    },
    /** What is not as it was in the beginning. */
    unhealed: () => [
      ...sidecars,
      ...[...containers].filter(
        ([, { state, cpus, tables, isSlow, isFull }]) =>
          state !== 'running' || cpus === '0.05' || tables.size > 0 || isSlow || isFull
      )
    ]
  }
}
