/** `npm run bench -- neighbours`: what a well-behaved client feels beside others, and while the database is away. */
import { setTimeout as sleep } from 'node:timers/promises'
import { query } from '../test/support/postgres/query.ts'
import { readVersion } from './database.ts'
import { inEnvironment } from './environment.ts'
import { type Kind, kinds, startCrowd } from './load/crowd.ts'
import { loadOpenLoop, type OpenResult } from './load/open-loop.ts'
import { describeMachine } from './machine.ts'
import { formatNeighbours, type Row } from './neighbours-table.ts'
import { readOptions } from './options.ts'
import { plant } from './plant.ts'
import { publish } from './report.ts'

const { isQuick, seconds, rate, crowd } = readOptions(
  { seconds: 20, rate: 100, crowd: 64 },
  { seconds: 8, rate: 100, crowd: 64 }
)
/** Longer than the time without a database, so that every create is counted. */
const patienceSeconds = 15
const awayMs = 3_000

await inEnvironment(async (environment) => {
  const url = await environment.createDatabase('plants')
  await query(url, `alter table plants add check (name <> 'refused')`)
  await query(url, `insert into plants values (1, '${plant.name}', '${plant.tag}', gen_random_uuid())`)
  const server = await environment.startServer('service', url)
  const load = () =>
    loadOpenLoop(server.url, {
      perSecond: rate,
      warmUpSeconds: 1,
      seconds,
      connections: 500,
      patienceSeconds
    })

  const rows: Row[] = []
  function add(neighbour: string, result: OpenResult) {
    rows.push({ neighbour, ...result })
    process.stdout.write(`beside ${neighbour}: p99 ${Math.round(result.p99Ms)} ms\n`)
  }

  add('nobody', await load())
  for (const kind of Object.keys(kinds) as Kind[]) {
    const end = startCrowd({ url: server.url, kind, clients: crowd })
    add(`${crowd} clients: ${kind}`, await load().finally(end))
  }
  const away = sleep((seconds * 1_000) / 2).then(async () => {
    await environment.postgres.stop()
    await sleep(awayMs)
    await environment.restartPostgres()
  })
  const [result] = await Promise.all([load(), away])
  add(`the database away for ${awayMs / 1_000} s`, result)

  const machine = describeMachine([await readVersion(environment.postgres.url('postgres'))])
  const data = { machine, seconds, rate, rows }
  const errors = rows.reduce((sum, { failed }) => sum + failed, 0)
  await publish('neighbours', { text: formatNeighbours(data), data, errors, isQuick })
})
