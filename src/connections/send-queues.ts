/**
 * What the kernel still holds for clients: a response that it has accepted can fill up to `net.ipv4.tcp_wmem` for each
 * connection, and its client may never read it. Linux tells (proc(5), /proc/net/tcp: `tx_queue`); elsewhere, what the kernel
 * has accepted counts as taken.
 */
import { readlinkSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Connection } from './connection.ts'
import { findWritten } from './internals.ts'

/** What the kernel may hold for all clients without a valid token together, before those with the most are cut off. */
export const maximumUnreadBytes = 67_108_864

const allTables = ['/proc/net/tcp', '/proc/net/tcp6']
/** A line's `tx_queue`, unless it is 0, and its inode. */
const line = /^ *\d+: \S+ \S+ \S+ (?!0{8}:)([0-9A-F]{8}):\S+ \S+ \S+ +\d+ +\d+ (\d+)/gm

/**
 * Returns the bytes that each socket's peer has not acknowledged, by the socket's inode; undefined where the kernel has no such
 * table. Rejects where it cannot be read now.
 */
async function readSendQueues(tables: readonly string[]): Promise<Map<string, number> | undefined> {
  const texts = await Promise.all(tables.map((path) => readFile(path, 'latin1').catch(toNothing)))
  if (!texts.some((text) => text.includes('tx_queue'))) return undefined
  const found = texts.flatMap((text) => [...text.matchAll(line)])
  return new Map(found.map(([, bytes = '', inode = '']) => [inode, Number.parseInt(bytes, 16)]))
}

function toNothing(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return ''
  throw error
}

/** Warns if the kernel does not tell what it holds. */
export async function checkKernel(warn: (message: string) => void, tables: readonly string[] = allTables) {
  if ((await readSendQueues(tables).catch(() => undefined)) === undefined)
    warn('the kernel does not tell what it holds for clients: unread responses have no bound but its own')
}

/**
 * Asks the kernel what it holds for those connections whose clients may not have taken all, and tells them. Returns the bytes
 * of each; none if it could not be asked now.
 */
export async function askKernel(
  connections: Iterable<Connection>,
  tables: readonly string[] = allTables
): Promise<Map<Connection, number>> {
  const asked = [...connections].flatMap((connection) => {
    const written = findWritten(connection.socket)
    return written && connection.patience.isOwing ? { connection, ...written } : []
  })
  if (asked.length === 0) return new Map()
  const queues = await readSendQueues(tables).catch(() => 'not now' as const)
  const held = new Map<Connection, number>()
  if (queues === 'not now') return held
  const now = performance.now()
  for (const { connection, accepted, fd } of asked) {
    if (connection.socket.destroyed) continue
    const bytes = queues?.get(inodeOf(fd)) ?? 0
    held.set(connection, bytes)
    connection.patience.learnTaken(accepted - bytes, now)
  }
  return held
}

function inodeOf(fd: number): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).slice('socket:['.length, -1)
  } catch {
    return ''
  }
}

/** Returns whether the kernel may hold more than is allowed for those without a valid token, unless it says otherwise. */
export function mayBeGreedy(connections: Connection[]): boolean {
  const unread = connections.map(({ isTrusted, patience }) => (isTrusted ? 0 : patience.unreadBytes))
  return unread.reduce((sum, bytes) => sum + bytes, 0) > maximumUnreadBytes
}

/** Returns the connections without a valid token to cut off, so that the kernel holds no more for the others than is allowed. */
export function findGreedy(held: ReadonlyMap<Connection, number>): Connection[] {
  const holders = [...held].filter(([{ isTrusted, socket }]) => !isTrusted && !socket.destroyed)
  let sum = holders.reduce((total, [, bytes]) => total + bytes, 0)
  return holders
    .toSorted(([, one], [, other]) => other - one)
    .flatMap(([connection, bytes]) => {
      if (sum <= maximumUnreadBytes) return []
      sum -= bytes
      return connection
    })
}
