/** The model's PostgreSQL: a process for each connection, and one log on disk. */
import type { Thread } from './cores.ts'
import type { Events } from './events.ts'
import { findNeighbours } from './neighbours.ts'

/** What commits of one size took when they were the only work: CPU times in ms, and the rest of each one's time. */
export interface Commit {
  rows: number
  /** In the service: writing the statement, and reading its answer. */
  serverMs: number
  databaseMs: number
  /** The times, in ms, in which neither worked: mostly the disk. */
  waitsMs: number[]
}

/** Commits so many ms of CPU time, with a flush of so many ms, and calls back. */
export type Connection = (work: { databaseMs: number; waitMs: number }, done: () => void) => void

/**
 * Makes a database whose processes are threads of `createThread`, and gives what connects to it. Each commit waits for
 * `standbyMs` behind its flush, beside those of other connections.
 */
export function createDatabase(
  events: Events,
  createThread: () => Thread,
  standbyMs: number
): () => Connection {
  const flush = createLog(events)
  return () => {
    const backend = createThread()
    return ({ databaseMs, waitMs }, done) =>
      backend.run(databaseMs, () => flush(waitMs, () => events.after(standbyMs, done)))
  }
}

/** The log on disk: one flush at a time; what comes meanwhile shares the next one. */
function createLog(events: Events) {
  let waiting: { ms: number; done: () => void }[] = []
  let isFlushing = false

  function start() {
    const group = waiting
    waiting = []
    isFlushing = group.length > 0
    if (!isFlushing) return
    events.after(Math.max(...group.map(({ ms }) => ms)), () => {
      for (const { done } of group) done()
      start()
    })
  }

  return (ms: number, done: () => void) => {
    waiting.push({ ms, done })
    if (!isFlushing) start()
  }
}

/** Gives the times of a commit between the sizes that were measured; `waitsMs` are those of one of the two. */
export function commitOf(commits: Commit[], rows: number, chance = 0): Commit {
  const { below, above, part } = findNeighbours(commits, (commit) => commit.rows, rows)
  const between = (figure: 'serverMs' | 'databaseMs') =>
    below[figure] + part * (above[figure] - below[figure])
  const { waitsMs } = chance < part ? above : below
  return { rows, serverMs: between('serverMs'), databaseMs: between('databaseMs'), waitsMs }
}
