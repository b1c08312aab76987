/** `npm run bench`: the service, other servers and pgbench, in alternating rounds on one PostgreSQL. */
import { formatComparison, type Row } from './comparison.ts'
import { startContenders } from './contenders.ts'
import { readVersion } from './database.ts'
import { inEnvironment } from './environment.ts'
import { findGenerator } from './load/http.ts'
import { findPgbench } from './load/pgbench.ts'
import { describeMachine } from './machine.ts'
import { type Figures, summarize } from './measure.ts'
import { readOptions } from './options.ts'
import { publish } from './report.ts'

const { isQuick, rounds, seconds, connections } = readOptions(
  { rounds: 5, seconds: 4, connections: [1, 8, 64, 256] },
  { rounds: 1, seconds: 1, connections: [1, 8, 64, 256] }
)
const generator = await findGenerator()
const pgbench = await findPgbench()

await inEnvironment(async (environment) => {
  const contenders = await startContenders(environment, generator, pgbench)
  const measured = connections.flatMap((connections) =>
    contenders.map((contender) => ({ connections, contender, taken: [] as Figures[] }))
  )
  for (let round = 1; round <= rounds; round++) {
    // Each comes after another neighbour, whose pages may still be on their way to the disk.
    const turns = round % 2 === 0 ? measured.toReversed() : measured
    for (const { connections, contender, taken } of turns) {
      const figures = await contender.measure(connections, seconds)
      taken.push(figures)
      const rate = Math.round(figures.plantsPerSecond)
      process.stdout.write(
        `round ${round}, ${connections} connections, ${contender.name}: ${rate} plants/s\n`
      )
    }
  }
  const rows: Row[] = measured.map(({ connections, contender, taken }) => ({
    connections,
    contender: contender.name,
    ...summarize(taken)
  }))
  const machine = describeMachine([
    await readVersion(environment.postgres.url('postgres')),
    generator.name,
    pgbench?.name ?? 'no pgbench'
  ])
  await publish('bench', {
    text: [`${machine}. Medians of ${rounds} rounds of ${seconds} s.`, formatComparison(rows)].join('\n\n'),
    data: { machine, rounds, seconds, rows },
    errors: rows.reduce((sum, row) => sum + row.errors, 0),
    isQuick
  })
})
