/** One start: all servers in this process, turn by turn; writes the CPU time of a request of each as JSON. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { headers, makeBody } from '../plant.ts'
import { Connection } from './connection.ts'
import { startServers } from './servers.ts'

const [database, ...numbers] = process.argv.slice(2)
const [connections = 64, warmUps = 1500, windows = 250] = numbers.map(Number)
const requestsPerWindow = 64

const fields = Object.entries({ host: 'bench', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)

function makeRequest() {
  const body = makeBody('safe')
  const length = `content-length: ${body.length}\r\n`
  return Buffer.from(`POST /plants HTTP/1.1\r\n${fields.join('')}${length}\r\n${body}`)
}

/** Starts the thread that stands for PostgreSQL, and returns its URL. */
async function startPostgres(): Promise<string> {
  const [port] = await once(new Worker(new URL('./postgres.ts', import.meta.url)), 'message')
  return `postgres://bench@127.0.0.1:${port}/plants`
}

const nobody = new Int32Array(new SharedArrayBuffer(4))

/** Returns the CPU time of this thread, in µs. */
function cpuUs(): number {
  // Linux accounts for a thread's time when it sleeps, otherwise only every few milliseconds.
  Atomics.wait(nobody, 0, 0, 0.01)
  const { user, system } = process.threadCpuUsage()
  return user + system
}

function connect(name: string, server: Server) {
  let pending = 0
  let turn = Promise.withResolvers<void>()
  const onResponse = (response: string) => {
    if (!response.startsWith('HTTP/1.1 200 ')) turn.reject(new Error(`no success: ${response.slice(0, 500)}`))
    else if (--pending === 0) turn.resolve()
  }
  const opened = Array.from({ length: connections }, () => new Connection(server, onResponse))
  const taken: number[] = []
  return {
    name,
    taken,
    /** Sends the requests of a window, one at a time on each connection, and returns the CPU time of one in µs. */
    async run(): Promise<number> {
      const requests = Array.from({ length: requestsPerWindow }, makeRequest)
      const before = cpuUs()
      while (requests.length > 0) {
        turn = Promise.withResolvers()
        pending = connections
        for (const connection of opened) connection.send(requests.pop() as Buffer)
        await turn.promise
      }
      // What follows a response, such as its log line, is part of its cost.
      await setImmediate()
      return (cpuUs() - before) / requestsPerWindow
    }
  }
}

const servers = await startServers(database === 'socket' ? await startPostgres() : undefined)
const started = servers.map(([name, server]) => connect(name, server))
for (let window = -warmUps; window < windows; window++) {
  for (const { run, taken } of window % 2 ? started : started.toReversed()) {
    const us = await run()
    if (window >= 0) taken.push(us)
  }
}
const figures = started.map(({ name, taken }) => {
  // The mean, though others on the machine raise it: few windows collect garbage, and any percentile would leave that out.
  return { name, meanUs: taken.reduce((sum, us) => sum + us, 0) / taken.length }
})
process.stderr.write(`${JSON.stringify(figures)}\n`)
process.exit()
