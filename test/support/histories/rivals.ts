/** A load of rivals: clients that create the same ids at the same time, and record every request. */
import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { optionalFields, type Plant, sampleOf, toPlant } from '../plants.ts'
import { send } from '../service.ts'
import { until } from '../until.ts'

/** Where a load goes, and how its clients behave. */
export interface Options {
  /** Where the service is, such as http://127.0.0.1:3000; with several, each request goes to a random one. */
  urls: string[]
  token: string
  clients: number
  firstId?: number
  /** Send a request again whose connection broke or that got 408, 429, 500 or 503, as docs/clients.md says. */
  isRepeating?: boolean
  /** One request in this many is given up within this deadline, in ms; none by default. */
  impatience?: { oneIn: number; withinMs: number }
  /** How long each client rests after a response, in ms, so that the machine has time for other things. */
  pauseMs?: number
}

/** One `POST /plants` of a load: what was sent, what came back, and when, in ms of one clock. */
export interface Operation extends Plant {
  /** The id as its decimal digits: int64 does not fit a JavaScript number. */
  id: string
  /** The value of `Idempotency-Key`. */
  key?: string
  began: number
  /** Absent while the response is open or lost. */
  ended?: number
  /** Absent if the connection was lost, or the client gave up: the create may take effect at any later time. */
  response?: { status: number; body: { error: number; message: string } | Plant }
}

/** What a load has recorded. */
export interface History {
  /** Every request. */
  operations: Operation[]
  /** The last requests of creates that got neither 200 nor the refusal of a rival: an id or a key that is taken. */
  failed: Operation[]
  /** How many requests were repeats, and how many got no response, although their client waited. */
  repeats: number
  broken: number
}

/** The load while it runs. */
export type Load = ReturnType<typeof startRivals>

/** How long a client sends its request again before it gives up, and how long it waits for a response. */
const patienceMs = 170_000
const retryMs = 100

/** One create; its name differs from those of all others with its id, except those of the same key and content. */
type Create = Pick<Operation, 'id' | 'key' | 'name'>

/** How many clients want an id. */
const rivals = [1, 1, 2, 3, 4]
/** After this many ids, creates come with keys, then without again. */
const idsPerPhase = 16

/** Draws integers from 0 to `below` - 1: the same ones in each load, so that none lacks a kind of rivals by chance. */
function createRandom() {
  let state = 1
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return Math.floor(((state >>> 0) / 2 ** 32) * below)
  }
}

/** Draws creates endlessly; those for one id come together, so that clients send them at the same time, or much later. */
function* drawCreates(
  firstId: number,
  integer: (below: number) => number
): Generator<Create, never> {
  let drawn = 0
  const draw = (id: number, isKeyed: boolean): Create => {
    const some = id % 3 === 0 ? [] : optionalFields
    const plant = {
      id: `${id}`,
      ...Object.fromEntries(some.map((field) => [field, sampleOf(field, id % 7)]))
    }
    if (!isKeyed || integer(4) === 0) return { ...plant, name: `plant ${id} "\\ß🌱 of ${++drawn}` }
    const key = `key-${integer(4) === 0 ? 'b' : 'a'}`
    return {
      ...plant,
      name: `plant ${id} by ${key}, ${integer(4) === 0 ? 'changed' : 'first'}`,
      key
    }
  }
  for (let id = firstId; ; id++) {
    const isKeyed = Math.floor(id / idsPerPhase) % 2 === 1
    for (let left = rivals[integer(rivals.length)] as number; left > 0; left--)
      yield draw(id, isKeyed)
    if (id > firstId && integer(4) === 0)
      yield draw(id - 1 - integer(Math.min(1_000, id - firstId)), isKeyed)
  }
}

/** Starts the clients. */
export function startRivals(options: Options) {
  const { urls, token, clients, firstId = 1, isRepeating, impatience, pauseMs = 0 } = options
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const integer = createRandom()
  const creates = drawCreates(firstId, integer)
  const history: History = { operations: [], failed: [], repeats: 0, broken: 0 }
  let succeeded = 0
  let isStopped = false

  async function work() {
    for (const create of creates) {
      const began = performance.now()
      let operation = await post(create)
      while (isRepeating && isWorthARepeat(operation) && performance.now() - began < patienceMs) {
        await sleep(retryMs)
        history.repeats++
        operation = await post(create)
      }
      if (isFailure(operation)) {
        history.failed.push(operation)
        await sleep(retryMs)
      }
      if (pauseMs > 0) await sleep(pauseMs)
      if (isStopped) return
    }
  }

  async function post(create: Create): Promise<Operation> {
    const { id, key } = create
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      ...(key && { 'idempotency-key': key })
    }
    const isImpatient = impatience && integer(impatience.oneIn) === 0
    const signal = AbortSignal.timeout(isImpatient ? 1 + integer(impatience.withinMs) : patienceMs)
    const operation: Operation = { ...create, began: performance.now() }
    history.operations.push(operation)
    const body = `{"id":${id},${JSON.stringify(toPlant(create)).slice(1)}`
    const options = { method: 'POST', headers, agent, signal }
    const reply = await send(`${urls[integer(urls.length)]}/plants`, options, body).catch(() => {
      if (!signal.aborted) history.broken++
    })
    const response = reply && read(reply.body)
    if (!response) return operation
    operation.ended = performance.now()
    operation.response = { status: reply.status, body: response }
    if (reply.status === 200) succeeded++
    return operation
  }

  const workers = Array.from({ length: clients }, work)
  return {
    /** Returns when this many more requests have succeeded; throws when that takes three minutes. */
    async succeed(count: number) {
      const enough = succeeded + count
      await until(`${count} more creates succeed`, () => succeeded >= enough)
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
export function errorOf({ response }: Operation): number {
  if (response === undefined) return -1
  return 'error' in response.body ? response.body.error : 0
}

const isWorthARepeat = (operation: Operation) =>
  [-1, 408, 429, 500, 503].includes(errorOf(operation))

/** Every plant of the load is valid: a 422 can only be about a key. */
function isFailure(operation: Operation): boolean {
  const error = errorOf(operation)
  return error === 422 ? !isOfKey(operation) : error !== 0 && error !== 409
}

const isOfKey = ({ response }: Operation) =>
  response !== undefined &&
  'message' in response.body &&
  response.body.message.includes('Idempotency-Key')
