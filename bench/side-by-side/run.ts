/** `npm run bench:peers`: the service beside the same operation on other frameworks and libraries, in alternating rounds. */
import { countLost, firstWarmUp, measureServer } from '../contenders.ts'
import { query, readVersion } from '../database.ts'
import { inLab, type Lab } from '../lab.ts'
import { findGenerator } from '../load/http.ts'
import { describeMachine } from '../machine.ts'
import { type Figures, median, summarize } from '../measure.ts'
import { readOptions } from '../options.ts'
import { publish } from '../report.ts'
import { cases } from './cases.ts'
import { drawCharts } from './charts.ts'
import { contestants } from './contestants.ts'
import { type Fact, judge, prepare, readRows } from './facts.ts'
import { installAll } from './install.ts'
import { interruptDatabase, type Running, terminate } from './interruptions.ts'
import { post } from './post.ts'
import { timeStartUp } from './start-up.ts'
import { formatFacts, formatFootprint, formatLoad, type Result } from './tables.ts'

const { isQuick, rounds, seconds, connections } = readOptions(
  { rounds: 3, seconds: 4, connections: [1, 64] },
  { rounds: 1, seconds: 1, connections: [64] }
)
/** Most of the peers refuse ids beyond 2^53, or round them. */
const ids = 'safe'
const generator = await findGenerator()

await inLab(async (lab) => {
  const installed = await installAll(contestants, lab.directory)
  const urls = await createDatabases(lab)
  const startUps = await timeStartUps(lab, urls)
  const running: Running[] = []
  for (const [index, { program }] of contestants.entries()) {
    const databaseUrl = urls[index] as string
    const server = await lab.startServer(program, databaseUrl)
    await generator.load(server.url, { ...firstWarmUp, ids })
    running.push({ server, databaseUrl })
  }
  const loads = await measureAll(lab, running)
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
      `${machine}. Medians of ${rounds} rounds of ${seconds} s.`,
      formatLoad(results),
      formatFootprint(results),
      formatFacts(results)
    ].join('\n\n'),
    data: { machine, rounds, seconds, results },
    errors,
    isQuick
  })
  if (!isQuick && errors === 0) await drawCharts(results, machine)
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

async function measureAll(lab: Lab, running: Running[]) {
  const measured = connections.flatMap((connections) =>
    running.map(({ server, databaseUrl }, index) => ({
      connections,
      index,
      server,
      databaseUrl,
      taken: [] as Figures[]
    }))
  )
  for (let round = 1; round <= rounds; round++) {
    for (const { connections, index, server, databaseUrl, taken } of measured) {
      const load = { connections, seconds, ids }
      const figures = await measureServer(lab, generator, server, databaseUrl, load)
      taken.push(await countLost(figures, databaseUrl))
      const rate = Math.round(figures.plantsPerSecond)
      process.stdout.write(
        `round ${round}, ${connections} connections, ${contestants[index]?.title}: ${rate} plants/s\n`
      )
    }
  }
  return running.map((_, index) =>
    measured
      .filter((one) => one.index === index)
      .map(({ connections, taken }) => ({ connections, ...summarize(taken) }))
  )
}

async function gatherFacts(lab: Lab, running: Running[]): Promise<Fact[][]> {
  const facts: Fact[][] = []
  for (const { server, databaseUrl } of running) {
    const own: Fact[] = []
    for (const asked of cases) {
      await prepare(databaseUrl, asked.before)
      const outcome = await post(server.url, asked.body)
      own.push(judge(asked, outcome, await readRows(databaseUrl)))
    }
    facts.push(own)
  }
  const interrupted = await interruptDatabase(lab, running)
  const ended: Fact[] = []
  for (const one of running) ended.push(await terminate(one))
  return facts.map((own, index) => [...own, ...(interrupted[index] ?? []), ended[index] as Fact])
}
