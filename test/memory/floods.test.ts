/** Creates beside a flood: what anybody can send, and what one token can, keeps nobody else waiting. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { open, request } from '../../harness/http/raw.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { startMeasured } from './measured.ts'

/** Of a create in the middle, in ms: four times what is promised on two cores. */
const limitMs = scaled(1_000)
const creates = 60
const probes = 5
const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`
const wide = request(`{"id":1,"name":"n","x":[${'{},'.repeat(340_000)}{}]}`)

const floods: [what: string, connections: number, sent: string][] = [
  ['probes of 512 connections', 512, get('/livez')],
  ['probes of 2,900 connections', 2_900, get('/livez')],
  ['pipelined probes of 512 connections', 512, get('/livez').repeat(64)],
  ['64 readers of the document', 64, get('/openapi.json')],
  ['paths that are not there, of 512 connections', 512, get('/nope')],
  ['bodies of a megabyte of values, of 16 connections', 16, wide]
]

const service = await startMeasured(t, {}, { heapMb: 512 })
let lastId = 0

/** Returns the times of creates one after the other, in ms, sorted. */
async function measure(t: Test): Promise<number[]> {
  const client = await open(t, service.url)
  const times: number[] = []
  for (let count = 1; count <= creates; count++) {
    const began = performance.now()
    client.send(request(`{"id":${++lastId},"name":"n"}`))
    await once(client.socket, 'data')
    times.push(performance.now() - began)
  }
  t.equal((await client.responses(creates)).filter(({ status }) => status === 200).length, creates)
  return times.toSorted((one, other) => one - other)
}

for (const [what, connections, sent] of floods) {
  t.test(`beside ${what}, creates are served soon, and a balancer's probes, too`, async (t) => {
    const flood = spawn(
      process.execPath,
      [join(import.meta.dirname, 'flood.ts'), service.url, `${connections}`],
      {
        stdio: ['pipe', 'pipe', 'inherit']
      }
    )
    t.teardown(() => flood.kill('SIGKILL'))
    flood.stdin.end(sent)
    await once(flood.stdout, 'data')
    const times = await measure(t)
    const middle = times[creates / 2] as number
    t.ok(
      middle < limitMs,
      `${Math.round(middle)} ms in the middle, ${Math.round(times.at(-1) as number)} at the most`
    )
    const probe = await open(t, service.url)
    const probeTimes: number[] = []
    for (let count = 1; count <= probes; count++) {
      const began = performance.now()
      probe.send(get('/readyz'))
      t.equal((await probe.responses(count))[count - 1]?.body, '{"status":"ready"}')
      probeTimes.push(Math.round(performance.now() - began))
    }
    const sorted = probeTimes.toSorted((one, other) => one - other)
    // A promise of the one in the middle, and wide: `scaled` does not see what else runs on the machine.
    t.ok((sorted[(probes - 1) / 2] as number) < scaled(5_000), `${probeTimes} ms for probes of a connection`)
    flood.kill('SIGKILL')
    await service.shows('http_connections', 2)
  })
}
