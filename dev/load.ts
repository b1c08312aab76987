/** Clients that create plants, each its next one as soon as it has a response, and remember every response. */
import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { post } from './post.ts'
import { scaled } from './slowness.ts'
import { until } from './until.ts'

/** One create, from its first request to its last response. */
export interface Create {
  readonly id: number
  /** 0 for a success, the failure's number, or -1 for no response of the contract. */
  readonly error: number
  /** The last response's body, or what broke the connection. */
  readonly response: string
  /** How often the request was sent again. */
  readonly repeats: number
  /** When it was sent first and when it had its last response, in ms of `performance.now()`. */
  readonly began: number
  readonly ended: number
}

interface Options {
  /** Where the service is, such as http://127.0.0.1:3000. */
  url: string
  token: string
  clients: number
  /** Each next create has the next id. */
  firstId?: number
  /** Send an Idempotency-Key with each create. */
  isKeyed?: boolean
  /** Send a request again whose connection broke or that got 503, as a client with an Idempotency-Key should. */
  isRepeating?: boolean
  /** How long each client rests after a response, in ms, where the machine is to have time for other things. */
  pauseMs?: number
}

/** The load while it runs. */
export type Load = ReturnType<typeof startLoad>

/** How long a client sends its request again before it gives up. */
const patienceMs = scaled(60_000)
const retryMs = 100
/** A response that comes later than this counts as none: the service's deadline must be shorter. */
const responseMs = scaled(60_000)
/** How long a number of creates may take to succeed, however slow the machine. */
const progressMs = 600_000

/** What a plant of the load holds; its id says it all, so that a stored row can be judged. */
export const plantOf = (id: number) => ({
  name: `plant ${id} "\\ß🌱`,
  tag: id % 3 === 0 ? undefined : `tag ${id % 7}`
})

/** The Idempotency-Key of a plant of the load. */
export const keyOf = (id: number) => `load-${id}`

/** Starts the clients. */
export function startLoad({
  url,
  token,
  clients,
  firstId = 1,
  isKeyed = false,
  isRepeating = false,
  pauseMs = 0
}: Options) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const creates: Create[] = []
  let succeeded = 0
  let nextId = firstId
  let isStopped = false

  async function work() {
    while (!isStopped) {
      const id = nextId++
      const began = performance.now()
      let repeats = 0
      let { error, response } = await create(id)
      while (isRepeating && (error === -1 || error === 503) && performance.now() - began < patienceMs) {
        await sleep(retryMs)
        repeats++
        ;({ error, response } = await create(id))
      }
      if (error === 0) succeeded++
      creates.push({ id, error, response, repeats, began, ended: performance.now() })
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }

  async function create(id: number): Promise<Pick<Create, 'error' | 'response'>> {
    const plant = plantOf(id)
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      ...(isKeyed && { 'idempotency-key': keyOf(id) })
    }
    const body = JSON.stringify({ id, ...plant })
    const outcome = await post(`${url}/plants`, body, { headers, agent, timeoutMs: responseMs })
    if ('failure' in outcome) return { error: -1, response: outcome.failure }
    return { error: judge(outcome.status, outcome.body, plant), response: outcome.body }
  }

  const workers = Array.from({ length: clients }, work)
  return {
    /** Returns when so many more creates have succeeded; throws when that takes ten minutes. */
    async succeed(count: number) {
      const enough = succeeded + count
      await until(
        `${count} more creates succeed`,
        () => succeeded,
        (now) => now >= enough,
        progressMs
      )
    },
    /** Lets each client finish its request, and gives every create. */
    async stop(): Promise<Create[]> {
      isStopped = true
      await Promise.all(workers)
      agent.destroy()
      return creates
    }
  }
}

/** Gives 0 for exactly the response of a success, the number in a failure, -1 for anything else. */
function judge(status: number, text: string, plant: { name: string; tag: string | undefined }) {
  if (status === 200) return text === JSON.stringify(plant) ? 0 : -1
  try {
    const { error } = JSON.parse(text)
    return status === 400 && Number.isInteger(error) ? error : -1
  } catch {
    return -1
  }
}
