/** A simulated network: where the database's address leads, and what does not get through. */
import { Connection, type Endpoint, type Host, typicalMs } from './connection.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

const synEveryMs = 1000

/** The network: which host an address leads to, and what does not get through. */
export class Network {
  readonly world: World
  readonly connections = new Set<Connection>()
  readonly #parted = new Map<string, number>()
  /** Gives the host that the database's address leads to now. */
  route: () => Host

  constructor(world: World, route: () => Host) {
    this.world = world
    this.route = route
  }

  isParted(process: Process, host: Host): boolean {
    return (this.#parted.get(`${process.name} ${host.name}`) ?? 0) > this.world.now
  }

  /** Lets nothing through between a process and a host for a while. */
  part(process: Process, host: Host, ms: number) {
    this.#parted.set(`${process.name} ${host.name}`, this.world.now + ms)
    this.world.after(ms, () => this.retry())
  }

  heal() {
    this.#parted.clear()
    this.retry()
  }

  /** All connections lead nowhere any more. */
  forget() {
    this.world.log('network', 'forgets all connections')
    for (const connection of this.connections) connection.deafen()
  }

  retry() {
    for (const connection of this.connections) connection.retry()
  }

  /** A process has died: its kernel ends its connections. */
  end(process: Process) {
    for (const connection of this.connections) {
      if (connection.process === process) connection.toHost.send('ended')
    }
  }

  /** Connects a process to where the address leads; a host that does not answer is asked again and again. */
  connect(process: Process, client: Endpoint, done: (connection: Connection | undefined) => void) {
    const { world } = this
    world.after(world.duration(typicalMs), () => {
      const host = this.route()
      if (host.isSilent || this.isParted(process, host)) {
        world.after(synEveryMs, () => process.isDead || this.connect(process, client, done))
        return
      }
      const connection = host.isUp
        ? new Connection(process, host, client, () => this.isParted(process, host))
        : undefined
      if (connection) this.connections.add(connection)
      world.after(world.duration(typicalMs), () => process.receive(() => done(connection)))
    })
  }
}
