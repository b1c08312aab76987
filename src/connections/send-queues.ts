/**
 * What the kernel still holds for clients: a response that it has accepted can fill up to `net.ipv4.tcp_wmem` for each
 * connection, and its client may never read it. Linux tells (proc(5), /proc/net/tcp: `tx_queue`); elsewhere, what the kernel
 * has accepted counts as taken.
 */
import { readlinkSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Connection } from './connection.ts'
import { findWritten } from './internals.ts'
import { negligibleBytes } from './patience.ts'

/** What the kernel may hold for all clients without a valid token together, before those with the most are cut off. */
export const maximumUnreadBytes = 67_108_864

const tables = ['/proc/net/tcp', '/proc/net/tcp6']
/** A line's `tx_queue`, unless it is 0, and its inode. */
const line = /^ *\d+: \S+ \S+ \S+ (?!0{8}:)([0-9A-F]{8}):\S+ \S+ \S+ +\d+ +\d+ (\d+)/gm

/** Returns the bytes that each socket's peer has not acknowledged, by the socket's inode; undefined where that cannot be read. */
async function readSendQueues(): Promise<Map<string, number> | undefined> {
  const texts = await Promise.all(tables.map((path) => readFile(path, 'latin1').catch(() => '')))
  if (!texts.some((text) => text.includes('tx_queue'))) return undefined
  const found = texts.flatMap((text) => [...text.matchAll(line)])
  return new Map(found.map(([, bytes = '', inode = '']) => [inode, Number.parseInt(bytes, 16)]))
}

/** Asks the kernel what those connections have taken that may hold more than a little, and tells them. */
export async function askKernel(connections: Iterable<Connection>): Promise<void> {
  const asked = [...connections].flatMap((connection) => {
    const written = findWritten(connection.socket)
    return written && connection.isOwing ? { connection, ...written } : []
  })
  if (asked.length === 0) return
  const queues = await readSendQueues()
  const now = performance.now()
  for (const { connection, accepted, fd } of asked)
    if (!connection.socket.destroyed) connection.learnTaken(accepted - (queues?.get(inodeOf(fd)) ?? 0), now)
}

function inodeOf(fd: number): string {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1] ?? ''
  } catch {
    return ''
  }
}

/** Returns the connections without a valid token to cut off, so that the others hold no more than is allowed together. */
export function findGreedy(connections: Iterable<Connection>): Connection[] {
  const holders = [...connections].filter((one) => !one.isTrusted && one.unreadBytes >= negligibleBytes)
  let held = holders.reduce((sum, { unreadBytes }) => sum + unreadBytes, 0)
  return holders
    .toSorted((one, other) => other.unreadBytes - one.unreadBytes)
    .filter(({ unreadBytes }) => {
      const isOver = held > maximumUnreadBytes
      if (isOver) held -= unreadBytes
      return isOver
    })
}
