/** The load generator for HTTP: wrk where it is on the PATH, undici otherwise. */
import type { Load, LoadResult } from './load.ts'
import { loadByUndici, name } from './undici.ts'
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
  return wrk ? { name: wrk, load: loadByWrk } : { name, load: loadByUndici }
}
