/** A load of rivals: clients that create the same ids at the same time, and record every request. */
import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Field, optionalFields, toPlant } from '../plants.ts'
import { post } from '../post.ts'
import { createRandom } from '../random.ts'
import { until } from '../until.ts'
import { type Create, drawCreates } from './creates.ts'
import type { Operation } from './history.ts'

interface Options {
  /** Where the service is, such as http://127.0.0.1:3000; with several, each request goes to a random one. */
  urls: string[]
  token: string
  clients: number
  firstId?: number
  seed?: number
  /** Send a request again whose connection broke or that got 408, 429, 500 or 503, as docs/clients.md says. */
  isRepeating?: boolean
  /** One request in this many is given up within this deadline, in ms; none by default. */
  impatience?: { oneIn: number; withinMs: number }
  /** The optional fields that are sent; all, unless an earlier release is to know them. */
  optional?: readonly Field[]
  /** How long each client rests after a response, in ms, so that the machine has time for other things. */
  pauseMs?: number
}

/** What a load has recorded. */
export interface History {
  /** Every request. */
  operations: Operation[]
  /** The last requests of creates that got neither 200 nor the refusal of a rival: an id or a key that is taken. */
  failed: Operation[]
  /** How many requests were repeats. */
  repeats: number
}

/** The load while it runs. */
export type Load = ReturnType<typeof startRivals>

/** How long a client sends its request again before it gives up. */
const patienceMs = 170_000
const retryMs = 100
/** A response that comes later than this counts as none: the service's deadline must be shorter. */
const responseMs = 170_000

/** Starts the clients. */
export function startRivals({
  urls,
  token,
  clients,
  firstId = 1,
  seed = 1,
  isRepeating = false,
  impatience,
  optional = optionalFields,
  pauseMs = 0
}: Options) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const random = createRandom(seed)
  const creates = drawCreates(firstId, random, optional)
  const history: History = { operations: [], failed: [], repeats: 0 }
  let succeeded = 0
  let isStopped = false

  async function work() {
    for (const create of creates) {
      const began = performance.now()
      let operation = await send(create)
      while (isRepeating && isWorthARepeat(operation) && performance.now() - began < patienceMs) {
        await sleep(retryMs)
        history.repeats++
        operation = await send(create)
      }
      if (isFailure(operation)) {
        history.failed.push(operation)
        await sleep(retryMs)
      }
      if (pauseMs > 0) await sleep(pauseMs)
      if (isStopped) return
    }
  }

  async function send(create: Create): Promise<Operation> {
    const { id, key } = create
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      ...(key && { 'idempotency-key': key })
    }
    const isImpatient = impatience && random.oneIn(impatience.oneIn)
    const timeoutMs = isImpatient ? 1 + random.integer(impatience.withinMs) : responseMs
    const operation: Operation = { ...create, began: performance.now() }
    history.operations.push(operation)
    const body = `{"id":${id},${JSON.stringify(toPlant(create)).slice(1)}`
    const outcome = await post(`${random.pick(urls)}/plants`, body, { headers, agent, timeoutMs })
    const response = 'failure' in outcome ? undefined : read(outcome.body)
    if (response === undefined || 'failure' in outcome) return operation
    operation.ended = performance.now()
    operation.response = { status: outcome.status, body: response }
    if (outcome.status === 200) succeeded++
    return operation
  }

  const workers = Array.from({ length: clients }, work)
  return {
    /** Returns when this many more requests have succeeded; throws when that takes three minutes. */
    async succeed(count: number) {
      const enough = succeeded + count
      await until(
        `${count} more creates succeed`,
        () => succeeded,
        (now) => now >= enough
      )
    },
    /** Lets each client finish its create, and returns what was recorded. */
    async stop(): Promise<History> {
      isStopped = true
      await Promise.all(workers)
      agent.destroy()
      return history
    }
  }
}

/** Returns the body of a response, or undefined for a proxy's response, which says nothing about the plant. */
function read(text: string) {
  try {
    const body = JSON.parse(text)
    return typeof body === 'object' && body !== null ? body : undefined
  } catch {
    return undefined
  }
}

/** Returns the number of a failure, 0 for a success, -1 if there was no response. */
function errorOf({ response }: Operation): number {
  if (response === undefined) return -1
  return 'error' in response.body ? response.body.error : 0
}

const isWorthARepeat = (operation: Operation) => [-1, 408, 429, 500, 503].includes(errorOf(operation))

/** Every plant of the load is valid: a 422 can only be about a key. */
function isFailure(operation: Operation): boolean {
  const error = errorOf(operation)
  return error === 422 ? !isOfKey(operation) : error !== 0 && error !== 409
}

const isOfKey = ({ response }: Operation) =>
  response !== undefined && 'message' in response.body && response.body.message.includes('Idempotency-Key')
