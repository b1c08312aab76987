/** What becomes of valid requests while PostgreSQL is away, and of one that is in flight when its server is told to end. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Lab } from '../lab.ts'
import type { Server } from '../server.ts'
import { validCase } from './cases.ts'
import { type Fact, judge, prepare, readRows } from './facts.ts'
import { post } from './post.ts'

/** A contestant's server and its database. */
export interface Running {
  server: Server
  databaseUrl: string
}

const awayMs = 3000
const waitingMs = 10_000
/** The request is let go on that long after the signal. */
const heldMs = 1000

/**
 * Stops PostgreSQL for 3 s and asks every server for a plant meanwhile; then for another one. Gives two facts for each.
 * The ids differ, so that servers can share a database.
 */
export async function interruptDatabase(lab: Lab, all: Running[]): Promise<Fact[][]> {
  const during = all.map((_, index) => validCase('PostgreSQL away for 3 s', 100 + index))
  const after = all.map((_, index) => validCase('the first request after its return', 200 + index))
  for (const { databaseUrl } of all) await prepare(databaseUrl, [])
  await lab.postgres.stop()
  const answers = all.map(({ server }, index) => post(server.url, during[index]?.body ?? ''))
  await sleep(awayMs)
  await lab.restartPostgres()
  const outcomes = await Promise.all(answers)
  const facts: Fact[][] = []
  for (const [index, { server, databaseUrl }] of all.entries()) {
    const asked = [during[index], after[index]] as const
    const outcome = await post(server.url, asked[1]?.body ?? '')
    const rows = await readRows(databaseUrl)
    const own = asked.map((one) => rows.filter(({ id }) => id === one?.wanted?.id))
    facts.push([
      judge(asked[0] as never, outcomes[index] as never, own[0] ?? []),
      judge(asked[1] as never, outcome, own[1] ?? [])
    ])
  }
  return facts
}

/** Holds a request in PostgreSQL by a lock on the table, sends SIGTERM, and lets it go on a second later. */
export async function terminate({ server, databaseUrl }: Running): Promise<Fact> {
  const asked = validCase('in flight at SIGTERM', 300)
  await prepare(databaseUrl, [])
  const lock = new pg.Client(databaseUrl)
  await lock.connect()
  try {
    await lock.query('begin')
    await lock.query('lock table plants in exclusive mode')
    const answer = post(server.url, asked.body)
    await waitUntilHeld(lock)
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

async function waitUntilHeld(client: pg.Client) {
  const deadline = performance.now() + waitingMs
  for (;;) {
    const { rowCount } = await client.query('select from pg_locks where not granted')
    if (rowCount) return
    if (performance.now() > deadline) throw new Error('the request does not reach the table')
    await sleep(5)
  }
}
