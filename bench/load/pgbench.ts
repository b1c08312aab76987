/** Load by pgbench: the same rows, one prepared insert each, without any HTTP. */
import { globSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { execute, tryExecute } from '../../test/support/execute.ts'
import { plant } from '../plant.ts'
import type { LoadResult } from './load.ts'

const script = join(import.meta.dirname, 'pgbench.sql')
const clients = 10

/** A pgbench that is there. */
export interface Pgbench {
  command: string
  /** Its name and version. */
  name: string
}

/** Finds pgbench on the PATH or where Debian keeps it; returns undefined where it is not there. */
export async function findPgbench(): Promise<Pgbench | undefined> {
  for (const command of ['pgbench', ...globSync('/usr/lib/postgresql/*/bin/pgbench')]) {
    const [, version] =
      /^pgbench \(PostgreSQL\) (\S+)/.exec((await tryExecute(command, ['--version'])) ?? '') ?? []
    if (version) return { command, name: `pgbench ${version}` }
  }
  return undefined
}

/** Inserts plants from 10 clients; `directory` takes its transaction log. Throws when any of them fails. */
export async function loadByPgbench(
  { command }: Pgbench,
  databaseUrl: string,
  seconds: number,
  directory: string
): Promise<LoadResult> {
  const logs = await mkdtemp(join(directory, 'pgbench-'))
  const shape = [
    '-n',
    '-M',
    'prepared',
    '-c',
    `${clients}`,
    '-j',
    '1',
    '-T',
    `${seconds}`,
    '-l',
    '-f',
    script
  ]
  const row = Object.entries(plant).flatMap(([name, value]) => ['-D', `${name}=${value}`])
  await execute(command, [...shape, ...row, databaseUrl], { cwd: logs })
  const latencyUs = await readLatencies(logs)
  await rm(logs, { recursive: true })
  const percentile = (part: number) => (latencyUs[Math.floor(latencyUs.length * part)] ?? 0) / 1e3
  return { plants: latencyUs.length, seconds, p50Ms: percentile(0.5), p99Ms: percentile(0.99), errors: 0 }
}

/** Reads the log's third column: each transaction's time in µs (PostgreSQL manual, "pgbench", per-transaction logging). */
async function readLatencies(directory: string): Promise<Float64Array> {
  const texts = await Promise.all(
    (await readdir(directory)).map((file) => readFile(join(directory, file), 'utf8'))
  )
  const lines = texts.flatMap((text) => text.trimEnd().split('\n'))
  return Float64Array.from(lines, (line) => Number(line.split(' ')[2])).sort()
}
