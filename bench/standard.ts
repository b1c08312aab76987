/** `npm run bench`: the service, other servers and pgbench, each alone, in turns on one PostgreSQL. */
import { formatComparison, type Row, servers } from './comparison.ts'
import { readVersion } from './database.ts'
import { type Environment, inEnvironment } from './environment.ts'
import { findGenerator } from './load/http.ts'
import { findPgbench, loadByPgbench } from './load/pgbench.ts'
import { describeMachine } from './machine.ts'
import { measureOnEmptyTable } from './measure.ts'
import { readOptions } from './options.ts'
import { publish } from './report.ts'
import { findProgram } from './server.ts'
import { type Contestant, measureInTurns, serverContestant, summarizeStarts } from './turns.ts'

const { isQuick, ...turns } = readOptions(
  { starts: 5, seconds: 4, connections: [1, 8, 64, 256] },
  { starts: 1, seconds: 1, connections: [1, 8, 64, 256] }
)
const generator = await findGenerator()
const pgbench = await findPgbench()

await inEnvironment(async (environment) => {
  const url = await environment.createDatabase('plants')
  const contestants: (Contestant & { name: Row['name'] })[] = servers.map((name) => ({
    // Not every server keeps ids beyond 2^53 apart.
    ...serverContestant(environment, generator, { name, program: findProgram(name), url, ids: 'safe' }),
    name
  }))
  if (pgbench) contestants.push({ name: 'pgbench', measure: measurePgbench(pgbench, environment, url) })
  const taken = await measureInTurns(contestants, turns)
  const rows: Row[] = contestants
    .flatMap(({ name }, index) =>
      summarizeStarts(taken[index] ?? [], turns.connections).map((figures) => ({ ...figures, name }))
    )
    .toSorted((a, b) => a.connections - b.connections)
  const machine = describeMachine([
    await readVersion(environment.postgres.url('postgres')),
    generator.name,
    pgbench?.name ?? 'no pgbench'
  ])
  const data = { machine, starts: turns.starts, seconds: turns.seconds, rows }
  await publish('bench', {
    text: formatComparison(data),
    data,
    errors: rows.reduce((sum, row) => sum + row.errors, 0),
    isQuick
  })
})

/** Measures pgbench once for all numbers of connections: it has 10 clients. */
function measurePgbench(
  pgbench: NonNullable<Awaited<ReturnType<typeof findPgbench>>>,
  { postgres, directory }: Environment,
  url: string
): Contestant['measure'] {
  return async ({ connections, seconds }) => {
    const subjects = { postgres: postgres.process.pid }
    const load = () => loadByPgbench(pgbench, url, seconds, directory)
    const figures = await measureOnEmptyTable(subjects, url, load)
    return connections.map(() => figures)
  }
}
