/** `npm run bench -- peers`: the service beside the same operation on other frameworks and libraries, in alternating rounds. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { query } from '../../dev/query.ts'
import { readVersion } from '../database.ts'
import { inLab, type Lab } from '../lab.ts'
import { findGenerator } from '../load/http.ts'
import { describeMachine } from '../machine.ts'
import { median } from '../measure.ts'
import { readOptions } from '../options.ts'
import { docs, publish } from '../report.ts'
import { chart, drawCharts } from './charts.ts'
import { contestants } from './contestants.ts'
import { gatherFacts } from './gather-facts.ts'
import { installAll } from './install.ts'
import { measureAll, startAll } from './rounds.ts'
import { timeStartUp } from './start-up.ts'
import { formatResults, type Result } from './tables.ts'

const { isQuick, rounds, seconds, connections } = readOptions(
  { rounds: 3, seconds: 4, connections: [1, 64] },
  { rounds: 1, seconds: 1, connections: [64] }
)
const generator = await findGenerator()

await inLab(async (lab) => {
  const installed = await installAll(contestants, lab.directory)
  const urls = await createDatabases(lab)
  const startUps = await timeStartUps(lab, urls)
  const running = await startAll(lab, generator, urls)
  const loads = await measureAll(lab, generator, running, { rounds, seconds, connections })
  const facts = await gatherFacts(lab, running)

  const results: Result[] = contestants.map(({ title }, index) => ({
    title,
    installed: installed[index] as Result['installed'],
    startUpMs: median(startUps[index] ?? []),
    load: loads[index] ?? [],
    facts: facts[index] ?? []
  }))
  const machine = describeMachine([await readVersion(lab.postgres.url('postgres')), generator.name])
  const errors = results.flatMap(({ load }) => load).reduce((sum, figures) => sum + figures.errors, 0)
  await publish('peers', {
    text: [
      chart,
      `${machine}. Medians of ${rounds} rounds of ${seconds} s; of the memory the most.`,
      formatResults(results)
    ].join('\n\n'),
    data: { machine, rounds, seconds, results },
    errors,
    isQuick
  })
  if (isQuick || errors > 0) return
  for (const [name, text] of Object.entries(drawCharts(results, machine))) {
    await writeFile(join(docs, name), text)
  }
})

/** The service has its own table; the peers share one without the column that only it needs. */
async function createDatabases(lab: Lab): Promise<string[]> {
  const own = await lab.createDatabase('plants')
  await query(lab.postgres.url('postgres'), 'create database peers')
  const shared = lab.postgres.url('peers')
  await query(shared, 'create table plants (id bigint primary key, name text not null, tag text)')
  return contestants.map(({ program }) => (program.name === 'service' ? own : shared))
}

async function timeStartUps(lab: Lab, urls: string[]): Promise<number[][]> {
  const taken: number[][] = contestants.map(() => [])
  for (let round = 1; round <= rounds; round++) {
    for (const [index, contestant] of contestants.entries()) {
      const ms = await timeStartUp(contestant, urls[index] as string, lab.directory)
      taken[index]?.push(ms)
      process.stdout.write(`start ${round}, ${contestant.title}: ${Math.round(ms)} ms\n`)
    }
  }
  return taken
}
