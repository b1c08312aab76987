/** A simulated network: where the database's address leads, and what does not get through. */
import { Connection, type Endpoint, type Host, type Speed, typicalMs } from './connection.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

const synEveryMs = 1000

/** The network: which host an address leads to, and what does not get through. */
export class Network {
  readonly world: World
  readonly connections = new Set<Connection>()
  readonly #parted = new Map<string, number>()
  /** Returns the host that an address leads to now. */
  readonly route: (address: string) => Host
  /** How fast each connection is. */
  readonly bytesPerMs: Speed

  constructor(world: World, route: (address: string) => Host, bytesPerMs: Speed) {
    this.world = world
    this.route = route
    this.bytesPerMs = bytesPerMs
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

  /** From now on no connection leads anywhere. */
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

  /** Connects a process to where an address leads; a host that does not respond is tried again and again. */
  connect(
    process: Process,
    address: string,
    client: Endpoint,
    done: (connection: Connection | undefined) => void
  ) {
    const { world, bytesPerMs } = this
    world.after(world.duration(typicalMs), () => {
      const host = this.route(address)
      if (host.isSilent || this.isParted(process, host)) {
        world.after(synEveryMs, () => process.isDead || this.connect(process, address, client, done))
        return
      }
      const isParted = () => this.isParted(process, host)
      const connection = host.isUp
        ? new Connection(process, host, client, { isParted, bytesPerMs })
        : undefined
      if (connection) this.connections.add(connection)
      world.after(world.duration(typicalMs), () => process.receive(() => done(connection)))
    })
  }
}
