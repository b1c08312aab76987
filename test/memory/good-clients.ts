/** Clients that create plants over keep-alive, one at a time, and rest as Retry-After says, while others misbehave. */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { query } from '../../harness/postgres/query.ts'

interface Response {
  status: number
  retryAfter: string | undefined
  body: string
}

const pauseMs = 50

/** Starts this many clients with this secret; ids after this one are theirs. */
export function startGoodClients(url: string, secret: string, count: number, before = 2 ** 40) {
  const agent = new Agent({ keepAlive: true, maxSockets: count })
  const created: string[] = []
  const faults: string[] = []
  let refused = 0
  let longestMs = 0
  /** Of each create, 503 included. */
  const times: number[] = []
  let lastId = before
  let isOver = false

  function post(body: string): Promise<Response> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
      const sent = request(`${url}/plants`, { method: 'POST', agent, headers }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (piece) => (text += piece))
        response.on('error', reject).on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            retryAfter: response.headers['retry-after'],
            body: text
          })
        )
      })
      sent.on('error', reject).end(body)
    })
  }

  async function work() {
    let servedAt = performance.now()
    const noteWait = () => {
      longestMs = Math.max(longestMs, performance.now() - servedAt)
    }
    while (!isOver) {
      let waitMs = pauseMs
      const name = `good-${++lastId}`
      try {
        const began = performance.now()
        const { status, retryAfter, body } = await post(`{"id":${lastId},"name":"${name}"}`)
        times.push(performance.now() - began)
        if (status === 200 && body === `{"name":"${name}"}`) {
          created.push(name)
          noteWait()
          servedAt = performance.now()
        } else if (retryAfter !== undefined && body.startsWith('{"error":503,')) {
          refused++
          // Without this pause a client that is refused twenty times for each plant would hardly wait.
          waitMs = Number(retryAfter) * 1_000
        } else faults.push(`${status} ${body}`)
      } catch (error) {
        faults.push(String(error))
      }
      await sleep(waitMs)
    }
    noteWait()
  }

  const all = Promise.all(Array.from({ length: count }, work))
  return {
    /** What no good client may meet: anything but a plant, and 503 with Retry-After. */
    faults,
    created,
    /** How many creates got 503, and the longest time that a client was without a plant. */
    refusals: () => ({ refused, longestMs }),
    /** Returns the time in ms in which 99 of 100 creates had their response. */
    p99: () => times.toSorted((one, other) => one - other)[Math.floor(times.length * 0.99)] ?? 0,
    /** Lets each have its last response, and closes their connections. */
    async stop() {
      isOver = true
      await all
      agent.destroy()
    },
    /** Returns a line for each acknowledged plant that is not in the table exactly once. */
    async compare(databaseUrl: string): Promise<string[]> {
      const rows = await query(
        databaseUrl,
        `select name, count(*)::int from plants where name like 'good-%' group by name`
      )
      const counts = new Map(rows.map(({ name, count }) => [name, count]))
      return created.flatMap((name) =>
        counts.get(name) === 1 ? [] : [`${name} is stored ${counts.get(name) ?? 0} times`]
      )
    }
  }
}
