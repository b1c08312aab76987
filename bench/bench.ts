/**
 * `npm run bench`: the service, the limit (bare servers over its group commit), the peers and
 * pgbench, each alone and in turns on one PostgreSQL. Prints the tables of docs/performance.md.
 * `npm run bench -- compare REVISION`: the service, and twice another revision of it: what differs
 * between these two is the noise of the machine. Options: --starts, --seconds, --connections 1,64.
 * `profile`, `grow`, `around`, `citus` and `waiting` are other benchmarks, in files of these names.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { execute, tryExecute } from '../test/support/execute.ts'
import { type Server, startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'
import { withDirectory } from './directory.ts'
import {
  type Column,
  describeMachine,
  describeStarts,
  type Figures,
  formatTable,
  measureInTurns,
  summarize,
  throwIfVoid
} from './measure.ts'
import {
  installPeers,
  limitPrograms,
  migrate,
  ownProgram,
  ownProgramByJwt,
  type Program,
  peers
} from './server.ts'

/** The figures that the tables show, with their digits. */
const shown: Column<Figures>[] = [
  ['plantsPerSecond', 'plants/s', 0],
  ['p50Ms', 'p50 ms', 1],
  ['p99Ms', 'p99 ms', 1],
  ['cpuUs', 'CPU µs/plant', 1]
]

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    starts: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '1,8,64,256' }
  }
})
const [starts, seconds] = [Number(values.starts), Number(values.seconds)]
const connections = values.connections.split(',').map(Number)
const [command, revision] = positionals
if (
  (command && !(command === 'compare' && revision)) ||
  ![starts, seconds, ...connections].every((n) => n > 0)
)
  throw new Error(
    'usage: npm run bench -- [compare REVISION] [--starts N] [--seconds N] [--connections N,N]'
  )

await withDirectory(async (directory, defer) => {
  // Fully durable; nothing else differs from PostgreSQL's defaults.
  const settings = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' }
  const postgres = await startPostgres({ directory, settings })
  defer(postgres.stop)
  await run(postgres, directory)
})

async function run({ url }: Server, directory: string) {
  const createDatabase = async (name: string) => {
    await query(url('postgres'), `create database ${name}`)
    return url(name)
  }
  /** The service in a directory, with a database by its own migrations. */
  const service = async (name: string, program: Program) => {
    const databaseUrl = await createDatabase(name)
    await migrate(program, databaseUrl)
    return { ...program, databaseUrl }
  }
  const own = await service('own', ownProgram())
  const contestants = [own]
  if (revision) {
    const other = await service('other', await buildRevision(revision, directory))
    contestants.push({ ...other, name: revision }, { ...other, name: `${revision} again` })
  } else {
    contestants.push(await service('jwt', ownProgramByJwt()))
    contestants.push(...limitPrograms.map((limit) => ({ ...limit, databaseUrl: own.databaseUrl })))
    await installPeers()
    const databaseUrl = await createDatabase('peers')
    await query(
      databaseUrl,
      'create table plants (id bigint primary key, name text not null, tag text)'
    )
    const pgbench = { name: 'pgbench', args: [], directory }
    const others = (await tryExecute('pgbench', ['--version'])) ? [...peers, pgbench] : peers
    contestants.push(...others.map((peer) => ({ ...peer, databaseUrl })))
  }
  const taken = await measureInTurns(contestants, { starts, seconds, connections, directory })
  const tables = shown.map(([figure, title, digits]) =>
    formatTable([
      [`${title}, by connections`, ...contestants.map(({ name }) => name)],
      ...connections.map((count, load) => [
        String(count),
        ...taken.map((rounds) =>
          summarize(
            rounds.map((figures) => figures[load]?.[figure]),
            digits
          )
        )
      ])
    ])
  )
  const method = `${describeStarts(starts)}, ${seconds} s each.`
  process.stdout.write(
    `\n${await describeMachine(url('postgres'))}. ${method}\n\n${tables.join('\n\n')}\n`
  )
  throwIfVoid(taken.flat(2))
}

/** Builds a revision that git knows, with the packages of its own lockfile. */
async function buildRevision(revision: string, directory: string): Promise<Program> {
  process.stdout.write(`building ${revision}\n`)
  const cwd = join(directory, 'revision')
  const lines = `mkdir "$0" && git archive "$1" | tar -x -C "$0" && cd "$0"
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run build`
  await execute('bash', ['-eo', 'pipefail', '-c', lines, cwd, revision], {
    cwd: ownProgram().directory
  })
  return ownProgram(cwd)
}
