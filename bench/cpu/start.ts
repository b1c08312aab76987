/** One start: all servers in this process, turn by turn; writes the time of a request of each as JSON. */
import { headers, makeBody } from '../plant.ts'
import { Connection } from './connection.ts'
import { type Name, servers } from './servers.ts'

const [connections = 64, warmUps = 1500, windows = 250] = process.argv.slice(2).map(Number)
const requestsPerWindow = 64

const fields = Object.entries({ host: 'bench', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)

function makeRequest() {
  const body = makeBody('safe')
  const length = `content-length: ${body.length}\r\n`
  return Buffer.from(`POST /plants HTTP/1.1\r\n${fields.join('')}${length}\r\n${body}`)
}

async function start(name: Name) {
  const server = await servers[name]()
  let pending = 0
  let resolve = () => {}
  const onResponse = () => {
    if (--pending === 0) resolve()
  }
  const opened = Array.from({ length: connections }, () => new Connection(server, onResponse))
  const taken: number[] = []
  return {
    taken,
    /** Sends the requests of a window, one at a time on each connection, and returns the time of one in µs. */
    async run(): Promise<number> {
      const requests = Array.from({ length: requestsPerWindow }, makeRequest)
      const began = performance.now()
      while (requests.length > 0) {
        const { promise, resolve: done } = Promise.withResolvers<void>()
        resolve = done
        pending = connections
        for (const connection of opened) connection.send(requests.pop() as Buffer)
        await promise
      }
      return ((performance.now() - began) * 1000) / requestsPerWindow
    }
  }
}

const started = []
for (const name of Object.keys(servers) as Name[]) started.push({ name, ...(await start(name)) })
for (let window = -warmUps; window < windows; window++) {
  for (const { run, taken } of window % 2 ? started : started.toReversed()) {
    const us = await run()
    if (window >= 0) taken.push(us)
  }
}
const figures = started.map(({ name, taken }) => {
  const sorted = taken.toSorted((a, b) => a - b)
  return {
    name,
    p10: sorted[Math.floor(sorted.length / 10)]
  }
})
process.stderr.write(`${JSON.stringify(figures)}\n`)
process.exit()
