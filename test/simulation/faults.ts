/** The faults that a simulation can meet, each at a point that the simulation reaches. */

import type { Trouble } from '../support/postgres/model/protocol.ts'
import type { Random } from '../support/random.ts'
import type { Postgres } from './postgres.ts'
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
  'responds',
  'cancelled',
  'waits for a lock',
  'connected',
  'moment',
  'end'
] as const

/** Moments are this far apart. */
export const momentMs = 50

const where = 'PL/pgSQL function audit() line 7 at PERFORM'

/** What a statement can meet that is not its own fault, or is that of a row or of the server's disk. */
const troubles: readonly Trouble[] = [
  { code: '40001' },
  { code: '40001', where },
  { code: '40P01' },
  { code: '53200' },
  { code: '55P03' },
  { code: '57014' },
  { code: '25006' },
  { code: '25006', where },
  { code: '26000' },
  { code: 'XX000' },
  { code: 'XX000', file: 'remote_commands.c' },
  { code: '57P01' },
  { code: '57P01', where },
  { code: '08006' },
  { code: '08006', where }
]
/** The errors of a commit that has not happened. */
const atCommit: readonly Trouble[] = [
  { code: '40001' },
  { code: '40P01', where },
  { code: '53100' },
  { code: 'XX000' },
  { code: '08006', where }
]
/** The errors that can follow a commit that has happened, or has happened on one server of several. */
const afterCommit: readonly Trouble[] = [
  { code: '40003' },
  { code: '08006' },
  { code: '08003', where },
  { code: 'XX000', file: 'remote_transaction.c' },
  { code: '58030', file: 'connection_management.c' },
  { code: '57P02', severity: 'FATAL' }
]
/** How PgBouncer and other poolers end sessions. */
const poolersCodes = ['57000', '58000', '08P01', '57P01', 'XX000']

/** How an operator's policy, check, shorter type and trigger refuse a plant, and a rule of the table every one. */
const refusals: readonly Trouble[] = [
  { code: '42501', routine: 'ExecWithCheckOptions' },
  { code: '23514' },
  { code: '22001' },
  { code: 'P0001', where },
  { code: '0A000', routine: 'RewriteQuery' }
]

type Apply = (simulation: Simulation, fault: Fault, context: unknown) => unknown

const pick = <T>(values: readonly T[], dice: number) => values[dice % values.length] as T

/** The connection that a point was reached on, or any other. */
function connectionOf({ network }: Simulation, { dice }: Fault, context: unknown) {
  const session = (context instanceof Statement ? context.session : context) as Session | undefined
  return session?.connection ?? pick([...network.connections], dice)
}

/** Returns the session of a point, or any other of the primary. */
function sessionOf({ cluster }: Simulation, { dice }: Fault, context: unknown): Session | undefined {
  return context instanceof Statement ? context.session : pick([...cluster.leader.sessions.values()], dice)
}

/** Changes both servers for a while. */
function change(
  { cluster, world }: Simulation,
  ms: number,
  begin: (node: Postgres) => void,
  end: typeof begin
) {
  for (const node of cluster.nodes) {
    begin(node)
    world.after(ms, () => end(node))
  }
}

const setFor = (simulation: Simulation, ms: number, name: string, value: string) =>
  change(
    simulation,
    ms,
    ({ settings }) => settings.set(name, value),
    ({ settings }) => settings.delete(name)
  )

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
  'a session is terminated': (simulation, fault, context) =>
    sessionOf(simulation, fault, context)?.terminate({ code: '57P01' }),
  'a session is terminated, and its client told whatever it was doing': (simulation, fault, context) =>
    sessionOf(simulation, fault, context)?.terminate({ code: '57P01' }, true),
  'a pooler ends a session': (simulation, fault, context) =>
    sessionOf(simulation, fault, context)?.terminate({ code: pick(poolersCodes, fault.dice) }, true),
  'a statement is cancelled by somebody'(simulation, fault, context) {
    const session = sessionOf(simulation, fault, context)
    session?.cancel(session.secretKey)
  },
  'a statement fails'(simulation, { dice }) {
    simulation.onNextStatement((statement) => {
      statement.mishap = { at: 'start', trouble: pick(troubles, dice) }
    })
  },
  'a commit fails'(simulation, { dice }) {
    simulation.onNextStatement((statement) => {
      statement.mishap = { at: 'commit', trouble: pick(atCommit, dice) }
    })
  },
  'an error follows a commit'(simulation, { dice }) {
    simulation.onNextStatement((statement) => {
      statement.mishap = { at: 'logged', trouble: pick(afterCommit, dice) }
    })
  },
  'a statement calls a missing function': (simulation) =>
    simulation.onNextStatement((statement) => {
      statement.mishap = { at: 'start', trouble: { code: '42883', where } }
    }),
  'a privilege is revoked'(simulation, { ms, dice }) {
    const denied = pick(['insert', 'select', 'message'] as const, dice)
    change(
      simulation,
      ms,
      (node) => (node.denied = denied),
      (node) => (node.denied = undefined)
    )
  },
  'a rule refuses plants that may be stored'(simulation, { ms, dice }) {
    change(
      simulation,
      ms,
      (node) => (node.refusal = pick(refusals, dice)),
      (node) => (node.refusal = undefined)
    )
  },
  'warnings are not sent': (simulation, { ms }) => setFor(simulation, ms, 'client_min_messages', 'error'),
  'commits do not wait': (simulation, { ms }) => setFor(simulation, ms, 'synchronous_commit', 'off'),
  'the wall clock jumps'({ services }, { dice }) {
    const { process } = pick(services, dice)
    process.wallOffsetMs += (dice % 2 ? 1 : -1) * (dice >> 1) * 10
  },
  'the URL of the database changes'({ services }, { dice }) {
    const { process, service } = pick(services, dice)
    process.receive(() => service.reconnect())
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

export type FaultKind = keyof typeof kinds

/** How much longer than its time a fault may be felt: what it has stopped starts and catches up. */
const aftermathMs = 1_000

/** The faults that no create may fail of. */
const harmless = new Set<FaultKind>([
  'warnings are not sent',
  'commits do not wait',
  'the wall clock jumps',
  'the URL of the database changes',
  'a response is lost'
])

/** The faults that most often leave a visible row that does not last, or an open outcome. */
const likely: readonly FaultKind[] = [
  'a rule refuses plants that may be stored',
  'the primary crashes and is replaced',
  'the standby takes over from a primary that lives on',
  'the old primary comes back as one',
  'the servers are parted',
  'a session is terminated',
  'a pooler ends a session',
  'a statement is cancelled by somebody'
]

/** Draws faults: far apart, or all of them at about the same moment. */
export function drawFaults(random: Random): Fault[] {
  const isCrisis = random.oneIn(2)
  const crisis = 1 + random.integer(random.pick([4, 16, 64]))
  return Array.from({ length: 1 + random.integer(random.pick([2, 6, 14])) }, () => {
    const point = random.pick(points)
    const count = isCrisis ? crisis + random.integer(6) : 1 + random.integer(random.pick([4, 16, 64, 200]))
    return {
      point,
      count: point === 'end' ? 1 : count,
      kind: random.oneIn(2) ? random.pick(likely) : (random.pick(Object.keys(kinds)) as FaultKind),
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
    if (!harmless.has(fault.kind)) simulation.world.trouble(fault.ms + aftermathMs)
    const apply: Apply = kinds[fault.kind]
    apply(simulation, fault, context)
  }
}
