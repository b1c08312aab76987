/**
 * `npm run bench -- profile`: where the CPU time of a create goes, in the service and in bare Fastify over its group commit,
 * in turns, by V8's profiler. Options: --connections, --seconds, --starts; --functions shows functions instead of parts.
 */
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'
import { withDirectory } from './directory.ts'
import { describeMachine, describeStarts, formatTable, loadByWrk, medianOf } from './measure.ts'
import { limitPrograms, migrate, ownProgram, type Program, startServer } from './server.ts'

const { values } = parseArgs({
  allowPositionals: true,
  options: {
    connections: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '8' },
    starts: { type: 'string', default: '3' },
    functions: { type: 'boolean', default: false }
  }
})
const [connections, seconds, starts] = [values.connections, values.seconds, values.starts].map(
  Number
) as [number, number, number]
if (![connections, seconds, starts].every((n) => n > 0))
  throw new Error(
    'usage: npm run bench -- profile [--connections N] [--seconds N] [--starts N] [--functions]'
  )

/** The load before the profile counts, in seconds at 64 connections: V8 compiles what is hot. */
const warmUpSeconds = 4
/** How often V8's profiler looks, in µs. */
const intervalUs = 200
/** Functions with less than this are left out, in µs a plant. */
const leastUs = 0.1

/** A part of a create's way, by the files and packages that do its work. The first that fits counts. */
const parts: [title: string, files: RegExp][] = [
  ['token and rate', /plugins\/auth|src\/tokens|jwt|bearer-auth|rate-limit|toad-cache/],
  [
    'log and metrics',
    /telemetry|deferred|src\/log\.|src\/metrics|pino|sonic-boom|client\/|node:fs/
  ],
  ['header, connection, end of a response', /src\/http\/(head|bare-app|connections|persistence)/],
  [
    'body: JSON, types, response',
    /src\/http\/(json|body)|schema|typebox|secure-json-parse|fast-json|anonymous/
  ],
  ['route, shares, write id', /plants\/(route|repository|plugin|write-id)|shares|src\/failures/],
  [
    'group commit and driver',
    /group-commit|src\/database|plants\/(sql-store|statements)|\/pg|bintrees/
  ],
  ['Fastify', /node_modules\/(fastify|find-my-way|@fastify|avvio|process-warning)/],
  ["Node's crypto", /node:internal\/crypto/],
  ["Node's HTTP", /node:_http|node:internal\/http/],
  ["Node's sockets, streams, events, buffers", /node:/],
  ['garbage collection', /^\(garbage collector\)$/],
  ['the system, and what the profiler cannot name', /./]
]

interface Profile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[]
  samples: number[]
  timeDeltas: number[]
  startTime: number
}

/** The clock of V8's profiles. */
const nowUs = () => Number(process.hrtime.bigint() / 1_000n)

/** Returns the µs a plant of each part, or of each function. */
function sumUp({ nodes, samples, timeDeltas, startTime }: Profile, span: Span) {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const sums = new Map<string, number>()
  let at = startTime
  samples.forEach((id, index) => {
    at += timeDeltas[index] ?? 0
    const { functionName = '', url = '', lineNumber = 0 } = frames.get(id) ?? {}
    if (at < span.from || at > span.to || functionName === '(idle)') return
    const place = (url || functionName).replace('/dist/', '/src/')
    const part = parts.find(([, files]) => files.test(place))?.[0] ?? ''
    const file = place.replace(/^.*\/(node_modules|src)\//, '')
    const key = values.functions ? `${file}:${lineNumber + 1} ${functionName}` : part
    // A sample stands for the time until the next one.
    sums.set(key, (sums.get(key) ?? 0) + (timeDeltas[index + 1] ?? 0) / span.plants)
  })
  return sums
}

/** The time of a load, by the clock of the profiles, and the plants that it stored. */
interface Span {
  from: number
  to: number
  plants: number
}

/** Profiles a server under the load. Returns the µs a plant of each part. */
async function profile(program: Program, databaseUrl: string, directory: string) {
  const profiles = join(directory, 'profiles')
  const flags = ['--cpu-prof', `--cpu-prof-interval=${intervalUs}`, `--cpu-prof-dir=${profiles}`]
  const args = [...flags, ...program.args]
  const server = await startServer({ ...program, args }, databaseUrl, directory)
  await loadByWrk(server.url, 64, warmUpSeconds)
  await loadByWrk(server.url, connections, 1)
  await query(databaseUrl, 'truncate plants')
  await query(databaseUrl, 'checkpoint')
  const from = nowUs()
  const { plants } = await loadByWrk(server.url, connections, seconds)
  const to = nowUs()
  await server.stop()
  const [file = ''] = await readdir(profiles)
  const text = await readFile(join(profiles, file), 'utf8')
  await rm(profiles, { recursive: true })
  return sumUp(JSON.parse(text), { from, to, plants })
}

await withDirectory(async (directory, defer) => {
  const settings = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' }
  const postgres = await startPostgres({ directory, settings })
  defer(postgres.stop)
  const own = ownProgram()
  const databaseUrl = postgres.url('own')
  await query(postgres.url('postgres'), 'create database own')
  await migrate(own, databaseUrl)
  const programs = [own, limitPrograms[0] as Program]
  const taken = programs.map((): Map<string, number>[] => [])
  for (let start = 0; start < starts; start++)
    for (const [index, program] of programs.entries())
      taken[index]?.push(await profile(program, databaseUrl, directory))
  const medians = (name: string) =>
    taken.map((rounds) => medianOf(rounds.map((sums) => sums.get(name) ?? 0)))
  const known = new Set(taken.flat().flatMap((sums) => [...sums.keys()]))
  const names = values.functions ? [...known] : parts.map(([title]) => title)
  const rows = names
    .map((name) => ({ name, us: medians(name) as [number, number] }))
    .filter(({ us }) => Math.max(...us) >= leastUs)
    .sort((a, b) => b.us[0] - b.us[1] - (a.us[0] - a.us[1]))
  const total = [0, 1].map((index) => rows.reduce((sum, { us }) => sum + (us[index] ?? 0), 0))
  const cells = [...rows, { name: 'all', us: total as [number, number] }].map(
    ({ name, us: [service, bare] }) => [
      name,
      ...[service, bare, service - bare].map((us) => us.toFixed(1))
    ]
  )
  const head = ['CPU µs a plant', ...programs.map(({ name }) => name), 'difference']
  process.stdout.write(
    `${await describeMachine(databaseUrl)}; ${connections} connections. ` +
      `${describeStarts(starts)}, ${seconds} s each.\n\n${formatTable([head, ...cells])}\n`
  )
})
