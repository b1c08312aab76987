/**
 * What the kernel holds for connections. Responses that a client does not read fill up to `net.ipv4.tcp_wmem`, and what a paused
 * client sends fills up to `net.ipv4.tcp_rmem`. On other systems than Linux, whatever the kernel has accepted counts as taken.
 */
import { allTables, inodeOf, noQueues, type Queues, readQueues } from '../shared/socket-table.ts'
import type { Connection } from './connection.ts'
import { findWritten } from './internals.ts'

/** How much the kernel may hold for all connections without a valid token, and for all others, until some are cut off. */
export const maximumHeldBytes = { unknown: 67_108_864, trusted: 268_435_456 }

/** Warns if the kernel cannot be asked what it holds. */
export async function checkKernel(warn: (message: string) => void, tables = allTables) {
  if ((await readQueues(tables).catch(() => undefined)) === undefined)
    warn('cannot read from the kernel what clients have not read; only its own limits bound unread responses')
}

/**
 * Asks the kernel what it holds for the connections whose clients may have left something unread, and for the paused ones
 * without a valid token. Records on each connection what its client has taken. Returns the bytes that the kernel holds for
 * each; none where its tables cannot be read now.
 */
export async function askKernel(connections: Iterable<Connection>, tables = allTables) {
  const held = new Map<Connection, number>()
  const asked = [...connections].flatMap((connection) => {
    const { socket, progress, isTrusted } = connection
    const written = findWritten(socket)
    return written && (progress.hasUnread || (!isTrusted && socket.isPaused()))
      ? { connection, ...written }
      : []
  })
  if (asked.length === 0) return held
  let queues: Map<string, Queues> | undefined
  try {
    queues = await readQueues(tables)
  } catch {
    return held
  }
  const now = performance.now()
  for (const { connection, accepted, fd } of asked) {
    if (connection.socket.destroyed) continue
    const { sent, received } = queues?.get(inodeOf(fd)) ?? noQueues
    held.set(connection, connection.isTrusted ? sent : sent + received)
    connection.progress.recordTaken(accepted - sent, now)
  }
  return held
}

const groupOf = ({ isTrusted }: Connection) => (isTrusted ? 'trusted' : 'unknown')

/** Adds up the bytes of the connections without a valid token, and those of all others. */
function sumByGroup(entries: readonly (readonly [Connection, number])[]) {
  const sums = { unknown: 0, trusted: 0 }
  for (const [connection, bytes] of entries) sums[groupOf(connection)] += bytes
  return sums
}

/** Returns whether the kernel may hold more than is allowed, as far as this process knows without asking it. */
export function mayExceedBound(connections: readonly Connection[]): boolean {
  const unread = connections.filter(({ progress }) => progress.hasUnread)
  const { unknown, trusted } = sumByGroup(unread.map((each) => [each, each.progress.unreadBytes]))
  return unknown > maximumHeldBytes.unknown || trusted > maximumHeldBytes.trusted
}

/** Where the kernel holds too much, connections are cut off until it holds this part of what is allowed. */
const aimedPart = 0.75

/** Returns the connections to cut off so that the kernel holds no more than is allowed: those first for which it holds most. */
export function findGreedy(held: ReadonlyMap<Connection, number>): Connection[] {
  const open = [...held].filter(([{ socket }]) => !socket.destroyed)
  const left = sumByGroup(open)
  const aimOf = (group: keyof typeof left) =>
    left[group] > maximumHeldBytes[group] ? aimedPart * maximumHeldBytes[group] : left[group]
  const aims = { unknown: aimOf('unknown'), trusted: aimOf('trusted') }
  const greediestFirst = open.toSorted(([, one], [, other]) => other - one)
  return greediestFirst.flatMap(([connection, bytes]) => {
    const group = groupOf(connection)
    if (left[group] <= aims[group]) return []
    left[group] -= bytes
    return connection
  })
}
