/** Clients that create plants as fast as they are answered, each with an Idempotency-Key, and remember every response. */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** One create, from its first request to its last response. */
export interface Create {
  readonly id: number
  /** 0 for a success, the failure's number, or -1 for no response of the contract. */
  readonly error: number
  /** What came instead of a success. */
  readonly answer: string
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
  firstId: number
  /** Send a request again whose connection broke or that got 503, as a client with an Idempotency-Key should. */
  isRepeating: boolean
}

/** The load while it runs. */
export type Load = ReturnType<typeof startLoad>

/** How long a client sends its request again before it gives up. */
const patienceMs = 60_000
const pauseMs = 100
/** A response that comes later than this counts as none: the service's deadline must be shorter. */
const answerMs = 60_000

/** What a plant of the load holds; its id says it all, so that a stored row can be judged. */
export const plantOf = (id: number) => ({
  name: `plant ${id} "\\ß🌱`,
  tag: id % 3 === 0 ? undefined : `tag ${id % 7}`
})

/** The Idempotency-Key of a plant of the load. */
export const keyOf = (id: number) => `fault-${id}`

/** Starts the clients. */
export function startLoad({ url, token, clients, firstId, isRepeating }: Options) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const creates: Create[] = []
  let nextId = firstId
  let isStopped = false

  async function work() {
    while (!isStopped) {
      const id = nextId++
      const began = performance.now()
      let repeats = 0
      let { error, answer } = await post(id)
      while (isRepeating && (error === -1 || error === 503) && performance.now() - began < patienceMs) {
        await sleep(pauseMs)
        repeats++
        ;({ error, answer } = await post(id))
      }
      creates.push({ id, error, answer, repeats, began, ended: performance.now() })
    }
  }

  function post(id: number): Promise<Pick<Create, 'error' | 'answer'>> {
    const plant = plantOf(id)
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'idempotency-key': keyOf(id)
    }
    return new Promise((resolve) => {
      const fail = ({ message }: Error) => resolve({ error: -1, answer: message })
      const call = request(
        `${url}/plants`,
        { method: 'POST', agent, headers, timeout: answerMs },
        (response) => {
          let text = ''
          response.setEncoding('utf8')
          response.on('data', (chunk) => (text += chunk))
          response.on('error', fail)
          response.on('end', () => resolve({ error: judge(response.statusCode, text, plant), answer: text }))
        }
      )
      call.on('timeout', () => call.destroy(new Error(`no response in ${answerMs} ms`)))
      call.on('error', fail)
      call.end(JSON.stringify({ id, ...plant }))
    })
  }

  const workers = Array.from({ length: clients }, work)
  return {
    /** Returns when so many more creates have succeeded; throws when that takes longer than `limitMs`. */
    async succeed(count: number, limitMs = 600_000) {
      const end = performance.now() + limitMs
      const acknowledged = () => creates.reduce((sum, { error }) => sum + Number(error === 0), 0)
      const enough = acknowledged() + count
      while (acknowledged() < enough) {
        if (performance.now() > end) throw new Error(`fewer than ${count} creates succeeded in ${limitMs} ms`)
        await sleep(50)
      }
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
function judge(status: number | undefined, text: string, plant: { name: string; tag: string | undefined }) {
  if (status === 200) return text === JSON.stringify(plant) ? 0 : -1
  try {
    const { error } = JSON.parse(text)
    return status === 400 && Number.isInteger(error) ? error : -1
  } catch {
    return -1
  }
}
