/** Load by wrk, a generator in C: the least of the machine's time taken from what is measured. */
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { execute, tryExecute } from '../../test/support/execute.ts'
import { bodyEnd, bodyStart, headers, idStarts } from '../plant.ts'
import type { Load, LoadResult } from './load.ts'

const script = join(import.meta.dirname, 'wrk.lua')

/** Returns wrk's name and version, or undefined where it is not on the PATH. */
export async function findWrk(): Promise<string | undefined> {
  const [, version] = /^wrk (\S+)/.exec((await tryExecute('wrk', ['--version'])) ?? '') ?? []
  return version && `wrk ${version}`
}

/** Posts plants to `url`, from one thread. */
export async function loadByWrk(
  url: string,
  { connections, seconds, ids = 'int64' }: Load
): Promise<LoadResult> {
  const fields = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const shape = ['-t', '1', '-c', `${connections}`, '-d', `${seconds}s`, '--timeout', '30s']
  const seed = `${randomInt(2 ** 32)}`
  const args = [seed, bodyStart, bodyEnd, ...idStarts[ids].map(String)]
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
