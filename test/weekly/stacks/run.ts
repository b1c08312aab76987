/** Runs a stack's faults under load, one after the other, and prints one table. */
import { randomInt } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Operation, selectRows } from '../../support/histories/history.ts'
import { judgeHistory } from '../../support/histories/judge.ts'
import { type History, startRivals } from '../../support/histories/rivals.ts'
import { until } from '../../support/until.ts'
import { createRounds, type Overlap } from './overlap.ts'
import { type Finding, judge, type Outages, toRow, toTable } from './report.ts'
import { graceMs, type Stack, settleMs } from './stack.ts'

/** What goes wrong, and how it is repaired. */
export interface Fault {
  name: string
  /** Runs under load. Throws when the stack does not react as it should. */
  strike(): Promise<unknown>
  /** Runs under load too, once creates succeed again: brings back what is gone, and waits for it. */
  repair?(): Promise<unknown>
  /** Whether the fault breaks connections of clients, which then send their requests again. */
  breaksClients?: boolean
  /** Known after the strike: when creates were not expected to succeed at a form. By default they always are. */
  outages?(form: Form): Outages
  /** Known after the strike: which parts of it did nothing, and why. */
  idle?(): string[]
}

/** A form of the service: replicas behind a balancer, with clients and a judgement of their own. */
export interface Form {
  /** What the summary calls it. */
  title: string
  balancer: string
  /** Such as `api-2`. */
  replicas: string[]
  /** Whether its creates must succeed while these are hit, or were hit so short a time ago that they may not work yet. */
  isAvailable(hits: string[]): boolean
}

interface Options {
  stack: Stack
  forms: Form[]
  /** The service's WRITE_DEADLINE_MS. */
  deadlineMs: number
  faults: Fault[]
  /** Runs a query on `plants`, once every acknowledged row can be seen, and returns its lines. */
  query(sql: string): Promise<string[]>
  /** Throws when something else is wrong once the faults are over. */
  check?(): Promise<unknown>
}

/** Of all forms together. */
const clients = 16
/** Creates that must succeed at each form before and after each fault. */
const enough = 50
const idsPerLoad = 10_000_000
/** A client rests after each response, so that the machine has time for the fault. */
const pauseMs = 100
/** Under a schedule a client now and then does not wait for a response. */
const impatience = { oneIn: 50, withinMs: 3_000 }

/**
 * Brings the stack up, runs each fault in the middle of a load, takes the stack down, and prints the table. The process
 * ends with 0, or with 1 when anything was not as promised.
 */
export async function runFaults({ stack, forms, deadlineMs, faults, query, check }: Options) {
  const violations: string[] = []
  const findings = forms.map((): Finding[] => [])
  const operations: Operation[] = []
  const select = async (...range: number[]) =>
    (await query(selectRows(...range))).map((line) => JSON.parse(line))
  /** The balancer would hide one that has not recovered. */
  const everyReplicaCreates = () => {
    const replicas = forms.flatMap((form) => form.replicas)
    const ids = stack.takeIds(replicas.length)
    return until(
      `each of ${replicas} creates`,
      () => stack.createAt(replicas.map((replica, index) => ({ replica, id: ids[index] as number }))),
      (bodies) => bodies.length === replicas.length && bodies.every((body) => body === '{"name":"n"}'),
      settleMs
    )
  }
  const stop = async () => {
    await stack.down().catch((error) => violations.push(`the stack was not removed: ${error.message}`))
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void stop().finally(() => process.exit(1)))
  }
  try {
    say(`starting ${stack.name}, whose write deadline is ${deadlineMs / 1_000} s`)
    await stack.up()
    const urls = await Promise.all(forms.map(({ balancer }) => stack.url(balancer, 3000)))
    const token = await stack.token()
    for (const url of urls) {
      const isReady = async () => (await fetch(`${url}/readyz`)).ok
      await until('the service is ready', isReady)
    }
    for (const [number, fault] of faults.entries()) {
      say(fault.name)
      const firstIds = forms.map((_, index) => (1 + number * forms.length + index) * idsPerLoad)
      const { histories, error } = await runFault({ urls, token }, fault, firstIds)
      operations.push(...histories.flatMap((history) => history.operations))
      if (error) throw error
      await everyReplicaCreates()
      const [firstId = 0] = firstIds
      const stored = await select(firstId, firstId + forms.length * idsPerLoad - 1)
      for (const [index, form] of forms.entries()) {
        const rows = stored.filter(
          ({ id }) => Math.floor(Number(id) / idsPerLoad) * idsPerLoad === firstIds[index]
        )
        const [history, outages] = [histories[index] as History, fault.outages?.(form)]
        const finding = judge({ fault: fault.name, history, rows, deadlineMs, graceMs, outages })
        say(`${form.title} ${JSON.stringify(finding.line)}`)
        findings[index]?.push(finding)
      }
    }
    await check?.()
    // A row that survives one fault can be lost in the next.
    const lost = judgeHistory(operations, await select(idsPerLoad)).slice(0, 5)
    violations.push(...lost.map((violation) => `in the end: ${violation}`))
  } catch (error) {
    violations.push(error instanceof Error ? String(error.stack) : String(error))
    process.stderr.write(await stack.compose('logs', '--no-color', '--tail', '15').catch(String))
  } finally {
    await stop()
  }
  const isJudged = (index: number) => findings.every((found) => found.length > index)
  for (const [index, { name }] of faults.entries())
    if (!isJudged(index)) violations.push(`not judged: ${name}`)
  for (const [index, { title }] of forms.entries()) {
    const found = findings[index]?.flatMap((finding) => finding.violations) ?? []
    violations.push(...found.map((violation) => `${title}: ${violation}`))
  }
  for (const [index, { title }] of forms.entries()) {
    const lines = findings[index]?.map(({ line }) => line) ?? []
    if (lines.length > 0) process.stdout.write(`\n${title}\n${toTable(lines)}\n`)
    const row = toRow(title, lines, violations.length)
    if (row !== undefined) process.stdout.write(`\n${row}\n`)
  }
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
 * overlapping ones for this many `--minutes`; `--short` is the `short` ones, and half a minute of that seed or any, and prints
 * what it leaves out. After both come the `last`.
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
    const seed = Number(values.seed ?? randomInt(2 ** 31))
    const minutes = values.short ? 0.5 : Number(values.minutes)
    const others = values.short ? all.filter((fault) => !short.includes(fault)) : []
    for (const { name } of others) process.stdout.write(`left out: ${name}\n`)
    return [...(values.short ? short : []), ...createRounds({ ...overlapping, seed, minutes }), ...last]
  }
  const chosen = [...all, ...last].filter(({ name }) => name.includes(positionals[0] ?? ''))
  if (chosen.length === 0) throw new Error(`no fault's name has "${positionals[0]}" in it`)
  return chosen
}

/** Returns the histories even if the fault throws. */
async function runFault(
  { urls, token }: { urls: string[]; token: string },
  fault: Fault,
  firstIds: number[]
) {
  const loads = urls.map((url, index) =>
    startRivals({
      ...{ urls: [url], token, firstId: firstIds[index] as number, pauseMs },
      clients: clients / urls.length,
      isRepeating: fault.breaksClients ?? false,
      ...(fault.outages && { impatience })
    })
  )
  const succeed = () => Promise.all(loads.map((load) => load.succeed(enough)))
  let error: unknown
  try {
    await succeed()
    await fault.strike()
    await succeed()
    await fault.repair?.()
    await succeed()
  } catch (thrown) {
    error = thrown
  }
  return { histories: await Promise.all(loads.map((load) => load.stop())), error }
}

function say(text: string) {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`)
}
