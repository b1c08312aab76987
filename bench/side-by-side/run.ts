/** `npm run bench -- peers`: the service and the same operation on other frameworks and libraries, in alternating rounds. */
import { query } from '../../dev/query.ts'
import { readVersion } from '../database.ts'
import { type Environment, inEnvironment } from '../environment.ts'
import { findGenerator } from '../load/http.ts'
import { describeMachine } from '../machine.ts'
import { median } from '../measure.ts'
import { readOptions } from '../options.ts'
import { publish } from '../report.ts'
import { gatherFacts } from './gather-facts.ts'
import { installAll } from './install.ts'
import { peers } from './peers.ts'
import { measureAll, startAll } from './rounds.ts'
import { timeStartUp } from './start-up.ts'
import { formatPeers, type Result } from './tables.ts'

const { isQuick, rounds, seconds, connections } = readOptions(
  { rounds: 3, seconds: 4, connections: [1, 64] },
  { rounds: 1, seconds: 1, connections: [64] }
)
const generator = await findGenerator()

await inEnvironment(async (environment) => {
  const installed = await installAll(peers, environment.directory)
  const urls = await createDatabases(environment)
  const startUps = await timeStartUps(environment, urls)
  const running = await startAll(environment, generator, urls)
  const loads = await measureAll(environment, generator, running, { rounds, seconds, connections })
  const facts = await gatherFacts(environment, running)

  const results: Result[] = peers.map(({ title }, index) => ({
    title,
    installed: installed[index] as Result['installed'],
    startUpMs: median(startUps[index] ?? []),
    load: loads[index] ?? [],
    facts: facts[index] ?? []
  }))
  const machine = describeMachine([await readVersion(environment.postgres.url('postgres')), generator.name])
  const errors = results.flatMap(({ load }) => load).reduce((sum, figures) => sum + figures.errors, 0)
  const data = { machine, rounds, seconds, results }
  await publish('peers', { text: formatPeers(data), data, errors, isQuick })
})

/** The service has its own table; the peers share one without the column that only it needs. */
async function createDatabases(environment: Environment): Promise<string[]> {
  const own = await environment.createDatabase('plants')
  await query(environment.postgres.url('postgres'), 'create database peers')
  const shared = environment.postgres.url('peers')
  await query(shared, 'create table plants (id bigint primary key, name text not null, tag text)')
  return peers.map(({ program }) => (program.name === 'service' ? own : shared))
}

async function timeStartUps(environment: Environment, urls: string[]): Promise<number[][]> {
  const taken: number[][] = peers.map(() => [])
  for (let round = 1; round <= rounds; round++) {
    for (const [index, peer] of peers.entries()) {
      const ms = await timeStartUp(peer, urls[index] as string, environment.directory)
      taken[index]?.push(ms)
      process.stdout.write(`start ${round}, ${peer.title}: ${Math.round(ms)} ms\n`)
    }
  }
  return taken
}
