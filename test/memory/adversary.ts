/**
 * An adversary: connections of all kinds that make the service hold something, among good clients, against a process
 * with a small heap. `--seed` repeats a run, `--minutes` lengthens it, `--kinds a,b` leaves out the others, and
 * `--shrink` looks for the fewest kinds that still fail, if all together do.
 */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect, parseArgs } from 'node:util'
import { connectTo } from '../../harness/http/raw.ts'
import { createRandom } from '../../harness/random/random.ts'
import { shrink } from '../../harness/random/shrink.ts'
import { type Teardown, withTeardown } from '../../harness/teardown.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { allKinds, drawScript, type Kind, type Script } from './attacks.ts'
import { startGoodClients } from './good-clients.ts'
import { startMeasured } from './measured.ts'

/** What decides a run, but for the machine's time. */
export interface Options {
  seed: number
  durationMs: number
  kinds: readonly Kind[]
}

/** What a run has found: no fault, or in words what was wrong. */
export interface Report {
  faults: string[]
  summary: string
}

const badConnections = 120
const goodClients = 60
/** How many connections of the adversary stay open to the end, whatever they have sent. */
const enoughStaying = 300
/** How many bytes each of these may hold when its requests are over. */
const idleBytes = 16_384
/** How long a connection of the adversary lives beyond what it sends, at most. */
const longestHoldMs = 3_000
const warmUpMs = 1_500
/** How long the log's reader reads, and does not read. */
const stallMs = 2_000
/**
 * The time for a create. What other callers hold always leaves room for one more, so no good client may be without a
 * plant for longer.
 */
const writeDeadlineMs = scaled(10_000)
/** How long the service may take to clear up after the clients. */
const restMs = 240_000
/** How long what nobody needs may be held while nobody is served. */
const settleMs = 10_000

/** Compiled code and caches that a first load leaves behind. */
export const marginBytes = 8 * 2 ** 20

export const secrets = {
  good: 'good-secret-0123456789',
  bad: 'bad-secret-0123456789',
  worse: 'worse-secret-0123456789'
}
/** The callers with these secrets, as AUTH_TOKENS lists them. */
export const callers = Object.entries(secrets).map(([caller, secret]) => `${caller}:${secret}`)
/** Limits on what clients may take their time with. */
export const limits = { HEADERS_TIMEOUT_MS: String(scaled(2_000)), REQUEST_TIMEOUT_MS: String(scaled(4_000)) }
/** What is 0 when nobody is served. */
export const loads = ['http_requests_in_flight', 'http_body_bytes', 'queue_rows', 'queue_bytes']

/** Attacks a service until it is over, on this many connections at a time. */
export function startAttack(
  url: string,
  { seed, kinds, connections }: Pick<Options, 'seed' | 'kinds'> & { connections: number },
  isOver: () => boolean
) {
  let scripts = 0
  const staying = new Set<Socket>()
  async function work() {
    while (!isOver()) {
      const index = scripts++
      const random = createRandom(seed + index)
      let id = index * 1_000
      // Many of one kind at a time hold more than few of each.
      const favourite = createRandom(seed - 1 - Math.floor(index / connections)).pick(kinds)
      const script = drawScript(random.oneIn(3) ? random.pick(kinds) : favourite, {
        random,
        id: () => ++id,
        caller: {
          authorization: random.pick([`Bearer ${secrets.bad}`, `Bearer ${secrets.worse}`, undefined])
        }
      })
      const stays = random.oneIn(3) && staying.size < enoughStaying
      const socket = await run(url, stays ? { ...script, end: 'close' } : script)
      if (!stays) await leave(socket, script, random.integer(longestHoldMs))
      else if (!socket.closed) staying.add(socket.once('close', () => staying.delete(socket)))
    }
  }
  return {
    /** Connections that are still open. */
    staying,
    scripts: () => scripts,
    done: Promise.all(Array.from({ length: connections }, work))
  }
}

/** Runs the adversary once; the process ends at teardown. */
export async function runAdversary(t: Teardown, { seed, durationMs, kinds }: Options): Promise<Report> {
  const service = await startMeasured(t, {
    ...limits,
    // Fewer than there can be connections: idle ones make room.
    MAX_CONNECTIONS: '400',
    WRITE_DEADLINE_MS: String(writeDeadlineMs),
    AUTH_TOKENS: callers.join(',')
  })
  const first = startGoodClients(service.url, secrets.good, goodClients, 2 ** 39)
  await sleep(warmUpMs)
  await first.stop()
  await service.shows('http_connections', 0)
  const before = await service.held()
  const good = startGoodClients(service.url, secrets.good, goodClients)
  // After a fault they may still be running. Nobody waits for them: the service may never respond.
  t.teardown(() => void good.stop())
  const end = performance.now() + durationMs
  let ended = false
  const exit = service.ended.then(({ code, stderr }) => {
    ended = true
    return `the process has ended with code ${code}: ${firstLine(stderr)}`
  })
  const isOver = () => ended || performance.now() >= end
  const { stdout } = service.child
  // A reader of the log that now and then reads nothing: the pipe holds a few lines.
  const stalls = setInterval(() => (stdout?.isPaused() ? stdout.resume() : stdout?.pause()), stallMs)
  const attack = startAttack(service.url, { seed, kinds, connections: badConnections }, isOver)
  await Promise.race([attack.done, exit])
  clearInterval(stalls)
  stdout?.resume()
  const restless = sleep(scaled(restMs), [`it does not come to rest within ${scaled(restMs)} ms`], {
    ref: false
  })
  const look = ended ? exit.then((fault) => [fault]) : lookAfterwards()
  look.catch(() => {})
  const faults = await Promise.race([look, exit.then((fault) => [fault]), restless])
  const { refused, longestMs } = good.refusals()
  const summary =
    `${attack.scripts()} connections; good clients: ${good.created.length} plants, ${refused} × 503, ` +
    `${Math.round(longestMs)} ms the longest time that a client was without, p99 ${Math.round(good.p99())} ms`
  return { faults, summary }

  /** Compares what the process holds and has promised, when all clients have gone, with what it should. */
  async function lookAfterwards(): Promise<string[]> {
    await good.stop()
    const found = [...new Set(good.faults)].slice(0, 5).map((fault) => `a good client met ${fault}`)
    const names = ['http_connections', ...loads, 'http_connections_held']
    const check = async () => {
      for (let idleSince = performance.now(); ; await sleep(250)) {
        const more = (await service.held()) - before
        const counts = await service.metrics(names)
        if (more <= marginBytes + Number(counts.http_connections) * idleBytes) return
        // What the clients that stay have sent may still wait in the kernel.
        if (loads.some((name) => counts[name] !== 0)) idleSince = performance.now()
        if (performance.now() - idleSince < scaled(settleMs)) continue
        const { external, resources } = await service.holds()
        const details = inspect({ external, ...counts, resources }, { breakLength: Number.POSITIVE_INFINITY })
        found.push(`${more.toLocaleString('en')} bytes more are held than before: ${details}`)
        return
      }
    }
    await check()
    for (const socket of attack.staying) socket.resetAndDestroy()
    // What they had sent may be read only now, and then be served, on a slow machine for long.
    const isAtRest = (counts: Record<string, unknown>) => names.every((name) => counts[name] === 0)
    await until('nobody is served', () => service.metrics(names), isAtRest, scaled(restMs))
    await check()
    const { longestMs } = good.refusals()
    const p99 = good.p99()
    if (p99 > writeDeadlineMs / 2)
      found.push(`99 of 100 creates of good clients took up to ${Math.round(p99)} ms`)
    if (longestMs > writeDeadlineMs)
      found.push(`a good client was without a plant for ${Math.round(longestMs)} ms`)
    // On a slow machine the deadline is longer than a short run.
    if (good.created.length < goodClients) found.push(`only ${good.created.length} plants were created`)
    found.push(...(await good.compare(service.databaseUrl)).slice(0, 5))
    return found
  }
}

const firstLine = (text: string) => /FATAL ERROR.*/.exec(text)?.[0] ?? text.slice(0, 500)

/** Carries a script out on a connection of its own, which stays open. */
async function run(url: string, { parts, gapMs, reads, end }: Script): Promise<Socket> {
  const socket = connectTo(url, { allowHalfOpen: true })
  socket.on('error', () => {})
  if (reads) socket.resume()
  for (const part of parts) {
    if (socket.destroyed) return socket
    socket.write(part, 'latin1')
    if (gapMs > 0) await sleep(gapMs)
  }
  if (end === 'half-close') socket.end()
  return socket
}

/** Ends a connection after a while, or when the service does. */
async function leave(socket: Socket, { end }: Script, holdMs: number) {
  if (!socket.closed) await Promise.race([once(socket, 'close').catch(() => {}), sleep(holdMs)])
  if (end === 'reset') socket.resetAndDestroy()
  else socket.destroy()
}

/** Runs the adversary with a teardown of its own. */
const runAlone = (options: Options): Promise<Report> =>
  withTeardown((t) => runAdversary(t, options)).catch((error: Error) => ({
    faults: [error.message],
    summary: ''
  }))

/** Runs these kinds, and prints whether they fail. */
async function fails(options: Options): Promise<boolean> {
  const { faults } = await runAlone(options)
  const verdict = faults.length > 0 ? 'fails' : 'holds'
  console.log([`${verdict}: ${options.kinds.join(', ')}`, ...faults].join('\n  '))
  return faults.length > 0
}

/** Reads the options from texts: those of the command line, or of the environment. */
export function readOptions(seed: string, minutes: string, kinds?: string): Options {
  const known = (kinds ? kinds.split(',') : allKinds).map((kind) => {
    if (!allKinds.includes(kind as Kind)) throw new Error(`no kind ${kind}: ${allKinds.join(', ')}`)
    return kind as Kind
  })
  return { seed: Number(seed), durationMs: Number(minutes) * 60_000, kinds: known }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
      minutes: { type: 'string', default: '0.5' },
      kinds: { type: 'string' },
      shrink: { type: 'boolean', default: false }
    }
  })
  const options = readOptions(values.seed, values.minutes, values.kinds)
  console.log(`seed ${options.seed}`)
  if (values.shrink) {
    const fewest = await shrink(options.kinds, (kinds) => fails({ ...options, kinds }))
    console.log(fewest ? `the fewest kinds: ${fewest.join(',')}` : 'no fault: nothing to shrink')
    process.exitCode = fewest ? 1 : 0
  } else {
    const { faults, summary } = await runAlone(options)
    console.log([summary, ...faults].join('\n'))
    process.exitCode = faults.length > 0 ? 1 : 0
  }
}
