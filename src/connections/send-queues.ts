/**
 * What the kernel holds of connections: a response that it has accepted can fill up to `net.ipv4.tcp_wmem`, and its client may
 * never read it; a paused client can fill up to `net.ipv4.tcp_rmem`. Elsewhere than on Linux, what the kernel has accepted counts
 * as taken.
 */
import { allTables, inodeOf, noQueues, readQueues } from '../shared/socket-table.ts'
import type { Connection } from './connection.ts'
import { findWritten } from './internals.ts'

/** What the kernel may hold together of all without a valid token, and of all others, before those with the most are cut off. */
export const maximumHeldBytes = { unknown: 67_108_864, trusted: 268_435_456 }

/** Warns if the kernel does not tell what it holds. */
export async function checkKernel(warn: (message: string) => void, tables = allTables) {
  if ((await readQueues(tables).catch(() => undefined)) === undefined)
    warn('the kernel does not tell what it holds for clients: unread responses have no bound but its own')
}

/**
 * Asks the kernel what it holds of those connections whose clients may not have taken all, and tells them; and of those that are
 * paused and had no valid token. Returns the bytes of each; none if it could not be asked now.
 */
export async function askKernel(connections: Iterable<Connection>, tables = allTables) {
  const held = new Map<Connection, number>()
  const asked = [...connections].flatMap((connection) => {
    const { socket, patience, isTrusted } = connection
    const written = findWritten(socket)
    return written && (patience.isOwing || (!isTrusted && socket.isPaused()))
      ? { connection, ...written }
      : []
  })
  if (asked.length === 0) return held
  const queues = await readQueues(tables).catch(() => 'not now' as const)
  if (queues === 'not now') return held
  const now = performance.now()
  for (const { connection, accepted, fd } of asked) {
    if (connection.socket.destroyed) continue
    const { sent, received } = queues?.get(inodeOf(fd)) ?? noQueues
    held.set(connection, connection.isTrusted ? sent : sent + received)
    connection.patience.learnTaken(accepted - sent, now)
  }
  return held
}

const groupOf = ({ isTrusted }: Connection) => (isTrusted ? 'trusted' : 'unknown')

/** Sums the bytes of those without a valid token, and of all others. */
function sumByGroup(entries: readonly (readonly [Connection, number])[]) {
  const sums = { unknown: 0, trusted: 0 }
  for (const [connection, bytes] of entries) sums[groupOf(connection)] += bytes
  return sums
}

/** Returns whether the kernel may hold more than is allowed, as far as is known without asking it. */
export function mayExceedBound(connections: readonly Connection[]): boolean {
  const owing = connections.filter(({ patience }) => patience.isOwing)
  const { unknown, trusted } = sumByGroup(owing.map((each) => [each, each.patience.unreadBytes]))
  return unknown > maximumHeldBytes.unknown || trusted > maximumHeldBytes.trusted
}

/** Returns the connections to cut off, so that the kernel holds no more than is allowed: where it does, three quarters of that. */
export function findGreedy(held: ReadonlyMap<Connection, number>): Connection[] {
  const open = [...held].filter(([{ socket }]) => !socket.destroyed)
  const left = sumByGroup(open)
  const aimOf = (group: keyof typeof left) =>
    left[group] > maximumHeldBytes[group] ? 0.75 * maximumHeldBytes[group] : left[group]
  const aims = { unknown: aimOf('unknown'), trusted: aimOf('trusted') }
  const greediestFirst = open.toSorted(([, one], [, other]) => other - one)
  return greediestFirst.flatMap(([connection, bytes]) => {
    const group = groupOf(connection)
    if (left[group] <= aims[group]) return []
    left[group] -= bytes
    return connection
  })
}
