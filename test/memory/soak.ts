/**
 * A soak: `node test/memory/soak.ts --minutes 60`. The service in one process with a small heap meets rivals, good
 * clients and the adversary at once, while its tokens and its password change and PostgreSQL restarts. It fails if any
 * response or row is wrong, or if the process holds more at rest afterwards than before.
 */
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { selectRows } from '../../harness/histories/history.ts'
import { judgeHistory } from '../../harness/histories/judge.ts'
import { startRivals } from '../../harness/histories/rivals.ts'
import { post } from '../../harness/http/post.ts'
import { createRole, query } from '../../harness/postgres/database.ts'
import { startServer } from '../../harness/postgres/server.ts'
import { token } from '../../harness/service/service.ts'
import { type Teardown, withTeardown } from '../../harness/teardown.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { callers, limits, loads, marginBytes, secrets, startAttack } from './adversary.ts'
import { allKinds } from './attacks.ts'
import { startGoodClients } from './good-clients.ts'
import { startMeasured } from './measured.ts'

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '2' }, seed: { type: 'string', default: '1' } }
})
const seed = Number(values.seed)
const badConnections = 30
const goodClients = 10
const rivals = { clients: 16, pauseMs: 50, isRepeating: true, impatience: { oneIn: 20, withinMs: 100 } }
/** In each round everything changes once. On a slow machine it takes longer. */
const roundMs = 30_000
const warmUpRounds = 2
const durationMs = Number(values.minutes) * 60_000
/** Rivals of different rounds have different ids, which no other client has. */
const firstIdOf = (round: number) => 2 ** 42 + round * 2 ** 20
const signals = ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const

const rotated = (index: number) => `rotated-secret-${index}-0123456789`
const tokensOf = (index: number) =>
  [`tester:${token}`, `rotated:${rotated(index)}`, `rotated:${rotated(index + 1)}`, ...callers].join('\n')

/** What the process holds when nobody is served. */
interface Rest {
  bytes: number
  /** Open files, and of each kind of resource. */
  counts: Record<string, number>
}

async function soak(t: Teardown) {
  const server = await startServer(t)
  const directory = await mkdtemp(join(tmpdir(), 'soak-'))
  t.teardown(() => rm(directory, { recursive: true }))
  const role = await createRole(t, server.url, 'password0')
  const [urlFile, tokensFile] = [join(directory, 'url'), join(directory, 'tokens')]
  const writeUrl = (password: string) => {
    const url = Object.assign(new URL(server.url), { username: role.name, password })
    return writeFile(urlFile, url.href)
  }
  await writeUrl('password0')
  await writeFile(tokensFile, tokensOf(0))
  const service = await startMeasured(t, {
    ...limits,
    WRITE_DEADLINE_MS: String(scaled(30_000)),
    DATABASE_URL: '',
    DATABASE_URL_FILE: urlFile,
    AUTH_TOKENS: '',
    AUTH_TOKENS_FILE: tokensFile
  })
  // The log of an hour is more than a text can hold.
  service.child.stdout?.removeAllListeners('data').resume()
  const connections = (more = '') =>
    query(server.url, `select from pg_stat_activity where application_name = 'plant-store' ${more}`)
  const faults: string[] = []
  let requests = 0

  /** Waits until nobody is served and one connection to the database is left, that of the probes; counts what there is then. */
  async function rest(): Promise<Rest> {
    for (const name of [...loads, 'http_connections']) await service.shows(name, 0)
    await until('one connection to the database is left', connections, hasLength(1))
    const { bytes, resources } = await service.holds()
    const files = (await readdir(`/proc/${service.child.pid}/fd`)).length
    return { bytes, counts: { files, ...resources } }
  }

  async function changeTokens(index: number) {
    await writeFile(tokensFile, tokensOf(index))
    const ask = async (secret: string) => {
      const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
      const outcome = await post(`${service.url}/plants`, `{"id":${2 ** 43 + index},"name":"n"}`, {
        headers: { ...headers, 'idempotency-key': 'k' },
        timeoutMs: scaled(60_000)
      })
      return JSON.stringify(outcome)
    }
    const isTaken = (outcome: string) => outcome.includes('"status":200')
    await until('the new token is taken', () => ask(rotated(index + 1)), isTaken)
    const revoked = await ask(rotated(index - 1))
    if (!revoked.includes('the bearer token is not valid')) faults.push(`the old token met ${revoked}`)
  }

  /** Either side may have the new password first. */
  async function changePassword(index: number) {
    const password = `password${index}`
    const steps = [() => role.setPassword(password), () => writeUrl(password)]
    const [{ now }] = await query(server.url, 'select now()::text')
    for (const step of index % 2 ? steps : steps.reverse()) await step()
    const old = () => connections(`and backend_start < '${now}'`)
    await until('all connections have the new password', old, hasLength(0))
  }

  async function change(index: number) {
    const began = performance.now()
    const firstId = firstIdOf(index)
    const load = startRivals({ urls: [service.url], token, firstId, seed: seed + index, ...rivals })
    await load.succeed(100)
    await changeTokens(index)
    await changePassword(index)
    // Until then there may be no connection that could be lost.
    await load.succeed(100)
    await server.down(signals[index % signals.length])
    await server.up()
    await load.succeed(100)
    await sleep(Math.max(0, roundMs - (performance.now() - began)))
    const { operations, failed } = await load.stop()
    const rows = await query(server.url, selectRows(firstId, firstIdOf(index + 1) - 1))
    requests += operations.length
    faults.push(
      ...judgeHistory(
        operations,
        rows.map(({ row }) => row)
      )
    )
    faults.push(...failed.map((operation) => `a rival failed: ${JSON.stringify(operation)}`))
    const { bytes } = await service.holds()
    console.log(
      `round ${index}: ${requests} requests of rivals, ${faults.length} faults, ${bytes} bytes held`
    )
  }

  let index = 0

  /** All clients at once, for some rounds. */
  async function load(isEnough: () => boolean) {
    const first = index + 1
    let isOver = false
    const good = startGoodClients(service.url, secrets.good, goodClients, first * 2 ** 40)
    const options = { seed: seed + first, kinds: allKinds, connections: badConnections }
    const attack = startAttack(service.url, options, () => isOver)
    while (!isEnough()) await change(++index)
    isOver = true
    await attack.done
    for (const socket of attack.staying) socket.resetAndDestroy()
    await good.stop()
    faults.push(...good.faults.slice(0, 20).map((fault) => `a good client met ${fault}`))
    faults.push(...(await good.compare(server.url)).slice(0, 20))
  }

  async function run() {
    await load(() => index === warmUpRounds)
    const before = await rest()
    console.log('before:', before)
    const end = performance.now() + durationMs
    await load(() => performance.now() >= end)
    const isBack = (after: Rest) => compare(before, after).length === 0
    const after = await until('it holds no more than before', rest, isBack).catch(rest)
    console.log('after:', after)
    faults.push(...compare(before, after))
  }

  const end = service.ended.then(({ code, stderr }) => {
    throw new Error(`the process has ended with ${code}: ${stderr.slice(0, 2_000)}`)
  })
  await Promise.race([run(), end]).catch((error: Error) => faults.push(error.message))
  return faults
}

/** Returns what there is more of. */
function compare(before: Rest, { bytes, counts }: Rest): string[] {
  const more = Object.entries(counts).filter(([what, count]) => count > (before.counts[what] ?? 0))
  const found = more.map(
    ([what, count]) => `${what}: ${before.counts[what] ?? 0} before, ${count} afterwards`
  )
  if (bytes > before.bytes + marginBytes)
    found.push(`${bytes - before.bytes} bytes more are held than before`)
  return found
}

const found = await withTeardown(soak)
console.log(found.length > 0 ? found.slice(0, 20).join('\n') : 'no fault')
// After a fault, its clients may still be running.
process.exit(found.length > 0 ? 1 : 0)
