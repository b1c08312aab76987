/** The loads: wrk over HTTP, and pgbench on PostgreSQL itself, which shows what one insert a transaction can reach. */
import { randomInt } from 'node:crypto'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { execute, tryExecute } from '../test/support/execute.ts'

/** The secret of the caller `bench`. */
export const token = 'bench-secret-0123456789abcdef'

/** A body is these two with an id between them: about 60 bytes. All ids have one length. */
const [bodyStart, bodyEnd] = ['{"id":', ',"name":"Monstera","tag":"tropical"}']

/** What stands before an id's last nine digits: ids stay below 2^53, as most of the peers round others. */
const idStarts = ['1000000', '9007198']

/** What a load saw; NaN where it is not known. */
export interface LoadResult {
  /** How many creates were acknowledged. */
  readonly plants: number
  /** How long it took, in seconds. */
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Responses other than 200, time-outs and failed connections. */
  readonly errors: number
}

/** Returns the name and version of wrk. Throws where it is not on the PATH. */
export async function findWrk(): Promise<string> {
  const [, version] = /^wrk (\S+)/.exec((await tryExecute('wrk', ['--version'])) ?? '') ?? []
  if (version) return `wrk ${version}`
  throw new Error('wrk, which makes the load, is not on the PATH: apt-get install wrk, or brew install wrk')
}

/** Posts plants to `url`; each connection sends its next request when it has the response to the one before. */
export async function loadByWrk(url: string, connections: number, seconds: number): Promise<LoadResult> {
  const fields = ['-H', `authorization: Bearer ${token}`, '-H', 'content-type: application/json']
  const shape = ['-t', '1', '-c', `${connections}`, '-d', `${seconds}s`, '--timeout', '30s']
  const args = [`${randomInt(2 ** 32)}`, bodyStart, bodyEnd, ...idStarts]
  const script = join(import.meta.dirname, 'wrk.lua')
  const output = await execute('wrk', [...shape, ...fields, '-s', script, url, '--', ...args])
  const seen = JSON.parse(output.slice(output.lastIndexOf('\n{')))
  return {
    plants: seen.requests - seen.refused,
    seconds: seen.durationUs / 1e6,
    p50Ms: seen.p50Us / 1e3,
    p99Ms: seen.p99Us / 1e3,
    errors: seen.refused + seen.failed
  }
}

/** Finds pgbench on the PATH or where Debian keeps it; returns its path, name and version, or undefined without one. */
export async function findPgbench() {
  for (const command of ['pgbench', ...globSync('/usr/lib/postgresql/*/bin/pgbench')]) {
    const text = (await tryExecute(command, ['--version'])) ?? ''
    const [, version] = /^pgbench \(PostgreSQL\) (\S+)/.exec(text) ?? []
    if (version) return { command, name: `pgbench ${version}` }
  }
  return undefined
}

/** Inserts the same rows from 10 clients, with a prepared statement each. Throws if one of them fails. */
export async function loadByPgbench(command: string, url: string, seconds: number): Promise<LoadResult> {
  const shape = ['-n', '-M', 'prepared', '-c', '10', '-j', '1', '-T', `${seconds}`]
  const script = join(import.meta.dirname, 'pgbench.sql')
  const output = await execute(command, [...shape, '-f', script, url])
  const plants = Number(/actually processed: (\d+)/.exec(output)?.[1])
  return { plants, seconds, p50Ms: Number.NaN, p99Ms: Number.NaN, errors: 0 }
}
