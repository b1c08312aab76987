/** Two servers of the model of PostgreSQL: a primary, whose commits wait for its standby, and how one replaces the other. */
import { Postgres } from './postgres.ts'
import type { World } from './world.ts'

/** The servers, and which of them is the primary. */
export class Cluster {
  readonly world: World
  readonly nodes: readonly [Postgres, Postgres]
  /** The server that became the primary last. Another may not know that yet. */
  leader: Postgres
  /** The standby that the leader's commits wait for: the only one that may replace it. */
  standby: Postgres | undefined
  /** Whether the servers reach each other. */
  isLinked = true
  /** How much longer the standby takes, in ms. */
  lagMs = 0
  /** Until when the address leads to the other server than the leader, and how often. */
  #stale = { until: 0, oneIn: 1 }
  /** Called when connections may deliver again what they could not. */
  onReachable = () => {}
  #links = 0

  constructor(world: World) {
    this.world = world
    this.nodes = [new Postgres(world, 'a', true), new Postgres(world, 'b', false)]
    this.leader = this.nodes[0]
    this.standby = this.nodes[1]
    for (const node of this.nodes) node.onAppend = () => node === this.leader && this.ship()
  }

  other(node: Postgres): Postgres {
    return this.nodes[node === this.nodes[0] ? 1 : 0]
  }

  /** Returns the server behind an address: that of one of them, or the one that follows the leader. */
  route = (address: string): Postgres =>
    this.nodes.find(({ name }) => name === address) ??
    (this.#stale.until > this.world.now && this.world.random.oneIn(this.#stale.oneIn)
      ? this.other(this.leader)
      : this.leader)

  /** Leads the address to the wrong server for a while, always or now and then. */
  mislead(ms: number, oneIn: number) {
    this.#stale = { until: this.world.now + ms, oneIn }
  }

  /** Sends the leader's log to its standby, which confirms it. */
  ship() {
    const { leader, standby, world } = this
    if (!standby) return
    const link = this.#links
    const { length } = leader.log
    const isWhole = () =>
      link === this.#links && this.isLinked && leader.isUp && !leader.isStarting && standby.isUp
    world.after(world.duration(0.3) + this.lagMs, () => {
      if (!isWhole()) return
      standby.follow(leader.log, length)
      world.reach('replicated')
      world.after(world.duration(0.2), () => isWhole() && leader.confirm(length))
    })
  }

  #link() {
    this.#links++
    this.isLinked = true
    this.ship()
  }

  /** Separates the servers for a while. */
  part(ms: number) {
    this.#links++
    this.isLinked = false
    const links = this.#links
    this.world.after(ms, () => links === this.#links && this.#link())
  }

  /** Stops a server, and starts it again after a while in the role that it has then. */
  restart(node: Postgres, how: 'fast' | 'crash' | 'vanish', downMs: number) {
    if (!node.isUp) return
    node.stop(how)
    this.#links++
    this.world.after(downMs, () => this.startAgain(node))
  }

  startAgain(node: Postgres) {
    if (node.isUp) return
    if (node === this.leader) node.start(true, () => this.#link())
    else if (node === this.standby) node.start(false, () => this.#link())
    else this.rejoin(node)
    this.onReachable()
  }

  /** The standby takes over. The old primary may live on, alone, until it is stopped or rejoins. */
  failOver(): boolean {
    const { standby } = this
    if (!standby?.isUp || standby.isStarting) return false
    this.#links++
    this.isLinked = false
    this.leader = standby
    this.standby = undefined
    standby.promote()
    return true
  }

  /** Makes a server the leader's standby: what only it has in its log is lost. */
  rejoin(node: Postgres) {
    if (node === this.leader || node === this.standby) return
    if (node.isUp) node.stop('crash')
    node.log = this.leader.log.slice()
    this.standby = node
    node.start(false, () => {
      if (this.standby === node) this.#link()
    })
    this.onReachable()
  }

  /** Both servers serve and reach each other, as fast as ever. */
  get isHealthy(): boolean {
    const { leader, standby, isLinked, lagMs } = this
    if (!standby || !isLinked || lagMs > 0 || this.#stale.until > this.world.now) return false
    return (
      this.nodes.every((node) => isReady(node) && node.slowness === 1 && !node.denied && !node.refusal) &&
      leader.isPrimary
    )
  }

  /** Nothing is under way between the servers, nor a transaction on the leader. */
  get isWhole(): boolean {
    const { leader, standby } = this
    if (!this.isLinked || !standby || !isReady(standby) || !isReady(leader)) return false
    return leader.isConfirmed && leader.locks.size === 0
  }

  /** Repairs the servers. */
  heal() {
    this.lagMs = 0
    this.#stale.until = 0
    for (const node of this.nodes) {
      node.slowness = 1
      node.cancelDelayMs = 0
      node.denied = undefined
      node.refusal = undefined
      node.settings.clear()
      if (!node.isUp) this.startAgain(node)
    }
    this.rejoin(this.other(this.leader))
    if (!this.isLinked) this.#link()
  }
}

const isReady = ({ isUp, isStarting }: Postgres) => isUp && !isStarting
