/**
 * `npm run bench`: the service, the peers and pgbench, each alone and in turns on one PostgreSQL. Prints the tables of
 * docs/performance.md. `npm run bench -- compare REVISION` is compare.ts. Options: --starts, --seconds, --connections 1,64.
 */
import { parseArgs } from 'node:util'
import { compare } from './compare.ts'
import { type Environment, inEnvironment } from './environment.ts'
import { findPgbench, findWrk, loadByPgbench } from './load.ts'
import {
  describeMachine,
  type Figures,
  formatNumber,
  formatTable,
  measureInTurns,
  measureOnEmptyTable,
  serverContestant,
  summarize
} from './measure.ts'
import { installPeers, ownProgram, peers } from './server.ts'

/** The figures that the tables show, with their digits. */
const shown: [figure: keyof Figures, title: string, digits: number][] = [
  ['plantsPerSecond', 'plants/s', 0],
  ['p50Ms', 'p50 ms', 1],
  ['p99Ms', 'p99 ms', 1],
  ['serverCpuUs', 'CPU µs/plant', 0],
  ['databaseCpuUs', 'PostgreSQL µs/plant', 0],
  ['peakMiB', 'peak MiB', 0]
]

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    starts: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '1,8,64,256' }
  }
})
const turns = {
  starts: Number(values.starts),
  seconds: Number(values.seconds),
  connections: values.connections.split(',').map(Number)
}
const [command, revision, ...rest] = positionals
const numbers = [turns.starts, turns.seconds, ...turns.connections]
if (rest.length > 0 || (command && command !== 'compare') || !numbers.every((each) => each > 0))
  throw new Error('usage: npm run bench -- [compare REVISION] [--starts N] [--seconds N] [--connections N,N]')

if (command) await compare(revision, turns)
else await inEnvironment(compareWithPeers)

async function compareWithPeers(environment: Environment) {
  const [wrk, pgbench] = [await findWrk(), await findPgbench()]
  await installPeers()
  const ownUrl = await environment.createDatabase('plants', ownProgram())
  const url = await environment.createPeersDatabase()
  const contestants = [
    serverContestant(environment, 'service', ownProgram(), ownUrl),
    ...peers.map((peer) => serverContestant(environment, peer.name, peer, url))
  ]
  if (pgbench)
    contestants.push({
      name: 'pgbench',
      // Once for all numbers of connections: it has 10 clients.
      async measure({ seconds }) {
        const load = () => loadByPgbench(pgbench.command, url, seconds)
        return [await measureOnEmptyTable({ postgres: environment.postgres.process.pid }, url, load)]
      }
    })
  const taken = await measureInTurns(contestants, turns)
  const machine = await describeMachine(environment, wrk, pgbench?.name ?? 'no pgbench')
  const of = (contestant: number, load: number) =>
    summarize((taken[contestant] ?? []).map((figures) => (figures[load] ?? figures[0]) as Figures))
  const tables = shown.map(([figure, title, digits]) =>
    formatTable([
      [`${title}, by connections`, ...contestants.map(({ name }) => name)],
      ...turns.connections.map((count, load) => [
        String(count),
        ...contestants.map((_, index) => formatNumber(of(index, load)[figure], digits))
      ])
    ])
  )
  const method = `Medians of ${turns.starts} starts, ${turns.seconds} s each; of the memory the most.`
  process.stdout.write(`\n${machine}. ${method}\n\n${tables.join('\n\n')}\n`)
  const errors = taken.flat(2).reduce((sum, { errors }) => sum + errors, 0)
  if (errors > 0) throw new Error(`void: ${errors} requests failed or were lost`)
}
