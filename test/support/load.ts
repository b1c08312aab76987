/** Clients that create plants as fast as they are answered, and the comparison of their responses with the table. */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { query } from './database.ts'
import { headers, token } from './service.ts'

/** One create and what became of it. */
export interface Outcome {
  id: number
  name: string
  /** 0 for a success, the failure's number, or -1 for a connection that broke. */
  error: number
  ms: number
}

/** A row of the table: the id as text. */
export interface Row {
  id: string
  name: string
}

interface Options {
  /** Where to post, asked before each request. */
  url: () => string
  clients: number
  firstId?: number
  /** Send an Idempotency-Key, and repeat a request whose connection broke or that got 503. */
  isKeyed?: boolean
  /** How long each client rests after a response, in ms, where the machine is to have time for other things. */
  pauseMs?: number
  /** The access token, where it is not the tests' own. */
  accessToken?: string
}

/** Starts the clients; `stop` lets each finish its request and gives every outcome. */
export function startLoad({
  url,
  clients,
  firstId = 1,
  isKeyed = false,
  pauseMs = 0,
  accessToken = token
}: Options) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const outcomes: Outcome[] = []
  let nextId = firstId
  let isStopped = false

  async function work() {
    while (!isStopped) {
      const id = nextId++
      const name = `plant ${id}`
      const began = performance.now()
      const key: Record<string, string> = isKeyed ? { 'idempotency-key': `key-${id}` } : {}
      let error = await create(id, name, key)
      while (isKeyed && (error === -1 || error === 503) && performance.now() - began < 30_000) {
        await sleep(50)
        error = await create(id, name, key)
      }
      outcomes.push({ id, name, error, ms: performance.now() - began })
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }

  function create(id: number, name: string, key: Record<string, string>): Promise<number> {
    return new Promise((resolve) => {
      const call = request(
        `${url()}/plants`,
        { method: 'POST', agent, headers: { ...headers, authorization: `Bearer ${accessToken}`, ...key } },
        (response) => {
          let text = ''
          response.on('data', (chunk) => (text += chunk))
          response.on('error', () => resolve(-1))
          response.on('end', () => {
            const body = JSON.parse(text)
            resolve(response.statusCode === 200 && body.name === name ? 0 : body.error)
          })
        }
      )
      call.on('error', () => resolve(-1))
      call.end(JSON.stringify({ id, name, tag: 'load' }))
    })
  }

  const workers = Array.from({ length: clients }, work)
  return {
    /** Returns when so many more requests have been answered; a slow machine takes its time. */
    async answer(count: number) {
      const until = outcomes.length + count
      while (outcomes.length < until) await sleep(10)
    },
    async stop() {
      isStopped = true
      await Promise.all(workers)
      agent.destroy()
      return outcomes
    }
  }
}

/** Asserts that exactly what was acknowledged is stored, and once; rows of creates that failed may not be there. */
export async function assertStored(t: Test, databaseUrl: string, outcomes: Outcome[], minimum: number) {
  const rows = await query(databaseUrl, 'select id::int8::text as id, name from plants')
  return assertRows(t, rows, outcomes, minimum)
}

/** The same for rows that were read already. */
export function assertRows(t: Test, rows: Row[], outcomes: Outcome[], minimum: number) {
  const stored = new Map(rows.map(({ id, name }) => [Number(id), name]))
  const acknowledged = outcomes.filter(({ error }) => error === 0)
  const failed = outcomes.filter(({ error }) => error !== 0)
  const slowest = outcomes.reduce((most, { ms }) => Math.max(most, ms), 0)
  t.comment(`${outcomes.length} requests, ${failed.length} failed, the slowest ${Math.round(slowest)} ms`)
  t.ok(outcomes.length >= minimum, `at least ${minimum} requests`)
  t.strictSame(
    acknowledged.filter(({ id, name }) => stored.get(id) !== name),
    [],
    'acknowledged is stored'
  )
  t.equal(stored.size, rows.length, 'nothing is stored twice')
  const undecided = failed.filter(({ id }) => stored.has(id)).length
  t.equal(stored.size, acknowledged.length + undecided, 'nothing is stored that nobody sent')
  return { failed, slowest }
}
