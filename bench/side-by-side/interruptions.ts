/** What becomes of valid requests while PostgreSQL is away, and of one that is in flight when its server is told to end. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { clear } from '../database.ts'
import type { Environment } from '../environment.ts'
import type { Program, Server } from '../server.ts'
import { validCase } from './cases.ts'
import { type Fact, judge, readRows } from './facts.ts'
import { post } from './post.ts'

/** A peer's server and its database. */
export interface Running {
  program: Program
  server: Server
  databaseUrl: string
}

const awayMs = 3000
const waitingMs = 10_000
/** The request is let go on that long after the signal. */
const heldMs = 1000

/**
 * Stops PostgreSQL for 3 s and asks every server for a plant meanwhile; then for another one. Returns two facts for each.
 * The ids differ, so that servers can share a database.
 */
export async function interruptDatabase(environment: Environment, all: Running[]): Promise<Fact[][]> {
  for (const { databaseUrl } of all) await clear(databaseUrl)
  await environment.postgres.stop()
  const isBack = sleep(awayMs).then(() => environment.restartPostgres())
  return Promise.all(
    all.map(async (running, index) => {
      const during = await ask(running, `PostgreSQL away for ${awayMs / 1000} s`, 100 + index)
      await isBack
      const after = await ask(running, 'the first request after its return', 200 + index)
      return [await look(during), await look(after)]
    })
  )
}

async function ask(running: Running, title: string, id: number) {
  const asked = validCase(title, id)
  return { running, asked, outcome: await post(running.server.url, asked.body) }
}

/** The rows of others, in a database that is shared, are none of this request's. */
async function look({ running, asked, outcome }: Awaited<ReturnType<typeof ask>>): Promise<Fact> {
  const rows = await readRows(running.databaseUrl)
  return judge(
    asked,
    outcome,
    rows.filter(({ id }) => id === asked.wanted?.id)
  )
}

/** Holds a request in PostgreSQL by a lock on the table, sends SIGTERM, and lets it go on a second later. */
export async function terminate({ server, databaseUrl }: Running): Promise<Fact> {
  const asked = validCase('in flight at SIGTERM', 300)
  await clear(databaseUrl)
  const lock = new pg.Client(databaseUrl)
  await lock.connect()
  try {
    await lock.query('begin')
    await lock.query('lock table plants in exclusive mode')
    const answer = post(server.url, asked.body)
    await Promise.race([answer, waitUntilHeld(lock)])
    const ended = server.stop()
    await sleep(heldMs)
    await lock.query('commit')
    const outcome = await answer
    await ended
    return judge(asked, outcome, await readRows(databaseUrl))
  } finally {
    await lock.end()
  }
}

/** Waits until a request waits for the lock, or as long as one may take to get there. */
async function waitUntilHeld(client: pg.Client) {
  const deadline = performance.now() + waitingMs
  while (performance.now() < deadline) {
    const { rowCount } = await client.query('select from pg_locks where not granted')
    if (rowCount) return
    await sleep(5)
  }
}
