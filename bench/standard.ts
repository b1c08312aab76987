/** `npm run bench`: the service, other servers and pgbench, in alternating rounds on one PostgreSQL. */
import { formatComparison, type Row, servers } from './comparison.ts'
import { readVersion } from './database.ts'
import { inEnvironment } from './environment.ts'
import { findGenerator } from './load/http.ts'
import { findPgbench, loadByPgbench } from './load/pgbench.ts'
import { describeMachine } from './machine.ts'
import { type Figures, firstWarmUp, measureOnEmptyTable, measureServer, summarize } from './measure.ts'
import { readOptions } from './options.ts'
import { publish } from './report.ts'

/** A server or pgbench, as it is measured. */
interface Measured {
  name: Row['name']
  measure(connections: number): Promise<Figures>
}

const { isQuick, rounds, seconds, connections } = readOptions(
  { rounds: 5, seconds: 4, connections: [1, 8, 64, 256] },
  { rounds: 1, seconds: 1, connections: [1, 8, 64, 256] }
)
const generator = await findGenerator()
const pgbench = await findPgbench()

await inEnvironment(async (environment) => {
  const url = await environment.createDatabase('plants')
  const all: Measured[] = []
  for (const name of servers) {
    const server = await environment.startServer(name, url)
    await generator.load(server.url, { ...firstWarmUp, ids: 'safe' })
    // Not every server keeps ids beyond 2^53 apart.
    const measure = (connections: number) =>
      measureServer(environment, generator, server, url, { connections, seconds, ids: 'safe' })
    all.push({ name, measure })
  }
  if (pgbench) {
    const subjects = { postgres: environment.postgres.process.pid }
    const load = () => loadByPgbench(pgbench, url, seconds, environment.directory)
    all.push({ name: 'pgbench', measure: () => measureOnEmptyTable(subjects, url, load) })
  }
  const measured = connections.flatMap((connections) =>
    all.map((one) => ({ ...one, connections, taken: [] as Figures[] }))
  )
  for (let round = 1; round <= rounds; round++) {
    // Each comes after another neighbour, whose pages may still be on their way to the disk.
    const turns = round % 2 === 0 ? measured.toReversed() : measured
    for (const { connections, name, measure, taken } of turns) {
      const figures = await measure(connections)
      taken.push(figures)
      const rate = Math.round(figures.plantsPerSecond)
      process.stdout.write(`round ${round}, ${connections} connections, ${name}: ${rate} plants/s\n`)
    }
  }
  const rows: Row[] = measured.map(({ connections, name, taken }) => ({
    connections,
    name,
    ...summarize(taken)
  }))
  const machine = describeMachine([
    await readVersion(environment.postgres.url('postgres')),
    generator.name,
    pgbench?.name ?? 'no pgbench'
  ])
  const data = { machine, rounds, seconds, rows }
  await publish('bench', {
    text: formatComparison(data),
    data,
    errors: rows.reduce((sum, row) => sum + row.errors, 0),
    isQuick
  })
})
