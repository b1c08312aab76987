/** The faults that a simulation can meet, each at a point that the simulation reaches. */
import type { Random } from '../../dev/random.ts'
import type { Session } from './session.ts'
import type { Simulation } from './simulation.ts'
import { Statement } from './statement.ts'

/** What goes wrong, and when: as soon as a point is reached for the `count`th time. */
export interface Fault {
  readonly point: (typeof points)[number]
  readonly count: number
  readonly kind: keyof typeof kinds
  /** How long it lasts. */
  readonly ms: number
  /** Chooses among what it can meet. */
  readonly dice: number
}

const points = [
  'statement',
  'logged',
  'replicated',
  'answers',
  'cancelled',
  'waits for a lock',
  'connected',
  'moment',
  'end'
] as const

/** Moments are this far apart. */
export const momentMs = 50

/** What a statement can meet that is not its own fault, or is that of a row or of the server's disk. */
const codes = [
  '40001',
  '40P01',
  '53200',
  '55P03',
  '57014',
  '25006',
  '26000',

  'XX000',
  '57P01',
  '08006'
]

type Apply = (simulation: Simulation, fault: Fault, context: unknown) => unknown

const pick = <T>(values: readonly T[], dice: number) => values[dice % values.length] as T

/** The connection that a point was reached on, or any other. */
function connectionOf({ network }: Simulation, { dice }: Fault, context: unknown) {
  const session = (context instanceof Statement ? context.session : context) as Session | undefined
  return session?.connection ?? pick([...network.connections], dice)
}

const kinds = {
  'the primary crashes': ({ cluster }, { ms }) => cluster.restart(cluster.leader, 'crash', ms),
  'the primary restarts': ({ cluster }, { ms }) => cluster.restart(cluster.leader, 'fast', ms / 4),
  'the primary crashes and is replaced'(simulation, { ms, dice }) {
    const { cluster } = simulation
    const old = cluster.leader
    cluster.restart(old, dice % 2 ? 'crash' : 'vanish', ms)
    simulation.later(ms * pick([0, 0.1, 0.5], dice >> 1), () => old === cluster.leader && cluster.failOver())
  },
  'the primary is lost with its address'(simulation, { ms, dice }) {
    const { cluster, network } = simulation
    const old = cluster.leader
    for (const connection of network.connections) if (connection.host === old) connection.deafen()
    cluster.restart(old, 'vanish', ms)
    simulation.later(ms * pick([0, 0.1, 0.5], dice), () => old === cluster.leader && cluster.failOver())
  },
  'the standby takes over from a primary that lives on'({ cluster, world }, { ms, dice }) {
    const old = cluster.leader
    if (!cluster.failOver()) return
    if (dice % 2) cluster.mislead(3 * ms, pick([1, 2], dice >> 1))
    world.after(ms, () => cluster.rejoin(old))
  },
  'the old primary comes back as one'(simulation, { ms, dice }) {
    const { cluster, world } = simulation
    const old = cluster.leader
    if (!old.isUp || !cluster.failOver()) return
    old.stop('crash')
    if (dice % 2) cluster.mislead(3 * ms, pick([1, 2], dice >> 2))
    simulation.later(ms / 4, () => old.isUp || old === cluster.leader || old.start(dice % 4 < 2, () => {}))
    world.after(ms, () => cluster.rejoin(old))
  },
  'the standby crashes': ({ cluster }, { ms }) =>
    cluster.standby && cluster.restart(cluster.standby, 'crash', ms),
  'the servers are parted': ({ cluster }, { ms }) => cluster.part(ms),
  'the standby lags'({ cluster, world }, { ms }) {
    cluster.lagMs = ms / 4
    world.after(ms, () => (cluster.lagMs = 0))
  },
  'a service is parted from a server'({ services, network, cluster }, { ms, dice }) {
    const { process } = pick(services, dice)
    const node = pick(cluster.nodes, dice >> 4)
    network.part(process, node, ms)
    // A firewall in between forgets the connections that there are.
    if (dice % 2)
      for (const connection of network.connections) if (connection.joins(process, node)) connection.deafen()
  },
  'the network forgets all connections': ({ network }) => network.forget(),
  'a service is paused'({ services, world }, { ms, dice }) {
    const { process } = pick(services, dice)
    process.pause()
    world.after(ms, () => process.resume())
  },
  'a service is killed': (simulation, { ms, dice }) => simulation.kill(dice % simulation.services.length, ms),
  'a service is restarted': (simulation, { dice }) => simulation.restart(dice % simulation.services.length),
  'a connection is cut'(simulation, fault, context) {
    const connection = connectionOf(simulation, fault, context)
    if (connection) connection[fault.dice % 3 ? 'toClient' : 'toHost'].cutAfter = fault.dice % 251
  },
  'a session is terminated'({ cluster }, { dice }, context) {
    const session =
      context instanceof Statement ? context.session : pick([...cluster.leader.sessions.values()], dice)
    session?.terminate(true)
  },
  'a statement is cancelled by somebody'({ cluster }, { dice }, context) {
    const session =
      context instanceof Statement ? context.session : pick([...cluster.leader.sessions.values()], dice)
    session?.cancel(session.secretKey)
  },
  'a statement fails'(simulation, { dice }) {
    simulation.onNextStatement((statement) => {
      statement.error = pick(codes, dice)
    })
  },
  'a statement takes long'(simulation, { ms }) {
    simulation.onNextStatement((statement) => {
      statement.delayMs = ms
    })
  },
  'the disk is slow'({ cluster, world }, { ms }) {
    const { leader } = cluster
    leader.slowness = 400
    world.after(ms, () => (leader.slowness = 1))
  },
  'cancel requests are late'({ cluster, world }, { ms }) {
    for (const node of cluster.nodes) {
      node.cancelDelayMs = ms / 4
      world.after(ms, () => (node.cancelDelayMs = 0))
    }
  },
  'an id is locked'({ cluster, world, ids }, { ms, dice }) {
    const { leader } = cluster
    const id = pick(ids, dice)
    if (leader.locks.has(id)) return
    const transaction = {
      name: 'outside',
      locked: new Set<string>(),
      writes: new Map([[id, {}]]),
      isOver: false,
      isOutside: true
    }
    leader.hold(transaction, id)
    world.after(ms, () => leader.release(transaction))
  },
  'the address is stale': ({ cluster }, { ms, dice }) => cluster.mislead(ms, pick([1, 2], dice)),
  'a response is lost': (simulation) => void simulation.clients.lostResponses++
} satisfies Record<string, Apply>

/** What most often leaves something visible that does not last, or open what is stored. */
const likely: readonly (keyof typeof kinds)[] = [
  'the primary crashes and is replaced',
  'the standby takes over from a primary that lives on',
  'the old primary comes back as one',
  'the servers are parted',
  'a session is terminated',
  'a statement is cancelled by somebody'
]

/** Draws faults: far from each other, or all of them at about the same moment. */
export function drawFaults(random: Random): Fault[] {
  const isCrisis = random.oneIn(2)
  const crisis = 1 + random.integer(random.pick([4, 16, 64]))
  return Array.from({ length: 1 + random.integer(random.pick([2, 6, 14])) }, () => {
    const point = random.pick(points)
    const count = isCrisis ? crisis + random.integer(6) : 1 + random.integer(random.pick([4, 16, 64, 200]))
    return {
      point,
      count: point === 'end' ? 1 : count,
      kind: random.oneIn(2) ? random.pick(likely) : (random.pick(Object.keys(kinds)) as keyof typeof kinds),
      // An instant, an attempt, a deadline.
      ms: 1 + random.integer(random.pick([40, 400, 2000, 6000])),
      dice: random.integer(2 ** 16)
    }
  })
}

/** Applies those that are tied to a point that was reached. */
export function applyFaults(simulation: Simulation, point: string, count: number, context: unknown) {
  for (const fault of simulation.schedule.faults) {
    if (fault.point !== point || fault.count !== count) continue
    simulation.world.log('FAULT', `${fault.kind} (${fault.ms} ms)`)
    const apply: Apply = kinds[fault.kind]
    apply(simulation, fault, context)
  }
}
