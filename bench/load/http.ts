/** The load generator for HTTP: wrk where it is on the PATH, autocannon otherwise. */
import { createRequire } from 'node:module'
import { loadByAutocannon } from './autocannon.ts'
import type { Load, LoadResult } from './load.ts'
import { findWrk, loadByWrk } from './wrk.ts'

/** A generator that is there. */
export interface Generator {
  /** Its name and version. */
  name: string
  load(url: string, load: Load): Promise<LoadResult>
}

/** Finds the generator; only `name` says which of the two it is. */
export async function findGenerator(): Promise<Generator> {
  const wrk = await findWrk()
  if (wrk) return { name: wrk, load: loadByWrk }
  const { version } = createRequire(import.meta.url)('autocannon/package.json')
  return { name: `autocannon ${version}`, load: loadByAutocannon }
}
