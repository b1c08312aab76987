/** What Linux tells about the sockets of a process (proc(5), /proc/net/tcp). */
import { readlinkSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

/** Bytes that the kernel holds of one socket. */
export interface Queues {
  /** Sent by the process, and not acknowledged by the peer. */
  readonly sent: number
  /** Sent by the peer, and not read by the process. */
  readonly received: number
}

/** The queues of a socket that no table names. */
export const noQueues: Queues = { sent: 0, received: 0 }
/** The tables of IPv4 and IPv6. */
export const allTables: readonly string[] = ['/proc/net/tcp', '/proc/net/tcp6']
/** A line's `tx_queue` and `rx_queue`, unless both are 0, and its inode. */
const line = /^ *\d+: \S+ \S+ \S+ (?!0{8}:0{8})([0-9A-F]{8}):([0-9A-F]{8}) \S+ \S+ +\d+ +\d+ (\d+)/gm

/**
 * Returns the queues of each socket that has bytes in them, by its inode; undefined if the kernel has no such table. Rejects
 * if a table cannot be read now.
 */
export async function readQueues(tables: readonly string[]): Promise<Map<string, Queues> | undefined> {
  const texts = await Promise.all(tables.map((path) => readFile(path, 'latin1').catch(emptyIfMissing)))
  if (!texts.some((text) => text.includes('tx_queue'))) return undefined
  const found = texts.flatMap((text) => [...text.matchAll(line)])
  return new Map(found.map(([, sent, received, inode = '']) => [inode, toQueues(sent, received)]))
}

const toQueues = (sent = '', received = ''): Queues => ({
  sent: Number.parseInt(sent, 16),
  received: Number.parseInt(received, 16)
})

function emptyIfMissing(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return ''
  throw error
}

/** Returns the inode of a socket, by its file descriptor; an empty string once it is closed. */
export function inodeOf(fd: number): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).slice('socket:['.length, -1)
  } catch {
    return ''
  }
}
