/** `npm run bench -- soak`: the service under full load for minutes; its memory at the start and at the end. */
import { setInterval } from 'node:timers/promises'
import { readVersion } from './database.ts'
import { inEnvironment } from './environment.ts'
import { findGenerator } from './load/http.ts'
import { floodByPipelining } from './load/pipelining.ts'
import { describeMachine } from './machine.ts'
import { median } from './measure.ts'
import { readOptions } from './options.ts'
import { formatNumber, publish } from './report.ts'
import { residentMiB } from './usage.ts'

const { isQuick, minutes, every } = readOptions({ minutes: 10, every: 10 }, { minutes: 0.5, every: 2 })
const connections = 64
/** Connections of clients that pipeline and never read. */
const pipelining = 100
const generator = await findGenerator()

await inEnvironment(async (environment) => {
  const server = await environment.startServer('watched', await environment.createDatabase('plants'))
  const samples: { residentMiB: number; heapMiB: number }[] = []
  const done = new AbortController()
  const watching = watch(done.signal)
  const { plants, errors } = await generator
    .load(server.url, { connections, seconds: Math.round(minutes * 60) })
    .finally(() => done.abort())
  await watching
  const memory = async () => ({
    heapMiB: (await server.readHeap()) / 2 ** 20,
    residentMiB: residentMiB(server.pid)
  })
  const before = await memory()
  let flooded = before
  await floodByPipelining(server.url, pipelining, 20, async () => {
    flooded = await memory()
  })

  // The first fifth is the warm-up.
  const fifth = Math.ceil(samples.length / 5)
  const start = samples.slice(fifth, 2 * fifth)
  const end = samples.slice(-fifth)
  const change = (what: 'residentMiB' | 'heapMiB') =>
    [start, end].map((part) => formatNumber(median(part.map((sample) => sample[what])), 1)).join(' to ')
  const machine = describeMachine([await readVersion(environment.postgres.url('postgres')), generator.name])
  await publish('soak', {
    text: [
      `${connections} connections for ${minutes} minutes, ${formatNumber(plants, 0)} plants:`,
      `- resident memory from ${change('residentMiB')} MiB, heap after a collection from ${change('heapMiB')} MiB`,
      `- under ${pipelining} connections that send 20,000 requests each and read nothing: resident memory from ${formatNumber(before.residentMiB, 1)} to ${formatNumber(flooded.residentMiB, 1)} MiB, heap after a collection from ${formatNumber(before.heapMiB, 1)} to ${formatNumber(flooded.heapMiB, 1)} MiB`
    ].join('\n'),
    data: {
      machine,
      connections,
      minutes,
      plants,
      samples,
      pipelining: { connections: pipelining, before, flooded }
    },
    errors,
    isQuick
  })

  async function watch(signal: AbortSignal) {
    try {
      for await (const _ of setInterval(every * 1000, undefined, { signal })) {
        const heapMiB = (await server.readHeap()) / 2 ** 20
        samples.push({ residentMiB: residentMiB(server.pid), heapMiB })
        await server.clearLog()
        process.stdout.write(
          `${samples.length * every} s: heap ${heapMiB.toFixed(1)} MiB, resident ${residentMiB(server.pid).toFixed(1)} MiB\n`
        )
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }
})
