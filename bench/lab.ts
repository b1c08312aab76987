/** All that a benchmark starts, and its end: also after a failure and after Ctrl-C. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Server as Postgres } from '../dev/embedded-postgres.ts'
import { createDatabase, startDurablePostgres } from './database.ts'
import { type Server, type servers, startServer } from './server.ts'

/** Where a benchmark works. */
export interface Lab {
  /** A temporary directory on a disk. */
  directory: string
  postgres: Postgres
  /** Makes a migrated database and gives its URL. */
  createDatabase(name: string): Promise<string>
  startServer(
    name: keyof typeof servers,
    databaseUrl: string,
    settings?: Record<string, string>
  ): Promise<Server>
}

/** Does the work in a lab of its own, and clears the lab away. */
export async function inLab(work: (lab: Lab) => Promise<void>): Promise<void> {
  const ends: (() => Promise<void>)[] = []
  const end = async () => {
    for (let next = ends.pop(); next; next = ends.pop()) await next()
  }
  const interrupted = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => reject(new Error(`ended by ${signal}`)))
    }
  })
  interrupted.catch(() => {}) // it can come before anybody waits for it
  try {
    const directory = await mkdtemp(join(tmpdir(), 'plant-store-bench-'))
    ends.push(() => rm(directory, { recursive: true, force: true }))
    const postgres = await startDurablePostgres(directory)
    ends.push(() => postgres.stop())
    const lab: Lab = {
      directory,
      postgres,
      createDatabase: (name) => createDatabase(postgres.url, name),
      startServer: async (name, databaseUrl, settings) => {
        const server = await startServer(name, databaseUrl, directory, settings)
        ends.push(() => server.stop())
        return server
      }
    }
    await Promise.race([work(lab), interrupted])
  } finally {
    await end()
  }
}
