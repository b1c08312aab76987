/** One simulation: services, clients and servers in a world of their own, its faults, and the judgement at its end. */
import { lanes } from '../../src/group-commit/table.ts'
import { Clients } from './clients.ts'
import { Cluster } from './cluster.ts'
import { applyFaults, momentMs } from './faults.ts'
import { Network } from './network.ts'
import { Process } from './process.ts'
import { judge, recoveryMs } from './rules.ts'
import type { Schedule } from './schedule.ts'
import type { loadService, Service } from './service.ts'
import { VirtualSocket } from './socket.ts'
import type { Statement } from './statement.ts'
import { Watch } from './watch.ts'
import { World } from './world.ts'

/** What the sources under simulation export. */
export type Loaded = Awaited<ReturnType<typeof loadService>>

/** The lanes of the ways that have lanes of their own. */
const ownLanes = Object.values(lanes).reduce((sum, count) => sum + count)

/** How long the effects of the last fault may last: the longest stall of a disk. */
const wholeMs = 60_000

/** A service in its process. */
interface Running {
  process: Process
  service: Service
  watch: Watch
}

/** The simulation of a schedule. */
export class Simulation {
  readonly schedule: Schedule
  readonly world: World
  readonly cluster: Cluster
  readonly network: Network
  readonly writeIdOf: Loaded['writeIdOf']
  readonly clients = new Clients(this)
  readonly services: Running[] = []
  readonly #createService: Loaded['createService']
  #onStatement: ((statement: Statement) => void)[] = []
  #killed = 0
  /** Services that close, to be started again. */
  readonly #closing = new Set<number>()
  #isHealed = false

  constructor(schedule: Schedule, { createService, writeIdOf }: Loaded, isTraced = false) {
    this.schedule = schedule
    this.#createService = createService
    this.writeIdOf = writeIdOf
    this.world = new World(schedule.seed, isTraced)
    this.cluster = new Cluster(this.world)
    for (const node of this.cluster.nodes) Object.assign(node, schedule.engine)
    this.network = new Network(this.world, this.cluster.route, schedule.bytesPerMs)
    this.cluster.onReachable = () => this.network.retry()
    this.world.onPoint = (point, count, context) => this.#onPoint(point, count, context)
  }

  get settings() {
    return this.schedule.settings
  }

  get ids() {
    return this.schedule.orders.map(({ id }) => id)
  }

  #onPoint(point: string, count: number, context: unknown) {
    if (point === 'statement')
      for (const meet of this.#onStatement.splice(0)) {
        this.world.trouble(0)
        meet(context as Statement)
      }
    if (point === 'cancelled') {
      const statement = context as Statement
      for (const { watch } of this.services) watch.checkCancel(statement, statement.session.secretKey)
    }
    if (!this.#isHealed) applyFaults(this, point, count, context)
  }

  /** Continues with a fault after a while, unless all is healed by then. */
  later(ms: number, go: () => unknown) {
    this.world.after(ms, () => this.#isHealed || go())
  }

  onNextStatement(meet: (statement: Statement) => void) {
    this.#onStatement.push(meet)
  }

  serviceAt(index: number): Running {
    return this.services[index % this.services.length] as Running
  }

  /** Starts a service in a new process. */
  #start(index: number) {
    const { world, network, settings } = this
    const name = `service ${index}${"'".repeat(this.#killed)}`
    const process: Process = new Process(world, name, (port, address) =>
      new VirtualSocket(network, watch.tapCancel()).connect(port, address)
    )
    const watch = new Watch(process, settings.lanes + ownLanes)
    const stream = () => new VirtualSocket(network, watch.tapConnection())
    const service = this.#createService(settings, stream, (text) => world.log(process.name, text))
    this.services[index] = { process, service, watch }
    process.receive(service.start)
    this.#closing.delete(index)
  }

  /** Kills a service, and starts it again after a while. */
  kill(index: number, ms: number) {
    const { process } = this.serviceAt(index)
    if (process.isDead) return
    process.die()
    this.network.end(process)
    this.#killed++
    this.world.after(ms, () => this.serviceAt(index).process === process && this.#start(index))
  }

  /** Closes a service as a signal does, and starts it again when it is closed. */
  restart(index: number) {
    const { process, service } = this.serviceAt(index)
    if (process.isDead || this.#closing.has(index)) return
    this.#closing.add(index)
    process.receive(() => {
      this.world.log(process.name, 'closes')
      const due = this.world.now + this.settings.deadlineMs
      void service.close().then(() => {
        if (this.world.now > Math.max(due, process.resumedAt) + 5000)
          this.world.violate(`${process.name} closes late`)
        this.kill(index, 1)
      })
    })
  }

  /** An outsider holds ids until all is healed. */
  lock(ids: readonly string[]) {
    const { leader } = this.cluster
    const writes = new Map(ids.map((id) => [id, {}]))
    const transaction = { name: 'outside', locked: new Set<string>(), writes, isOver: false, isOutside: true }
    for (const id of ids) leader.hold(transaction, id)
    if (ids.length > 0) this.world.trouble(this.schedule.healMs)
  }

  /** Runs the simulation; returns the rules that were broken. */
  async run(): Promise<string[]> {
    const { world, clients, schedule } = this
    for (let index = 0; index < schedule.services; index++) this.#start(index)
    this.lock(schedule.locked)
    for (const order of schedule.orders) world.after(order.at, () => clients.send(order))
    for (let at = momentMs; at < schedule.healMs; at += momentMs) world.after(at, () => this.#pass())
    await world.run(schedule.healMs)
    world.reach('end')
    await this.#heal()
    const healedAt = world.now
    await this.#probe(healedAt)
    await this.#close()
    if (world.violations.length === 0) for (const violation of judge(this, healedAt)) world.violate(violation)
    return world.violations
  }

  #pass() {
    if (!this.cluster.isHealthy) this.world.trouble(momentMs)
    this.world.reach('moment')
  }

  /** Ends all faults, and waits until the servers are whole. */
  async #heal() {
    const { world, cluster, network } = this
    world.log('HEAL', 'all faults end')
    this.#isHealed = true
    this.#onStatement = []
    this.clients.lostResponses = 0
    this.clients.isCalm = true
    cluster.heal()
    network.heal()
    for (const [index, { process }] of this.services.entries()) {
      process.resume()
      if (process.isDead) this.#start(index)
    }
    const due = world.now + wholeMs
    while (!(cluster.isWhole && this.#closing.size === 0) && world.violations.length === 0) {
      if (!cluster.isHealthy) world.trouble(momentMs)
      // Repeatedly: a server learns only a moment later that a process was killed.
      for (const node of cluster.nodes) node.releaseOutside()
      await world.run(world.now + 10)
      if (world.now > due) world.violate('the servers and services do not become whole')
    }
    world.log('HEALED', '')
    // Connections that a firewall has forgotten give no sign: a service notices by itself, and no create fails.
    if (this.schedule.seed % 4 !== 0) return
    network.forget()
    world.trouble(0)
  }

  /** Sends creates, one after the other, to each service. */
  async #probe(healedAt: number) {
    const { world, clients, services } = this
    for (const gap of [1, 1000, recoveryMs + 1]) {
      await world.run(healedAt + gap)
      for (const service of services.keys()) {
        const id = `${1000 + gap * 10 + service}`
        clients.send({ at: world.now, service, id, name: 'last', caller: 'a', tries: 1 })
      }
    }
    await world.run(world.now + 40_000)
  }

  async #close() {
    const { world } = this
    const closed = this.services.map(({ process, service }) => {
      let isClosed = false
      process.receive(() => void service.close().then(() => (isClosed = true)))
      return () => isClosed
    })
    await world.run(world.now + this.settings.deadlineMs + 2000)
    for (const { id } of this.clients.owed) world.violate(`a create never ends: ${id}`)
    if (world.violations.length === 0 && !closed.every((isClosed) => isClosed()))
      world.violate('a service does not close')
  }
}
