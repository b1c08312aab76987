/** `npm run bench -- bad-rows`: what clients whose rows are at fault cost 64 others; it only prints its result. */
import { connect } from 'node:net'
import pg from 'pg'
import { query } from '../harness/postgres/query.ts'
import { inEnvironment } from './environment.ts'
import { createClient, writeHead } from './load/open-loop.ts'
import { median } from './measure.ts'
import { readOptions } from './options.ts'
import { makeBody, plant } from './plant.ts'
import { formatNumber, formatTable } from './report.ts'
import { findProgram } from './server.ts'
import { cpuUs, familyCpuUs } from './usage.ts'

// A row that is tried until its deadline comes once in a window, which is as long. Commits take so many ms longer.
const { rounds, deadline, crowds, commits } = readOptions(
  { rounds: 5, deadline: 2_000, crowds: [1, 64, 256], commits: [0, 10] },
  { rounds: 1, deadline: 1_000, crowds: [1, 64], commits: [0] }
)
const connections = 64
/** What a trigger does with a plant of this name; `more` is as many more clients with good plants. */
const kinds: Record<string, string> = {
  more: 'null',
  // Its id has a row.
  taken: 'null',
  refused: 'raise check_violation',
  'damaged page': "raise sqlstate 'XX001'",
  'missing right': "raise sqlstate '42501'",
  'broken connection': "raise sqlstate '08006'",
  'ended session': 'perform pg_terminate_backend(pg_backend_pid())',
  'transaction time-out': "perform set_config('transaction_timeout', '300ms', true), pg_sleep(600)",
  endless: 'perform pg_sleep(600)',
  // Another session holds its id.
  locked: 'null'
}
/** Ids of bad clients are fixed where another session holds them, or has stored them. */
const lockedId = (client: number) => client + 1
const takenId = (client: number) => 1_000 + client
const mostCrowded = Math.max(...crowds)

const cases = Object.entries(kinds).map(([name, does]) => `when '${name}' then ${does};`)
const createTrigger = `
  create function fail() returns trigger language plpgsql as $$ begin
    case new.name ${cases.join('\n')} end case;
    return new;
  end $$;
  create trigger fail before insert on plants
  for each row when (new.name not in ('${plant.name}', '')) execute function fail()`

await inEnvironment(async ({ createDatabase, startServer, postgres }) => {
  const url = await createDatabase('bad_rows')
  await query(url, createTrigger)
  const holder = new pg.Client(url)
  await holder.connect()
  const insert = (first: number) =>
    `insert into plants select i, '', null, gen_random_uuid() from generate_series(${first}, ${first + mostCrowded - 1}) i`
  await holder.query(insert(takenId(0)))
  await holder.query(`begin; ${insert(lockedId(0))}`)
  const settings = { WRITE_DEADLINE_MS: String(deadline) }
  const server = await startServer({ ...findProgram('service'), settings }, url)
  const { hostname, port } = new URL(server.url)
  let lastId = 1_000_000

  /** Creates plants one after the other until `end`; returns how many of them, and how many creates failed. */
  function run(end: number, makeBody: () => string) {
    const counts = { created: 0, failed: 0 }
    const next = () => {
      if (performance.now() >= end) return void client.socket.end()
      const body = makeBody()
      client.send(writeHead(server.url, body.length) + body, 0)
    }
    const { promise, resolve } = Promise.withResolvers<typeof counts>()
    const onResponse = (_: unknown, outcome: string) => {
      counts[outcome === 'created' ? 'created' : 'failed']++
      next()
    }
    const client = createClient(connect(Number(port), hostname, next), onResponse, () => resolve(counts))
    return promise
  }

  /** Loads the service; returns what the clients have seen, and not those besides them. */
  async function measure(kind: string, crowd: number) {
    const cpu = () => cpuUs(server.pid) + familyCpuUs(Number(postgres.process.pid))
    const before = cpu()
    const end = performance.now() + deadline
    const idOf = (client: number) =>
      kind === 'locked' ? lockedId(client) : kind === 'taken' ? takenId(client) : ++lastId
    const others = Array.from({ length: crowd }, (_, client) =>
      run(end, kind === 'more' ? makeBody : () => JSON.stringify({ id: idOf(client), name: kind }))
    )
    const good = await Promise.all(Array.from({ length: connections }, () => run(end, makeBody)))
    const used = cpu() - before
    const sum = (what: 'created' | 'failed') => good.reduce((sum, counts) => sum + counts[what], 0)
    await Promise.all(others)
    return { created: sum('created'), cpu: used / sum('created'), errors: sum('failed') }
  }
  type Figures = Awaited<ReturnType<typeof measure>>

  /** Compares each kind with as many more good clients. */
  async function compare(crowd: number) {
    const taken = Object.keys(kinds).map((kind) => ({ kind, pairs: [] as [Figures, Figures][] }))
    await measure('more', crowd)
    for (let round = 1; round <= rounds; round++)
      for (const { kind, pairs } of taken)
        pairs.push([await measure('more', crowd), await measure(kind, crowd)])
    return taken.map(({ kind, pairs }) => {
      const ratios = (['created', 'cpu'] as const).map((figure) =>
        formatNumber(median(pairs.map(([calm, bad]) => bad[figure] / calm[figure])), 2)
      )
      return [kind, ...ratios, `${pairs.reduce((sum, [, bad]) => sum + bad.errors, 0)}`]
    })
  }

  await query(url, 'alter system set commit_siblings = 0')
  for (const commit of commits) {
    await query(url, `alter system set commit_delay = ${commit * 1_000}`)
    await query(url, 'select pg_reload_conf()')
    for (const crowd of crowds) {
      const title = `${crowd} more, commits of ${commit} ms more`
      const head = [title, 'creates/s of the others, ratio', 'CPU for each, ratio', 'their errors']
      process.stdout.write(`\n${formatTable([head, ...(await compare(crowd))])}\n`)
    }
  }
  await holder.end()
})
