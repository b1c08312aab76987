/** Runs a stack's faults under load, one after the other, and prints one table. */
import { randomInt } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Operation, selectRows } from '../../dev/histories/history.ts'
import { judgeHistory } from '../../dev/histories/judge.ts'
import { startRivals } from '../../dev/histories/rivals.ts'
import { until } from '../../dev/until.ts'
import { createRounds, type Overlap } from './overlap.ts'
import { type Finding, judge, type Outages, toRow, toTable } from './report.ts'
import { type Stack, settleMs } from './stack.ts'

/** What goes wrong, and how it is repaired. */
export interface Fault {
  name: string
  /** Runs under load. Throws when the stack does not react as it should. */
  strike(): Promise<unknown>
  /** Runs under load too, once creates succeed again: brings back what is gone, and waits for it. */
  repair?(): Promise<unknown>
  /** Whether the fault breaks connections of clients, which then send their requests again. */
  breaksClients?: boolean
  /** Known after the strike: when creates were not expected to succeed. By default they always are. */
  outages?(): Outages
  /** Known after the strike: which parts of it did nothing, and why. */
  idle?(): string[]
}

interface Options {
  stack: Stack
  /** What the summary calls it. */
  title: string
  /** The service and port that clients use. */
  entry: { service: string; port: number }
  /** How many replicas of the service there are. */
  replicas: number
  /** The service's WRITE_DEADLINE_MS. */
  deadlineMs: number
  faults: Fault[]
  /** Runs a query on `plants`, once every acknowledged row can be seen, and returns its lines. */
  query(sql: string): Promise<string[]>
  /** Throws when something else is wrong once the faults are over. */
  check?(): Promise<unknown>
}

const clients = 16
/** Creates that must succeed before and after each fault. */
const enough = 300
const idsPerFault = 10_000_000
/** Under a schedule a client rests, so that the machine has time for it, and now and then does not wait for a response. */
const pauseMs = 100
const impatience = { oneIn: 50, withinMs: 3_000 }

/**
 * Brings the stack up, runs each fault in the middle of a load, takes the stack down, and prints the table. The process
 * ends with 0, or with 1 when anything was not as promised.
 */
export async function runFaults({
  stack,
  title,
  entry,
  replicas,
  deadlineMs,
  faults,
  query,
  check
}: Options) {
  const violations: string[] = []
  const findings: Finding[] = []
  const operations: Operation[] = []
  const select = async (...range: number[]) =>
    (await query(selectRows(...range))).map((line) => JSON.parse(line))
  /** The balancer would hide one that has not recovered. */
  const everyReplicaCreates = () =>
    Promise.all(
      stack.takeIds(replicas).map((id, index) =>
        until(
          `replica ${index + 1} creates`,
          () => stack.createAt(index + 1, id),
          (body) => body === '{"name":"n"}',
          settleMs
        )
      )
    )
  const stop = async () => {
    await stack.down().catch((error) => violations.push(`the stack stays behind: ${error.message}`))
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void stop().finally(() => process.exit(1)))
  }
  try {
    say(`starting ${stack.name}`)
    await stack.up()
    const url = await stack.url(entry.service, entry.port)
    const token = await stack.token()
    await until('the service is ready', async () => (await fetch(`${url}/readyz`)).ok)
    for (const [index, fault] of faults.entries()) {
      say(fault.name)
      const firstId = (index + 1) * idsPerFault
      const { history, error } = await runFault({ url, token }, fault, firstId)
      operations.push(...history.operations)
      if (error) throw error
      await everyReplicaCreates()
      const rows = await select(firstId, firstId + idsPerFault - 1)
      const finding = judge({ fault: fault.name, history, rows, deadlineMs, outages: fault.outages?.() })
      say(JSON.stringify(finding.line))
      findings.push(finding)
    }
    await check?.()
    // What one fault has left can be gone after the next.
    const lost = judgeHistory(operations, await select(idsPerFault)).slice(0, 5)
    violations.push(...lost.map((violation) => `in the end: ${violation}`))
  } catch (error) {
    violations.push(error instanceof Error ? String(error.stack) : String(error))
    process.stderr.write(await stack.compose('logs', '--no-color', '--tail', '15').catch(String))
  } finally {
    await stop()
  }
  violations.push(...findings.flatMap((finding) => finding.violations))
  const lines = findings.map(({ line }) => line)
  if (lines.length > 0) process.stdout.write(`\n${toTable(lines)}\n`)
  const row = toRow(title, lines, violations.length)
  if (row !== undefined) process.stdout.write(`\n${row}\n`)
  for (const { name, idle } of faults)
    for (const what of idle?.() ?? []) process.stdout.write(`\n${name}: nothing was done at ${what}`)
  process.stdout.write('\n')
  for (const violation of violations) process.stdout.write(`\nFAILED: ${violation}\n`)
  if (violations.length > 0) {
    const path = join(tmpdir(), `${stack.name}.json`)
    await writeFile(path, operations.map((operation) => `${JSON.stringify(operation)}\n`).join(''))
    process.stdout.write(`\nevery request: ${path}\n`)
  }
  process.exitCode = violations.length === 0 ? 0 : 1
}

/**
 * Chooses faults by a script's arguments: all of `all`, those with an argument in their name, or with `--seed` the
 * overlapping ones of so many `--minutes`; `--short` is the `short` ones, and half a minute of any seed. After both come
 * the `last`.
 */
export function chooseFaults(
  { all, short, last }: Record<'all' | 'short' | 'last', Fault[]>,
  overlapping: Omit<Overlap, 'seed' | 'minutes'>
): Fault[] {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      // Read by the stack that has a form without a proxy.
      direct: { type: 'boolean' },
      short: { type: 'boolean' },
      seed: { type: 'string' },
      minutes: { type: 'string', default: '1' }
    }
  })
  if (values.short || values.seed !== undefined) {
    const seed = values.short ? randomInt(2 ** 31) : Number(values.seed)
    const minutes = values.short ? 0.5 : Number(values.minutes)
    return [...(values.short ? short : []), ...createRounds({ ...overlapping, seed, minutes }), ...last]
  }
  const chosen = [...all, ...last].filter(({ name }) => name.includes(positionals[0] ?? ''))
  if (chosen.length === 0) throw new Error(`no fault's name has "${positionals[0]}" in it`)
  return chosen
}

/** Returns the history also where the fault throws. */
async function runFault({ url, token }: Record<'url' | 'token', string>, fault: Fault, firstId: number) {
  const load = startRivals({
    urls: [url],
    token,
    clients,
    firstId,
    isRepeating: fault.breaksClients ?? false,
    ...(fault.outages && { pauseMs, impatience })
  })
  let error: unknown
  try {
    await load.succeed(enough)
    await fault.strike()
    await load.succeed(enough)
    await fault.repair?.()
    await load.succeed(enough)
  } catch (thrown) {
    error = thrown
  }
  return { history: await load.stop(), error }
}

function say(text: string) {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`)
}
