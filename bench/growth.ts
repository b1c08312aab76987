/** `npm run bench -- growth`: the service on an empty table, and on tables that have grown, in alternating rounds. */
import { checkpoint, clear, fill, readVersion } from './database.ts'
import { inEnvironment } from './environment.ts'
import { findGenerator } from './load/http.ts'
import { describeMachine } from './machine.ts'
import { type Figures, measure, summarize } from './measure.ts'
import { readOptions } from './options.ts'
import { formatNumber, publish } from './report.ts'

const { isQuick, rows, rounds, seconds } = readOptions(
  { rows: [0, 1_000_000, 10_000_000], rounds: 3, seconds: 20 },
  { rows: [0, 10_000, 100_000], rounds: 1, seconds: 2 }
)
const connections = 64
const generator = await findGenerator()

await inEnvironment(async (environment) => {
  const tables = []
  for (const count of rows) {
    const url = await environment.createDatabase(`plants_${count}`)
    process.stdout.write(`filling a table with ${count} rows\n`)
    await fill(url, count)
    const server = await environment.startServer('service', url)
    await generator.load(server.url, { connections, seconds: 3 })
    tables.push({ rows: count, url, server, taken: [] as Figures[] })
  }
  for (let round = 1; round <= rounds; round++) {
    for (const { rows, url, server, taken } of tables) {
      if (rows === 0) await clear(url)
      await server.clearLog()
      await checkpoint(url)
      const load = () => generator.load(server.url, { connections, seconds })
      const figures = await measure({ postgres: environment.postgres.process.pid, server: server.pid }, load)
      taken.push(figures)
      process.stdout.write(`round ${round}, ${rows} rows: ${Math.round(figures.plantsPerSecond)} plants/s\n`)
    }
  }
  const results = tables.map(({ rows, taken }) => ({ rows, ...summarize(taken) }))
  const machine = describeMachine([await readVersion(environment.postgres.url('postgres')), generator.name])
  const lines = results.map(
    ({ rows, plantsPerSecond, p99Ms }) =>
      `- ${formatNumber(rows, 0)} rows: ${formatNumber(plantsPerSecond, 0)} plants/s, p99 ${formatNumber(p99Ms, 0)} ms`
  )
  await publish('growth', {
    text: [`${connections} connections, medians of ${rounds} rounds of ${seconds} s:`, ...lines].join('\n'),
    data: { machine, connections, rounds, seconds, rows: results },
    errors: results.reduce((sum, result) => sum + result.errors, 0),
    isQuick
  })
})
