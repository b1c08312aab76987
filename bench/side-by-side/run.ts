/** `npm run bench -- peers`: the service and the same operation on other frameworks and libraries, each alone, in turns. */
import { query } from '../../test/support/postgres/query.ts'
import { readVersion } from '../database.ts'
import { type Environment, inEnvironment } from '../environment.ts'
import { findGenerator } from '../load/http.ts'
import { describeMachine } from '../machine.ts'
import { median } from '../measure.ts'
import { readOptions } from '../options.ts'
import { publish } from '../report.ts'
import { measureInTurns, serverContestant, summarizeStarts } from '../turns.ts'
import { gatherFacts } from './gather-facts.ts'
import { installAll } from './install.ts'
import type { Running } from './interruptions.ts'
import { peers } from './peers.ts'
import { timeStartUp } from './start-up.ts'
import { formatPeers, type Result } from './tables.ts'

const { isQuick, ...turns } = readOptions(
  { starts: 3, seconds: 4, connections: [1, 64] },
  { starts: 1, seconds: 1, connections: [64] }
)
const generator = await findGenerator()

await inEnvironment(async (environment) => {
  await installAll(peers)
  const urls = await createDatabases(environment)
  const startUps = await timeStartUps(environment, urls)
  // Most of the peers refuse ids beyond 2^53, or round them.
  const contestants = peers.map(({ title, program }, index) =>
    serverContestant(environment, generator, {
      name: title,
      program,
      url: urls[index] as string,
      ids: 'safe'
    })
  )
  const taken = await measureInTurns(contestants, turns)
  const facts = await gatherFacts(environment, await startAll(environment, urls))

  const results: Result[] = peers.map(({ title }, index) => ({
    title,
    startUpMs: median(startUps[index] ?? []),
    load: summarizeStarts(taken[index] ?? [], turns.connections),
    facts: facts[index] ?? []
  }))
  const machine = describeMachine([await readVersion(environment.postgres.url('postgres')), generator.name])
  const errors = results.flatMap(({ load }) => load).reduce((sum, figures) => sum + figures.errors, 0)
  const { starts, seconds } = turns
  const data = { machine, starts, seconds, results }
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
  for (let start = 1; start <= turns.starts; start++) {
    for (const [index, peer] of peers.entries()) {
      const ms = await timeStartUp(peer, urls[index] as string, environment.directory)
      taken[index]?.push(ms)
      process.stdout.write(`start ${start}, ${peer.title}: ${Math.round(ms)} ms\n`)
    }
  }
  return taken
}

async function startAll(environment: Environment, urls: string[]): Promise<Running[]> {
  const running: Running[] = []
  for (const [index, { program }] of peers.entries()) {
    const databaseUrl = urls[index] as string
    running.push({ program, databaseUrl, server: await environment.startServer(program, databaseUrl) })
  }
  return running
}
